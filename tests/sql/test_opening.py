"""What a query touches: every file and folder that is opened or listed is counted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from tests.layers import first_few
from tests.synth.cases import CASES
from tests.synth.write import write_run
from tests.warehouse import write_warehouse
from xlahouse.ingest.run import ingest_paths
from xlahouse.ingest.schema import INGEST_VERSION
from xlahouse.ingest.store import run_index
from xlahouse.ingest.store.run_index import INDEX, write_index
from xlahouse.sql import Warehouse

RUNS = [f"run{number:02}" for number in range(40)]
GIVEN = {
    "runs": [{"run_id": run, "name": f"name {run}"} for run in RUNS],
    "devices": [
        {"run_id": run, "device_id": 0, "logical_id": 0, "world": 0, "traced": True} for run in RUNS
    ],
    "ops": [{"run_id": run, "op": "a", "device_id": 0} for run in RUNS],
}


class Counted(MemoryFileSystem):
    """A store in memory that notes what is opened and listed."""

    protocol = "counted"
    store: dict[str, Any] = {}  # noqa: RUF012 (as the class above has it)
    pseudo_dirs = [""]  # noqa: RUF012
    seen: set[str] = set()  # noqa: RUF012
    lock = threading.Lock()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return super()._strip_protocol(path.replace("counted://", "memory://"))

    def unstrip_protocol(self, name: str) -> str:
        return f"counted://{self._strip_protocol(name).lstrip('/')}"

    def _open(self, path: str, *args: Any, **kwargs: Any) -> Any:
        with self.lock:
            self.seen.add(path)
        return super()._open(path, *args, **kwargs)

    def cat_file(self, path: str, *args: Any, **kwargs: Any) -> Any:
        self.seen.add(self._strip_protocol(path))
        return super().cat_file(path, *args, **kwargs)

    def ls(self, path: str, *args: Any, **kwargs: Any) -> Any:
        self.seen.add(f"{self._strip_protocol(path)}/")
        return super().ls(path, *args, **kwargs)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[type[Counted]]:
    fsspec.register_implementation("counted", Counted, clobber=True)
    root = write_warehouse(tmp_path / "w", GIVEN)
    Counted.store.clear()
    for path in root.rglob("*"):
        if path.is_file():
            Counted().pipe_file(f"/w/{path.relative_to(root)}", path.read_bytes())
    Counted.seen.clear()
    yield Counted
    Counted.store.clear()


def touched(store: type[Counted], sql: str, root: str = "counted://w") -> set[str]:
    store.seen.clear()
    with Warehouse(root) as warehouse:
        warehouse.query(sql).arrow()
    return {name.removeprefix("/w/") for name in store.seen}


def test_a_query_without_tables_reads_the_marker_alone(store: type[Counted]) -> None:
    assert touched(store, "select 1") == {"warehouse.json"}
    assert touched(store, "with runs as (select 1 as a) from runs") == {"warehouse.json"}


def test_a_query_reads_the_files_of_the_tables_that_it_names(store: type[Counted]) -> None:
    rows = {f"tables/runs/{run}.parquet" for run in RUNS}
    listed = {"warehouse.json", "tables/runs/", *rows}
    assert touched(store, "select name from runs") == listed
    found = touched(store, "select op from ops")
    assert {name for name in found if name.endswith(".parquet")} == rows | {
        f"tables/ops/run_id={run}/part-0.parquet" for run in RUNS
    }
    found = touched(store, "from run_mesh")
    assert not any(name.startswith("tables/ops") for name in found)
    assert "settings/" not in touched(store, "select op from ops")


@pytest.mark.parametrize(
    "sql",
    first_few(
        [
            "select op from ops where run_id = 'run07'",
            "select o.op from ops as o join ops as p using (run_id) where o.run_id = 'run07'",
            "select op from ops join runs using (run_id) where name = 'name run07'",
            "select op from ops where run_id in (select run_id from runs where name = 'name run07')",
            "from op_profile where run_id = 'run07'",
            "from op_profile join runs using (run_id) where name = 'name run07'",
        ],
        3,
    ),
)
def test_a_filter_on_the_run_opens_no_other_runs_files(store: type[Counted], sql: str) -> None:
    opened = {name for name in touched(store, sql) if name.startswith("tables/ops")}
    # The first file tells the columns.
    assert opened <= {f"tables/ops/run_id={run}/part-0.parquet" for run in ("run00", "run07")}
    assert "tables/ops/run_id=run07/part-0.parquet" in opened


def test_each_query_reads_the_runs_that_it_asks_for(tmp_path: Path) -> None:
    with Warehouse(write_warehouse(tmp_path / "w", GIVEN)) as warehouse:
        one = warehouse.query("select run_id from ops where run_id = 'run07'")
        none = warehouse.query("select run_id from ops where run_id = 'nowhere'")
        every = warehouse.query("select count(*) from ops")
        assert warehouse.query("select count(*) from ops where run_id = 'run08'").rows == [(1,)]
        assert (one.rows, none.rows, every.rows) == ([("run07",)], [], [(len(RUNS),)])


def test_the_index_stands_for_the_rows_that_it_has(store: type[Counted]) -> None:
    assert write_index("counted://w") == len(RUNS)
    opened = touched(store, "select name from runs order by name")
    assert {name for name in opened if name.endswith(".parquet")} == {INDEX}


def test_a_row_that_changed_since_counts_and_not_the_index(tmp_path: Path) -> None:
    root = write_warehouse(tmp_path / "w", GIVEN)
    assert write_index(str(root)) == len(RUNS)
    changed = {**GIVEN, "runs": [{"run_id": "run00", "name": "renamed"}, *GIVEN["runs"][1:]]}
    write_warehouse(root, {"runs": changed["runs"][:1]})
    (root / "tables" / "runs" / "run01.parquet").unlink()
    with Warehouse(root) as warehouse:
        rows = warehouse.query("select run_id, name from runs order by run_id").rows
        assert warehouse.resolve_run("renamed") == "run00"
        assert "run01" not in {run for (run,) in warehouse.query("select run_id from ops").rows}
    assert rows == [("run00", "renamed"), *((run, f"name {run}") for run in RUNS[2:])]


def test_an_index_without_or_with_damage_costs_nothing_but_time(tmp_path: Path) -> None:
    root = write_warehouse(tmp_path / "w", GIVEN)
    write_index(str(root))
    (root / INDEX).write_bytes(b"damaged")
    with Warehouse(root) as warehouse:
        assert warehouse.query("select count(*) from runs").rows == [(len(RUNS),)]
    assert write_index(str(root)) == len(RUNS)


def test_an_index_leaves_damaged_rows_to_the_reader(tmp_path: Path) -> None:
    root = write_warehouse(tmp_path / "w", GIVEN)
    (root / "tables" / "runs" / "run05.parquet").write_bytes(b"damaged")
    assert write_index(str(root)) == len(RUNS) - 1
    with pytest.warns(UserWarning, match=r"run05.parquet is damaged"), Warehouse(root) as warehouse:
        assert warehouse.query("select count(*) from runs").rows == [(len(RUNS) - 1,)]


def test_one_damaged_row_beside_an_index_costs_one_more_file(store: type[Counted]) -> None:
    """3,000 rows that are read one by one take more than a minute."""
    store().pipe_file("/w/tables/runs/run05.parquet", b"damaged")
    write_index("counted://w")
    store.seen.clear()
    told: list[str] = []
    with Warehouse("counted://w", told.append) as warehouse:
        assert warehouse.query("select count(*) from runs").rows == [(len(RUNS) - 1,)]
    opened = {name for name in store.seen if name.endswith(".parquet")}
    assert opened == {f"/w/{INDEX}", "/w/tables/runs/run05.parquet"}
    assert [line.partition(" is ")[0] for line in told] == ["/w/tables/runs/run05.parquet"]


def test_an_index_with_damage_among_its_rows_costs_nothing_but_time(tmp_path: Path) -> None:
    """Its ids and stamps are whole, and another column is not."""
    root = write_warehouse(tmp_path / "w", GIVEN)
    write_index(str(root))
    (root / "tables" / "runs" / "run05.parquet").write_bytes(b"damaged")
    file = pq.ParquetFile(root / INDEX)
    names = [file.metadata.row_group(0).column(n).path_in_schema for n in range(9)]
    column = file.metadata.row_group(0).column(names.index("name"))
    start = column.dictionary_page_offset or column.data_page_offset
    raw = bytearray((root / INDEX).read_bytes())
    raw[start : start + column.total_compressed_size] = bytes(column.total_compressed_size)
    (root / INDEX).write_bytes(raw)
    told: list[str] = []
    with Warehouse(root, told.append) as warehouse:
        assert warehouse.query("select count(name) from runs").rows == [(len(RUNS) - 1,)]
    assert len(told) == 1


def test_ingest_keeps_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_index, "LEAST_NEW", 1)
    write_run(CASES["tp4"], tmp_path / "t")
    (result,) = ingest_paths([str(tmp_path / "t")], str(tmp_path / "w"))
    index = pq.ParquetFile(tmp_path / "w" / INDEX).read()
    assert index["run_id"].to_pylist() == [result.run_id]
    ingest_paths([str(tmp_path / "t")], str(tmp_path / "w"), name="renamed")
    with Warehouse(tmp_path / "w") as warehouse:
        assert warehouse.query("select name from runs").rows == [("renamed",)]


def test_few_new_rows_are_not_worth_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_warehouse(tmp_path / "w", {"runs": [{"run_id": "a", "name": "a"}]})
    assert write_index(str(root)) == 0
    assert not (root / INDEX).exists()
    monkeypatch.setattr(run_index, "LEAST_NEW", 1)
    assert write_index(str(root)) == 1
    assert (root / INDEX).exists()


def test_runs_of_an_older_ingest_are_told(tmp_path):
    """Views over tables that it did not write have no rows of them: that has to be said."""
    runs = [{"run_id": "a"}, {"run_id": "b", "ingest_version": INGEST_VERSION - 1}]
    told: list[str] = []
    with Warehouse(write_warehouse(tmp_path / "w", {"runs": runs}), told.append) as warehouse:
        assert warehouse.query("select count(*) from runs").rows == [(2,)]
    assert told == [
        "1 of 2 runs were written by an older xlahouse and lack columns of newer views; "
        "ingest their traces again"
    ]
