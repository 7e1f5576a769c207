"""Opening a warehouse: which files are read, how runs are named, what a result gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.layers import first_few
from tests.sql.conftest import TWO_RUNS
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import ManifestError, QueryError, WarehouseError
from xlahouse.ingest.schema import BY_NAME, LAYOUT_VERSION
from xlahouse.ingest.table import types
from xlahouse.sql import Warehouse
from xlahouse.sql.blame import headline
from xlahouse.sql.check.check import check_warehouse
from xlahouse.sql.library import TABLES
from xlahouse.sql.settings import set_mesh
from xlahouse.sql.types import DUCKDB_TYPES


def test_a_folder_without_a_marker_is_no_warehouse(tmp_path: Path) -> None:
    with pytest.raises(WarehouseError, match=r"is not a warehouse.*xlahouse ingest"):
        Warehouse(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (text, "no layout_version")
        for text in (
            "{}",
            "damaged",
            "[1]",
            '{"layout_version": 1e400}',
            '{"layout_version": 1.5}',
            '{"layout_version": true}',
            '{"layout_version": 0}',
            "[" * 100_000,
        )
    ],
    ids=range(8),
)
def test_a_damaged_marker(root: Path, text: str, message: str) -> None:
    (root / "warehouse.json").write_text(text)
    with pytest.raises(WarehouseError, match=message):
        Warehouse(root)


def test_a_newer_layout(root: Path) -> None:
    (root / "warehouse.json").write_text(json.dumps({"layout_version": LAYOUT_VERSION + 1}))
    with pytest.raises(WarehouseError, match="upgrade"):
        Warehouse(root)


def test_an_empty_warehouse_has_typed_tables(tmp_path: Path) -> None:
    (tmp_path / "warehouse.json").write_text(json.dumps({"layout_version": LAYOUT_VERSION}))
    with Warehouse(tmp_path) as warehouse:
        assert warehouse.runs() == []
        for table in BY_NAME.values():
            described = warehouse.query(f"select * from {table.name}").arrow().schema
            assert described.names == table.schema.names
        assert warehouse.query("select * from run_summary").rows == []


def test_an_empty_table_has_the_types_of_a_full_one(tmp_path: Path) -> None:
    assert set(DUCKDB_TYPES) == set(types())
    empty = Warehouse(write_warehouse(tmp_path / "empty", {}))
    full = Warehouse(
        write_warehouse(tmp_path / "full", {name: [{}] for name in BY_NAME if name != "runs"})
    )
    for name in TABLES:
        sql = f"describe {name}"
        assert full.query(sql).rows == empty.query(sql).rows, name


def test_only_listed_files_count(root: Path) -> None:
    stray = root / "tables" / "ops" / "run_id=ab12" / "stray.parquet"
    listed = next((root / "tables" / "ops" / "run_id=ab12").glob("*.parquet"))
    stray.write_bytes(listed.read_bytes())
    assert Warehouse(root).query("select count(*) from ops").rows == [(1,)]


def test_files_that_a_query_does_not_name_are_not_read(root: Path) -> None:
    for path in (root / "tables" / "ops").rglob("*.parquet"):
        path.write_bytes(b"damaged")
    warehouse = Warehouse(root)
    assert warehouse.query("select count(*) from devices").rows == [(4,)]
    assert warehouse.query("select count(*) from run_mesh").rows == [(2,)]
    with pytest.raises(WarehouseError, match=r"too small to be a Parquet file; .* ingest"):
        warehouse.query("select count(*) from ops where run_id = 'ab12'").arrow()


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


def _mend(root: Path, change: Callable[[dict[str, pa.Array]], None], run: str = "ab12") -> None:
    """Rewrite a run's row with other columns."""
    path = root / "tables" / "runs" / f"{run}.parquet"
    columns = pq.ParquetFile(path).read().to_pydict()
    schema = BY_NAME["runs"].schema
    arrays = {field.name: pa.array(columns[field.name], field.type) for field in schema}
    change(arrays)
    pq.write_table(pa.table(arrays), path)


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
    _mend(root, change)
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
    _mend(root, lambda row: row.update(manifest=pa.array(["{" + "manifest" * 100 + "}"])))
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
    _mend(root, lambda row: row.pop("run_id"))
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
    _mend(root, lambda row: row.pop("options"))
    with Warehouse(root) as warehouse:
        rows = warehouse.query("select run_id, options from runs order by 1").rows
    assert rows == [("ab12", None), ("ab34", None)]


