"""One file for other clients of DuckDB: holds the rows, or reads the warehouse where it lies."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import polars as pl
import pytest

from tests.kept import INTERNAL
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.schema import BY_NAME, INGEST_VERSION
from xlahouse.ingest.store.store import Store
from xlahouse.sql import Warehouse
from xlahouse.sql.export.duckdb_file import write_duckdb
from xlahouse.sql.library import Library, shipped

GIVEN = {
    "runs": [{"run_id": "a", "name": "it's a"}, {"run_id": "b", "name": "b"}],
    "devices": [
        {"run_id": run, "device_id": device, "logical_id": device, "world": 0}
        for run in "ab"
        for device in (0, 1)
    ],
    "run_settings": [
        {"run_id": run, "mesh": [{"axis": "tp", "size": 2}], "device_kind": "v4"} for run in "ab"
    ],
}
MESH = "select run_id, axis, device_id, coordinate from run_mesh order by all"
ROWS = [("a", "tp", 0, 0), ("a", "tp", 1, 1), ("b", "tp", 0, 0), ("b", "tp", 1, 1)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_warehouse(tmp_path / "it's w", GIVEN)


FEW = Library({view.name: view for view in shipped().closure({"run_mesh"})[1]})


def export(
    root: Path, path: Path, copy: bool, runs: str = "ab", library: Library = FEW
) -> str | None:
    """Export some runs with some views: creating all of them takes seconds."""
    with Warehouse(root) as warehouse:
        warehouse.library = library
        return write_duckdb(warehouse, list(runs), path, copy)


def ask(path: Path, sql: str) -> list[tuple[object, ...]]:
    with duckdb.connect(str(path), read_only=True) as connection:
        return connection.execute(sql).fetchall()


@pytest.mark.verify
@pytest.mark.parametrize("copy", [False, True])
def test_views_answer_as_in_the_warehouse(root: Path, tmp_path: Path, copy: bool) -> None:
    export(root, tmp_path / "x.duckdb", copy, library=shipped())
    assert ask(tmp_path / "x.duckdb", MESH) == ROWS
    with (
        Warehouse(root) as whole,
        whole.keeping(INTERNAL) as warehouse,
        duckdb.connect(str(tmp_path / "x.duckdb"), read_only=True) as exported,
    ):
        for view in warehouse.library.pointers:
            sql = f"from {view}"
            ours, theirs = warehouse.query(sql).rows, exported.execute(sql).fetchall()
            assert sorted(ours, key=repr) == sorted(theirs, key=repr), view
    described = dict(
        ask(
            tmp_path / "x.duckdb",
            "select column_name, comment from duckdb_columns() where table_name = 'devices'",
        )
    )
    assert described == {column.name: column.meaning for column in BY_NAME["devices"].columns}


def test_a_copy_survives_the_warehouse(root: Path, tmp_path: Path) -> None:
    assert export(root, tmp_path / "x.duckdb", copy=True) is None
    shutil.rmtree(root)
    assert ask(tmp_path / "x.duckdb", MESH) == ROWS


def test_one_line_points_it_to_another_place(root: Path, tmp_path: Path) -> None:
    line = export(root, tmp_path / "x.duckdb", copy=False)
    root.rename(tmp_path / "moved")
    with pytest.raises(duckdb.IOException, match="No files found"):
        ask(tmp_path / "x.duckdb", MESH)
    quoted = str(root).replace("'", "''")
    assert line == f"create or replace macro xlahouse_place() as '{quoted}';"
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        connection.execute(line.replace(quoted, str(tmp_path / "moved")))
    assert ask(tmp_path / "x.duckdb", MESH) == ROWS


@pytest.mark.parametrize("copy", [False, True])
def test_only_the_runs_that_are_named(root: Path, tmp_path: Path, copy: bool) -> None:
    export(root, tmp_path / "x.duckdb", copy, runs="b")
    assert ask(tmp_path / "x.duckdb", "select run_id from runs") == [("b",)]
    assert ask(tmp_path / "x.duckdb", "select distinct run_id from devices") == [("b",)]
    assert ask(tmp_path / "x.duckdb", "select run_id from run_settings") == [("b",)]


def test_it_opens_while_an_ingest_writes(root: Path, tmp_path: Path) -> None:
    """The files of an attempt lie in the warehouse, and no run's row lists them yet."""
    export(root, tmp_path / "before.duckdb", copy=False)
    store = Store(str(root))
    attempt = store.begin("c")
    attempt.write("devices", pl.DataFrame({"device_id": [0], "logical_id": [0], "world": [0]}))
    export(root, tmp_path / "during.duckdb", copy=False)
    assert ask(tmp_path / "before.duckdb", MESH) == ROWS
    assert ask(tmp_path / "during.duckdb", MESH) == ROWS
    with duckdb.connect(str(tmp_path / "before.duckdb"), read_only=True) as reader:
        facts = {"run_id": "c", "name": "c", "ingest_version": INGEST_VERSION}
        attempt.commit(dict.fromkeys(BY_NAME["runs"].schema.names) | facts)
        assert reader.execute(MESH).fetchall() == ROWS
    with Warehouse(root) as warehouse:
        assert warehouse.query("select count(*) from devices").rows == [(5,)]


def test_a_file_that_cannot_be_written(root: Path, tmp_path: Path) -> None:
    with pytest.raises(WarehouseError):
        export(root, tmp_path / "nowhere" / "x.duckdb", copy=True)
    (tmp_path / "x.duckdb").mkdir()
    with pytest.raises(WarehouseError, match="cannot be written"):
        export(root, tmp_path / "x.duckdb", copy=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["it's w", "x.duckdb"]


@pytest.mark.parametrize("copy", [False, True])
def test_the_duckdb_command_line_opens_it(root: Path, tmp_path: Path, copy: bool) -> None:
    beside = Path(sys.executable).with_name("duckdb")
    client = str(beside) if beside.exists() else shutil.which("duckdb")
    if client is None:
        pytest.skip("needs the duckdb command line: pip install duckdb-cli")
    export(root, tmp_path / "x.duckdb", copy)
    done = subprocess.run(
        [client, "-readonly", "-csv", str(tmp_path / "x.duckdb"), MESH],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [
        "run_id,axis,device_id,coordinate",
        *(",".join(map(str, row)) for row in ROWS),
    ]


@pytest.mark.verify
def test_harlequin_opens_it(root: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec("harlequin_duckdb") is None:
        pytest.skip("needs Harlequin: pip install harlequin")
    from harlequin_duckdb import DuckDbAdapter

    export(root, tmp_path / "x.duckdb", copy=False, library=shipped())
    connection = DuckDbAdapter([str(tmp_path / "x.duckdb")], read_only=True).connect()
    shown, waiting = set(), list(connection.get_catalog().items)
    while waiting:
        item = waiting.pop()
        shown.add(item.label)
        waiting += item.children or (
            item.fetch_children() if hasattr(item, "fetch_children") else []
        )
    assert {"ops", "run_summary", "latency_v3"} <= shown
    found = connection.execute(MESH).fetchall().to_pydict()
    assert list(zip(*found.values(), strict=True)) == ROWS
