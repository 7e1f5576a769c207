"""Opening a warehouse: which files are read, how runs are named, what a result gives."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from tests.sql.conftest import TWO_RUNS, mend_row
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import ManifestError, QueryError, WarehouseError
from xlahouse.ingest.schema import BY_NAME, LAYOUT_VERSION
from xlahouse.ingest.table import types
from xlahouse.sql import Warehouse
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


@pytest.mark.parametrize(
    ("year", "text"), [(-1, "0002-01-01 (BC)"), (1, "0001-01-01"), (290000, "290000-01-01")]
)
def test_any_year_is_listed(root: Path, year: int, text: str) -> None:
    # From year 1 to the UNIX epoch are 719,162 days; 400 years are 146,097, and 2000 began on day
    # 10,957: (290,000 - 2,000) / 400 * 146,097 + 10,957.
    days = {-1: -719_162 - 366 - 365, 1: -719_162, 290000: 105_200_797}[year]
    at = pa.array([days * 86_400_000_000], pa.int64()).cast(types()["time"])
    mend_row(root, lambda row: row.update(captured_at=at))
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