@pytest.mark.parametrize(
    ("year", "text"), [(-1, "0002-01-01 (BC)"), (1, "0001-01-01"), (290000, "290000-01-01")]
)
def test_any_year_is_listed(root: Path, year: int, text: str) -> None:
    # From year 1 to the UNIX epoch are 719,162 days; 400 years are 146,097, and 2000 began on day
    # 10,957: (290,000 - 2,000) / 400 * 146,097 + 10,957.
    days = {-1: -719_162 - 366 - 365, 1: -719_162, 290000: 105_200_797}[year]
    at = pa.array([days * 86_400_000_000], pa.int64()).cast(types()["time"])
    _mend(root, lambda row: row.update(captured_at=at))
    with Warehouse(root) as warehouse:
        (found,) = warehouse.runs(run_id="ab12")
        assert text in str(found["captured_at"])
        ((shown,),) = warehouse.query("select captured_at from runs where run_id = 'ab12'").rows
        assert text in str(shown)


def test_paths_with_quotes(tmp_path: Path) -> None:
    root = write_warehouse(tmp_path / "it's a [warehouse]", TWO_RUNS)
    assert Warehouse(root).query("select count(*) from devices").rows == [(4,)]


def test_a_run_id_folder_is_not_a_column(root: Path) -> None:
    (columns,) = {tuple(Warehouse(root).query("from ops").columns)}
    assert columns.count("run_id") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"mesh": [{"axis": "tp", "size": 9223372036854775808}]}', "correct or remove the file"),
        ("damaged", "correct or remove the file"),
        (None, "ab12.json cannot be read: Is a directory"),
    ],
)
def test_settings_that_cannot_be_read(root: Path, text: str | None, message: str) -> None:
    path = root / "settings" / "ab12.json"
    path.parent.mkdir()
    if text is None:
        path.mkdir()
    else:
        path.write_text(text)
    with Warehouse(root) as warehouse, pytest.raises(WarehouseError, match=message):
        warehouse.query("from run_settings")


def test_a_mesh_that_cannot_be_kept(root: Path) -> None:
    (root / "settings").write_text("in the way")
    with Warehouse(root) as warehouse, pytest.raises(WarehouseError, match="cannot be kept"):
        set_mesh(warehouse, "base", "tp=2")


def test_set_mesh_is_seen_by_the_next_query(root: Path) -> None:
    with Warehouse(root) as warehouse:
        run_id, axes = set_mesh(warehouse, "other", "dp=1,tp=2")
    assert (run_id, [axis.axis for axis in axes]) == ("ab34", ["dp", "tp"])
    found = Warehouse(root).query(
        "select axis, device_id, coordinate from run_mesh where run_id = 'ab34' order by all"
    )
    assert found.rows == [("dp", 0, 0), ("dp", 1, 0), ("tp", 0, 0), ("tp", 1, 1)]


@pytest.mark.parametrize(
    ("run", "text", "error", "message"),
    [
        ("base", "tp=3", ManifestError, "3 places, but the run names 2 devices"),
        ("base", "tp", ManifestError, "NAME=SIZE"),
        ("base", "tp=2,tp=1", ManifestError, "occurs twice"),
        ("base", ",".join(f"a{n}=1" for n in range(9)), ManifestError, "9 axes"),
        ("nobody", "tp=2", WarehouseError, "no run 'nobody'"),
    ],
)
def test_a_mesh_that_cannot_be(
    root: Path, run: str, text: str, error: type[Exception], message: str
) -> None:
    with Warehouse(root) as warehouse, pytest.raises(error, match=message):
        set_mesh(warehouse, run, text)
    assert not (root / "settings").exists()


def test_a_warehouse_in_memory(root: Path) -> None:
    import fsspec

    memory = fsspec.filesystem("memory")
    for path in root.rglob("*"):
        if path.is_file():
            memory.pipe_file(f"/wh/{path.relative_to(root)}", path.read_bytes())
    try:
        with Warehouse("memory://wh") as warehouse:
            assert warehouse.query("select count(*) from run_mesh").rows == [(2,)]
            with pytest.raises(QueryError):
                warehouse.query("from read_text('/etc/passwd')")
    finally:
        memory.rm("/wh", recursive=True)
