"""A warehouse is never half written: killed, repeated and concurrent writes."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.leases import run_out
from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.events.files import write_whole
from xlahouse.ingest.schema import BY_NAME, TABLES
from xlahouse.ingest.store import leases
from xlahouse.ingest.store import store as store_module
from xlahouse.ingest.store.leases import Lease
from xlahouse.ingest.store.store import Store
from xlahouse.ingest.tables.pieces import pieces_of


def issues(message):
    return pl.DataFrame(
        {"source": ["s"], "severity": ["info"], "code": ["c"], "message": [message], "count": [1]}
    )


def write_run(store, tables):
    writer = store.begin("r")
    for name, frame in tables.items():
        writer.write(name, frame)
    writer.commit({"run_id": "r", "name": "n"})


def listed(store, run_id="r"):
    return [file["path"] for file in store.run_row(run_id)["files"]]


def written(tmp_path):
    return sorted(
        str(path.relative_to(tmp_path)) for path in tmp_path.glob("tables/issues/**/*.parquet")
    )


@pytest.fixture
def store(tmp_path):
    made = Store(str(tmp_path))
    made.create("1.2.3")
    return made


def test_a_run_is_its_row_and_the_files_it_lists(store, tmp_path):
    write_run(store, {"issues": issues("a"), "ops": pl.DataFrame()})
    assert listed(store) == written(tmp_path)
    table = pq.read_table(tmp_path / listed(store)[0])
    assert table.schema.equals(BY_NAME["issues"].schema)
    assert table.to_pylist()[0]["run_id"] == "r"
    assert not list(tmp_path.glob("leases/*"))


def test_every_table_has_its_types_even_when_it_is_null_throughout():
    for table in TABLES:
        (made,) = pieces_of(pl.DataFrame({"x": [1, 2]}), table, "r")
        run_id = pa.field("run_id", pa.dictionary(pa.int32(), pa.string()))
        assert made.schema.equals(table.schema.set(0, run_id)), table.name
        assert made.num_rows == 2


def test_a_killed_write_leaves_the_old_state(store, tmp_path, monkeypatch):
    write_run(store, {"issues": issues("old")})
    old = listed(store)

    def die_at_the_row(system, path, raw):
        if "/tables/runs/" in path:
            raise KeyboardInterrupt
        write_whole(system, path, raw)

    monkeypatch.setattr(store_module, "write_whole", die_at_the_row)
    with pytest.raises(KeyboardInterrupt):
        write_run(store, {"issues": issues("new")})
    assert listed(store) == old
    assert len(written(tmp_path)) == 2  # the leftover is there, and belongs to no run
    store.clear_leftovers()
    assert len(written(tmp_path)) == 2  # its lease still runs: another ingest may be writing it


def test_leftovers_go_when_their_lease_has_run_out(store, tmp_path):
    write_run(store, {"issues": issues("old")})
    write_run(store, {"issues": issues("new")})
    assert len(written(tmp_path)) == 2  # a reader may still use the replaced file
    run_out(tmp_path)
    assert store.clear_leftovers() == 1
    assert written(tmp_path) == listed(store)
    assert not list(tmp_path.glob("leases/*"))


def test_a_lease_never_takes_what_a_run_lists(store, tmp_path):
    write_run(store, {"issues": issues("a")})
    lease = Lease("me", 0.0, "r", [*listed(store), "tables/issues/run_id=r/gone.parquet"])
    (tmp_path / "leases").mkdir(exist_ok=True)
    (tmp_path / "leases" / "x.json").write_bytes(msgspec.json.encode(lease))
    run_out(tmp_path)
    assert store.clear_leftovers() == 0
    assert written(tmp_path) == listed(store)


@pytest.mark.parametrize("ahead", [7200, -7200])
def test_clocks_of_machines_do_not_matter(store, tmp_path, monkeypatch, ahead):
    writer = store.begin("r")
    writer.write("issues", issues("a"))
    now = leases.time.time
    monkeypatch.setattr(leases.time, "time", lambda: now() + ahead)
    assert Store(str(tmp_path)).clear_leftovers() == 0
    monkeypatch.undo()
    writer.commit({"run_id": "r", "name": "n"})
    assert store.is_whole(store.run_row("r"))


def test_a_lease_runs_out_in_a_store_without_files_too():
    store = Store("memory://wh-lease-test")
    store.begin("r").write("issues", issues("a"))
    assert store.clear_leftovers() == 0
    (path,) = store.files_in("leases")
    store.fs.store[f"{store.base}/{path}"].modified -= timedelta(seconds=leases.LEASE_S + 1)
    assert store.clear_leftovers() == 1
    assert store.files_in("leases") == []


def test_a_run_whose_lease_ran_out_is_not_committed(store, tmp_path):
    """The storage's clock moves on by an hour while the process stands still, or it jumps."""
    write_run(store, {"issues": issues("old")})
    old = listed(store)
    writer = store.begin("r")
    writer.write("issues", issues("new"))
    writer.lease_time -= leases.LEASE_S - leases.LAST_S
    with pytest.raises(WarehouseError, match="r: its lease on the files that it writes ran out"):
        writer.commit({"run_id": "r", "name": "n"})
    writer.abandon()
    assert (listed(store), written(tmp_path)) == (old, old)


def test_a_run_whose_files_are_gone_is_not_committed(store, tmp_path):
    writer = store.begin("r")
    writer.write("issues", issues("a"))
    (path,) = written(tmp_path)
    (tmp_path / path).unlink()
    (tmp_path / path).with_name("another").touch()
    with pytest.raises(WarehouseError, match=rf"^r: {path} is gone, which is part of the run"):
        writer.commit({"run_id": "r", "name": "n"})
    assert store.run_row("r") is None


def test_a_lease_that_ran_out_takes_nothing_that_another_holds(store, tmp_path):
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables/both").touch()
    (tmp_path / "tables/one").touch()
    store.lease("old", "r", ["tables/both", "tables/one"])
    run_out(tmp_path)
    store.lease("new", "r", ["tables/both"])
    assert store.clear_leftovers() == 1
    assert [path.name for path in (tmp_path / "tables").iterdir()] == ["both"]


def test_a_newer_layout_is_refused(store, tmp_path):
    (tmp_path / "warehouse.json").write_text('{"layout_version": 99}')
    with pytest.raises(WarehouseError, match="layout 99 is newer"):
        store.create("1")
    (tmp_path / "warehouse.json").write_text("junk")
    with pytest.raises(WarehouseError, match="not the description of a warehouse"):
        store.create("1")


def test_memory_and_other_file_systems():
    made = Store("memory://wh-store-test")
    made.create("1")
    write_run(made, {"issues": issues("a")})
    assert made.run_row("r")["name"] == "n"
    assert made.run_row("absent") is None
