"""Full disks, two ingests at once and readers meanwhile: each leaves the old state or the new one."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from tests.ingest.traces import rows, tpu_trace, write
from tests.layers import first_few
from xlahouse.capture.manifest import MeshAxis
from xlahouse.ingest import one_run
from xlahouse.ingest.run import IngestError, ingest_paths
from xlahouse.ingest.store import run_index
from xlahouse.ingest.store.run_writer import RunWriter
from xlahouse.ingest.store.settings import RunSettings, read_settings, write_settings
from xlahouse.ingest.store.store import Store
from xlahouse.sql.warehouse import Warehouse


class FullFile(MemoryFile):
    def write(self, data):
        FullFileSystem.room -= len(data)
        if FullFileSystem.room < 0 or FullFileSystem.is_refused(self.path):
            raise OSError(errno.ENOSPC, "No space left on device", self.path)
        return super().write(data)


class FullFileSystem(MemoryFileSystem):
    """A store with room for so many bytes and no more, and none for files of a kind."""

    protocol = "full"
    store: dict = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012
    room = 0
    refused = ""  # part of the paths of those

    @classmethod
    def is_refused(cls, path):
        return bool(cls.refused) and cls.refused in path

    def _open(self, path, mode="rb", **kwargs):
        if "w" not in mode:
            return super()._open(path, mode, **kwargs)
        file = FullFile(self, self._strip_protocol(path), None)
        file.commit()
        return file

    def pipe_file(self, path, value, mode="overwrite", **kwargs):
        if FullFileSystem.room < len(value) or self.is_refused(
            path
        ):  # whole or not at all, as object stores do
            raise OSError(errno.ENOSPC, "No space left on device", path)
        with self.open(path, "wb") as file:
            file.write(value)


@pytest.fixture
def full():
    fsspec.register_implementation("full", FullFileSystem, clobber=True)
    FullFileSystem.store.clear()
    FullFileSystem.refused, FullFileSystem.room = "", 1 << 30
    yield FullFileSystem()
    FullFileSystem.store.clear()


def tables_of(full):
    """Contents of all files of tables; full.store is by path."""
    return {path: file.getvalue() for path, file in full.store.items() if "/tables/" in path}


@pytest.mark.parametrize("room", [0, 300, 3_000, 12_000, 20_000])
def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, full, room):
    path = write(tmp_path / "a.xplane.pb", tpu_trace())
    FullFileSystem.room = room
    with pytest.raises(IngestError, match=r"^a: No space left.*free some space and ingest again"):
        ingest_paths([path], "full://wh")
    assert Store("full://wh").run_row("any") is None
    assert tables_of(full) == {}
    FullFileSystem.room = 1 << 30
    (result,) = ingest_paths([path], "full://wh")
    assert Store("full://wh").is_whole(Store("full://wh").run_row(result.run_id))


TABLES_OF_A_TRACE = (
    "ops", "collectives", "launches", "devices", "replica_groups", "instructions", "busy_intervals",
    "device_steps", "phases", "coverage", "issues",
)  # fmt: skip


@pytest.mark.parametrize(
    "writer",
    first_few(
        ["warehouse.json", "leases/", "tables/runs/", *(f"tables/{t}/" for t in TABLES_OF_A_TRACE)],
        3,
    ),
)
def test_a_disk_that_is_full_for_any_writer_costs_the_run_alone(tmp_path, full, writer):
    path = write(tmp_path / "a.xplane.pb", tpu_trace())
    other = write(tmp_path / "b.xplane.pb", tpu_trace(1))
    ingest_paths([other], "full://wh")
    before = tables_of(full)
    assert before
    if writer == "warehouse.json":
        full.rm_file("full://wh/warehouse.json")
    FullFileSystem.refused = writer
    with pytest.raises(
        IngestError, match=rf"^a: No space left on device: .*{writer}.*free some space"
    ):
        ingest_paths([path], "full://wh")
    assert tables_of(full) == before
    FullFileSystem.refused = ""
    (result,) = ingest_paths([path], "full://wh")
    assert not result.unchanged
    with Warehouse("full://wh") as warehouse:
        assert warehouse.query("select count(*) as n from ops").dicts() == [{"n": 2}]


def test_a_disk_that_is_full_after_the_run_says_what_is_there(tmp_path, full):
    """The settings come after the run's row, which is what makes it exist."""
    path, mesh = write(tmp_path / "a.xplane.pb", tpu_trace()), [MeshAxis("tp", 2)]
    FullFileSystem.refused = "settings/"
    with pytest.raises(IngestError, match=r"the run is in the warehouse, but.*No space left"):
        ingest_paths([path], "full://wh", mesh=mesh)
    FullFileSystem.refused = ""
    (result,) = ingest_paths([path], "full://wh", mesh=mesh)
    assert result.unchanged
    assert read_settings("full://wh", result.run_id).mesh == mesh


