"""A damaged file or row of a warehouse costs its own run, and is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.layers import first_few
from tests.sql.conftest import mend_row
from xlahouse.capture.errors import QueryError, WarehouseError
from xlahouse.ingest.table import types
from xlahouse.sql import Warehouse
from xlahouse.sql.blame import headline
from xlahouse.sql.check.check import check_warehouse


def _footer(raw: bytes) -> int:
    return int.from_bytes(raw[-8:-4], "little") + 8


DAMAGE = {
    "no text": lambda raw: b"x" * 100,
    "footer": lambda raw: raw[:-12] + b"\xff" * 4 + raw[-8:],
    "length of the footer": lambda raw: raw[:-8] + b"\xff\xff\xff\x7f" + raw[-4:],
    # DuckDB's message lists the columns that there are.
    "a name that is not UTF-8": lambda raw: raw.replace(b"opcode", b"opc\xdd\xdde"),
    "pages": lambda raw: raw[:4] + b"\xff" * (len(raw) - _footer(raw) - 4) + raw[-_footer(raw) :],
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize(
    "sql",
    first_few(
        [
            "select length(op) from devices as d join ops as o using (run_id) where run_id = 'ab12'",
            "from ops where run_id = 'ab12'",
        ],
        1,
    ),
)
def test_a_damaged_file_is_named(root: Path, damage: str, sql: str) -> None:
    """DuckDB often says no more than `Invalid data`."""
    [path] = (root / "tables" / "ops").rglob("*.parquet")
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    said = r"run_id=ab12/part-0\.parquet.*; if an ingest .* else ingest the run again"
    with Warehouse(root) as warehouse, pytest.raises(WarehouseError, match=said):
        warehouse.query(sql).rows  # noqa: B018
    with Warehouse(root) as warehouse, pytest.raises(QueryError, match="Could not convert"):
        warehouse.query("select cast(run_id as int) from devices").rows  # noqa: B018


def test_an_error_is_told_without_the_names_of_its_classes() -> None:
    assert (
        headline(OSError("Invalid Input Error: TProtocolException: Invalid data!"))
        == "Invalid data"
    )


@pytest.mark.parametrize("damage", first_few(DAMAGE, 2))
@pytest.mark.parametrize("kept", [(), ("run_mesh",)], ids=["one query", "kept views"])
def test_a_damaged_file_costs_its_own_run(root: Path, damage: str, kept: tuple[str, ...]) -> None:
    """Of all tables, so that no view takes it for a run without ops; and only that run."""
    [path] = (root / "tables" / "ops").rglob("*.parquet")
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    said: list[str] = []
    with Warehouse(root, said.append) as opened, opened.keeping(kept) as warehouse:
        assert warehouse.query("select count(distinct run_id) from devices").rows == [(2,)]
        ops = "select count(distinct d.run_id), max(o.op) from devices as d left join ops as o using (run_id)"
        assert warehouse.query(ops).rows == [(1, None)]
        assert warehouse.query("select run_id from runs").rows == [("ab34",)]
        assert warehouse.query("from run_mesh").rows == []  # that of the other run alone
    (line,) = said
    assert "run_id=ab12/part-0.parquet is damaged" in line
    assert line.endswith("its run base is left out; ingest the run again")
    assert warehouse.damaged == (line,)


def test_a_file_of_texts_for_numbers_costs_its_own_run(root: Path) -> None:
    """DuckDB casts where a query counts on a number: the error is that of a cast, and names no file."""
    [path] = (root / "tables" / "devices" / "run_id=ab12").glob("*.parquet")
    columns = pq.ParquetFile(path).read()
    texts = pa.array(["x"] * columns.num_rows)
    pq.write_table(
        columns.set_column(columns.column_names.index("device_id"), "device_id", texts), path
    )
    said: list[str] = []
    with Warehouse(root, said.append) as warehouse:
        rows = warehouse.query("select run_id, sum(device_id) from devices group by all").rows
    assert [run_id for run_id, _ in rows] == ["ab34"]
    (line,) = said
    assert "run_id=ab12/part-0.parquet is damaged" in line


def test_a_damaged_file_costs_nothing_of_a_query_about_others(root: Path) -> None:
    [path] = (root / "tables" / "ops").rglob("*.parquet")
    path.write_bytes(b"damaged")
    with Warehouse(root, lambda line: None) as warehouse:
        assert warehouse.query("select op from ops where run_id = 'ab34'").rows == []
    with Warehouse(root) as warehouse, pytest.raises(WarehouseError, match="ingest the run again"):
        warehouse.of_run("ab12").query("from ops").arrow()


def test_a_column_that_a_file_lacks_is_of_a_table_with_files(root: Path) -> None:
    """`program_collectives` has the column too, and no run of it."""
    [path] = (root / "tables" / "devices" / "run_id=ab12").glob("*.parquet")
    columns = pq.ParquetFile(path).read()
    pq.write_table(columns.drop_columns(["device_id"]), path)
    sql = "select count(d.device_id) from devices as d left join program_collectives as c using (device_id)"
    with Warehouse(root) as warehouse:
        assert warehouse.query(sql).rows == [(2,)]


def test_a_vanished_file(root: Path) -> None:
    warehouse = Warehouse(root)
    for path in (root / "tables" / "ops").rglob("*.parquet"):
        path.unlink()
    with pytest.raises(WarehouseError, match=r"part-0.parquet is missing; .* ingest"):
        warehouse.query("from ops").arrow()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda row: row.update(captured_at=pa.array(["x"])), "captured_at is string"),
        (lambda row: row.update(layers=pa.array([1.5])), "layers is double"),
        (lambda row: row.update(files=pa.array(["x"])), "files is string"),
        (lambda row: row.update(run_id=pa.array(["other"])), "not the row of this one run"),
        (lambda row: row.pop("run_id"), "not the row of this one run"),
        (
            lambda row: row.update(
                files=pa.array(
                    [[{"table": "ops", "path": "tables/../../x", "rows": 1}]], types()["files"]
                )
            ),
            "which is not of this warehouse",
        ),
    ],
)
def test_a_damaged_row_costs_its_own_run(
    root: Path, change: Callable[[dict[str, pa.Array]], None], reason: str
) -> None:
    mend_row(root, change)
    said: list[str] = []
    with Warehouse(root, said.append) as warehouse:
        assert warehouse.query("select run_id from runs").rows == [("ab34",)]
        assert warehouse.query("select distinct run_id from devices").rows == [("ab34",)]
    assert len(said) == 1
    assert "ab12.parquet is damaged" in said[0]
    assert reason in said[0]
    assert "remove the file and ingest the run again" in said[0]


def test_damage_in_a_column_of_a_row_costs_its_own_run(root: Path) -> None:
    """The manifest's page alone is damaged: names and files can be read, the whole row cannot."""
    mend_row(root, lambda row: row.update(manifest=pa.array(["{" + "manifest" * 100 + "}"])))
    path = root / "tables" / "runs" / "ab12.parquet"
    group = pq.ParquetFile(path).metadata.row_group(0)
    columns = map(group.column, range(group.num_columns))
    (column,) = (each for each in columns if each.path_in_schema == "manifest")
    begin = column.dictionary_page_offset or column.data_page_offset
    raw = bytearray(path.read_bytes())
    raw[begin : begin + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(raw)
    said: list[str] = []
    with Warehouse(root, said.append) as warehouse:
        assert warehouse.query("from runs").arrow()["run_id"].to_pylist() == ["ab34"]
        assert warehouse.query("select distinct run_id from devices").rows == [("ab34",)]
    (line,) = said
    assert "ab12.parquet is damaged" in line
    with Warehouse(root) as warehouse, pytest.raises(WarehouseError, match=r"ab12\.parquet"):
        warehouse.query("from runs where run_id = 'ab12'").arrow()


def test_a_damaged_row_is_an_error_of_check(root: Path) -> None:
    """Whatever is damaged in it: the line is that of the warehouse."""
    mend_row(root, lambda row: row.pop("run_id"))
    said: list[str] = []
    with Warehouse(root, said.append) as warehouse:
        checked = check_warehouse(warehouse)
    assert checked.errors == 1
    assert checked.lines[0] == f"error    {said[0]}"


def test_a_run_that_is_left_out_is_never_left_out_silently(root: Path) -> None:
    (root / "tables" / "runs" / "ab12.parquet").write_bytes(b"damaged")
    with pytest.warns(UserWarning, match=r"ab12.parquet is damaged"):
        assert [run["run_id"] for run in Warehouse(root).runs()] == ["ab34"]


@pytest.mark.parametrize("column", ["run_id", "framework", "options"])
def test_a_row_with_a_name_that_is_not_utf8_costs_its_own_run_at_most(
    root: Path, column: str
) -> None:
    """A row without a column that no other depends on is as of an older version."""
    path = root / "tables" / "runs" / "ab12.parquet"
    name = column.encode()
    path.write_bytes(path.read_bytes().replace(name, name[:-2] + b"\xdd\xdd"))
    with Warehouse(root, lambda line: None) as warehouse:
        names = warehouse.query("select run_id from runs order by 1").rows
        assert ("ab34",) in names
        assert warehouse.query("select distinct run_id from devices order by 1").rows == names
        assert warehouse.query("from runs where run_id = 'ab34'").arrow().num_rows == 1


def test_a_row_of_an_older_ingest_lacks_columns_and_counts(root: Path) -> None:
    mend_row(root, lambda row: row.pop("options"))
    with Warehouse(root) as warehouse:
        rows = warehouse.query("select run_id, options from runs order by 1").rows
    assert rows == [("ab12", None), ("ab34", None)]