def test_settings_that_cannot_be_written_stay_as_they_were(tmp_path, full):
    (result,) = ingest_paths(
        [write(tmp_path / "a.xplane.pb", tpu_trace())], "full://wh", device_kind="X"
    )
    FullFileSystem.refused = "settings/"
    with pytest.raises(OSError, match="No space left"):
        write_settings("full://wh", result.run_id, RunSettings(device_kind="Y"))
    assert read_settings("full://wh", result.run_id).device_kind == "X"


def test_an_index_that_cannot_be_written_costs_nothing(tmp_path, full, monkeypatch):
    """It is written from a number of runs on, and makes opening faster."""
    monkeypatch.setattr(run_index, "LEAST_NEW", 2)
    traces = [write(tmp_path / f"{n}.xplane.pb", tpu_trace(n)) for n in (0, 1)]
    FullFileSystem.refused, told = run_index.INDEX, []
    assert len(ingest_paths(traces, "full://wh", on_event=told.append)) == 2
    assert told[-1] == "full://wh: the index of runs is not written again: No space left on device"


FULL = """
import resource, sys
from xlahouse.ingest.run import IngestError, ingest_paths

resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, resource.RLIM_INFINITY))
try:
    ingest_paths(sys.argv[1:2], sys.argv[2])
except IngestError as error:
    print(error)
"""


def test_a_local_disk_that_takes_no_more_is_one_line_too(tmp_path):
    path, root = write(tmp_path / "a.xplane.pb", tpu_trace()), tmp_path / "wh"
    command = [sys.executable, "-c", FULL, path, str(root)]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    reason = os.strerror(errno.EFBIG)
    assert told == f"a: {reason}: {root}; nothing of this run was written\n"
    assert list(root.glob("tables/*/*/*.parquet")) == []


def test_two_ingests_at_once_of_one_run_and_of_two(tmp_path):
    paths = [write(tmp_path / f"{n}.xplane.pb", tpu_trace(n)) for n in (0, 1)]
    root = str(tmp_path / "wh")
    together = Barrier(4)

    def ingest(path):
        together.wait()
        return ingest_paths([path], root)[0].run_id

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(ingest, paths * 2))
    assert found[:2] == found[2:]
    store = Store(root)
    assert all(store.is_whole(store.run_row(run_id)) for run_id in found)
    with Warehouse(root) as warehouse:
        query = "select run_id, count(*) as n from ops group by run_id order by run_id"
        assert [row["n"] for row in warehouse.query(query).dicts()] == [1, 1]


def test_readers_see_the_old_run_until_the_new_one_is_whole(tmp_path, monkeypatch):
    path, root = write(tmp_path / "a.xplane.pb", tpu_trace()), str(tmp_path / "wh")
    ingest_paths([path], root)
    count = "select count(*) as n from ops"
    seen = []
    commit = RunWriter.commit

    def look_and_commit(self, row):
        with Warehouse(root) as warehouse:  # all tables are written, the row is not
            seen.append(warehouse.query(count).dicts())
        commit(self, row)

    monkeypatch.setattr(RunWriter, "commit", look_and_commit)
    monkeypatch.setattr(one_run, "INGEST_VERSION", 999)
    with Warehouse(root) as early:
        (again,) = ingest_paths([path], root)
        assert not again.unchanged
        assert early.query(count).dicts() == [{"n": 1}]  # its files are still there
    assert seen == [[{"n": 1}]]
    with Warehouse(root) as late:
        assert late.query(count).dicts() == [{"n": 1}]
    assert rows(root, "ops").height == 2  # the replaced file goes when its lease runs out


def test_what_cannot_be_written_says_so(tmp_path):
    if os.geteuid() == 0:
        (tmp_path / "wh").write_text("a file where the warehouse should be")
    else:
        (tmp_path / "wh").mkdir(mode=0o500)
    path = write(tmp_path / "a.xplane.pb", tpu_trace())
    with pytest.raises(IngestError, match=r"wh"):
        ingest_paths([path], str(tmp_path / "wh"))
