"""Compaction keeps every row, in order and in few files; a drop leaves nothing; readers go on."""

from __future__ import annotations

import binascii

import polars as pl
import pyarrow.parquet as pq
import pytest

from tests.leases import run_out
from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.schema import BY_NAME, INGEST_VERSION
from xlahouse.ingest.store import compact as compact_module
from xlahouse.ingest.store.compact import Compacted, compact_run
from xlahouse.ingest.store.drop import drop_run
from xlahouse.ingest.store.settings import RunSettings, write_settings
from xlahouse.ingest.store.store import Store
from xlahouse.sql.warehouse import Warehouse


def ops(devices, starts):
    rows = [(device, start) for device in devices for start in starts]
    return pl.DataFrame(rows, schema=["device_id", "start_ps"], orient="row").with_columns(
        op=pl.format("op{}", pl.col("start_ps")), duration_ps=pl.lit(1)
    )


def issues(*messages):
    count = len(messages)
    return pl.DataFrame(
        {"source": ["s"] * count, "severity": ["info"] * count, "code": ["c"] * count}
        | {"message": list(messages), "count": [1] * count}
    )


def write_run(root, parts, run_id="r"):
    """Tables in parts: {table: [frame of part 0, …]}."""
    store = Store(str(root))
    store.create("1.2.3")
    writer = store.begin(run_id)
    for table, frames in parts.items():
        for part, frame in enumerate(frames):
            writer.write(table, frame, part)
    facts = {"run_id": run_id, "name": f"name of {run_id}", "ingest_version": INGEST_VERSION}
    writer.commit(facts)
    return store


def rows_of(store, table, columns):
    """Rows in the order of the files that the run lists."""
    paths = [file["path"] for file in store.run_row("r")["files"] if file["table"] == table]
    tables = [pq.read_table(f"{store.base}/{path}") for path in paths]
    return [tuple(row[name] for name in columns) for t in tables for row in t.to_pylist()]


def files_there(root):
    return {str(path.relative_to(root)) for path in root.glob("tables/*/run_id=*/*.parquet")}


def listed(store, run_id="r"):
    return {file["path"] for file in store.run_row(run_id)["files"]}


def test_a_file_a_device_becomes_one_in_order(tmp_path):
    store = write_run(tmp_path, {"ops": [ops([2], [5, 6]), ops([0], [9]), ops([1], [1, 3])]})
    assert compact_run(store, "r") == Compacted("r", before=3, after=1)
    found = rows_of(store, "ops", ("device_id", "start_ps", "op"))
    assert found == [(0, 9, "op9"), (1, 1, "op1"), (1, 3, "op3"), (2, 5, "op5"), (2, 6, "op6")]
    (path,) = listed(store)
    assert pq.read_table(tmp_path / path).schema.equals(BY_NAME["ops"].schema)
    assert pq.ParquetFile(tmp_path / path).metadata.num_row_groups == 1  # small groups are joined


def test_files_that_overlap_are_sorted(tmp_path):
    """Device 1 lies in both files, and NULL comes last."""
    one = ops([1, 2], [4, 2])
    two = pl.concat([ops([1], [3]), ops([1], [1]).with_columns(device_id=pl.lit(None, pl.Int64))])
    store = write_run(tmp_path, {"ops": [one, two]})
    assert compact_run(store, "r").after == 1
    assert rows_of(store, "ops", ("device_id", "start_ps")) == [
        (1, 2),
        (1, 3),
        (1, 4),
        (2, 2),
        (2, 4),
        (None, 1),
    ]


def test_tables_without_an_order_keep_that_of_their_parts(tmp_path):
    store = write_run(tmp_path, {"issues": [issues("z", "a"), issues("m")]})
    compact_run(store, "r")
    assert rows_of(store, "issues", ("message",)) == [("z",), ("a",), ("m",)]


def test_large_tables_take_as_many_files_as_they_need(tmp_path, monkeypatch):
    monkeypatch.setattr(compact_module, "FILE_ROWS", 4)
    monkeypatch.setattr(compact_module, "ROW_GROUP", 2)
    store = write_run(tmp_path, {"ops": [ops([device], [1, 2, 3]) for device in range(4)]})
    assert compact_run(store, "r") == Compacted("r", before=4, after=3)  # 12 rows
    found = rows_of(store, "ops", ("device_id", "start_ps"))
    assert found == [(device, start) for device in range(4) for start in (1, 2, 3)]


def test_a_table_in_one_file_stays_where_it_is(tmp_path):
    store = write_run(tmp_path, {"ops": [ops([0], [1]), ops([1], [1])], "issues": [issues("a")]})
    (kept,) = {path for path in listed(store) if "/issues/" in path}
    assert compact_run(store, "r") == Compacted("r", before=3, after=2)
    assert kept in listed(store)
    before = listed(store)
    assert compact_run(store, "r") == Compacted("r", before=2, after=2)  # nothing left to do
    assert listed(store) == before
    assert files_there(tmp_path) - before  # the old ones, for readers


def test_readers_from_before_go_on_and_the_old_files_go_with_their_lease(tmp_path):
    store = write_run(tmp_path, {"ops": [ops([0], [1]), ops([1], [1])]})
    with Warehouse(str(tmp_path)) as before:
        assert before.query("select count(*) from runs").rows == [(1,)]
        compact_run(store, "r")
        assert before.query("select count(*) from ops").rows == [(2,)]
    with Warehouse(str(tmp_path)) as after:
        assert after.query("select count(*) from ops").rows == [(2,)]
    store.clear_leftovers()
    assert len(files_there(tmp_path)) == 3
    run_out(tmp_path)
    store.clear_leftovers()
    assert files_there(tmp_path) == listed(store)


def test_what_the_row_says_is_held_to_what_is_there(tmp_path):
    store = write_run(tmp_path, {"ops": [ops([0], [1]), ops([1], [1])]})
    row = store.run_row("r")
    row["files"][0]["rows"] = 7
    store.write_row(row)
    with pytest.raises(WarehouseError, match=r"ops has 2 rows where the run's row says 8; ingest"):
        compact_run(store, "r")
    assert files_there(tmp_path) == listed(store)  # what was written is gone


def test_a_file_that_is_gone_leaves_the_run_as_it_was(tmp_path):
    store = write_run(tmp_path, {"ops": [ops([0], [1]), ops([1], [1])]})
    row = store.run_row("r")
    (tmp_path / row["files"][1]["path"]).unlink()
    with pytest.raises(WarehouseError, match="the run stays as it was"):
        compact_run(store, "r")
    assert store.run_row("r") == row
    assert not list(tmp_path.glob("leases/*"))


def test_damage_is_not_copied(tmp_path):
    """A byte that changed inside a page is mostly read as another value."""
    store = write_run(tmp_path, {"ops": [ops([0], range(100)), ops([1], range(100))]})
    before = store.run_row("r")
    path = tmp_path / before["files"][1]["path"]
    raw = bytearray(path.read_bytes())
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    raw[start + column.total_compressed_size - 1] ^= 1
    path.write_bytes(raw)
    with pytest.raises(WarehouseError, match=r"r: .*the run stays as it was"):
        compact_run(store, "r")
    assert store.run_row("r") == before


def test_files_that_stay_keep_their_sums(tmp_path):
    store = write_run(tmp_path, {"ops": [ops([0], [1]), ops([1], [1])], "issues": [issues("a")]})
    compact_run(store, "r")
    row = store.run_row("r")
    assert len(row["files"]) == 2
    read = [(tmp_path / file["path"]).read_bytes() for file in row["files"]]
    assert row["file_crcs"] == [binascii.crc32(raw) for raw in read]
    assert store.is_whole(row)


def test_files_of_two_commits_at_once_are_those_of_one(tmp_path, monkeypatch):
    """Each replaces the row that it found, which names no file of the other."""
    store = Store(str(tmp_path))
    store.create("1.2.3")
    early, late = store.begin("r"), Store(str(tmp_path)).begin("r")
    for writer in (early, late):
        writer.write("ops", ops([0], [1]))
        writer.write("issues", issues("a"))
    facts = {"run_id": "r", "name": "r", "ingest_version": INGEST_VERSION}
    found = [None, None]  # the row, as both find it before either writes its own
    read = Store.run_row
    monkeypatch.setattr(Store, "run_row", lambda s, r: found.pop() if found else read(s, r))
    late.store.missing = lambda files, run: early.commit(facts) or []
    late.commit(facts)
    assert listed(store) == late.files.keys()
    assert files_there(tmp_path) == {*early.files, *late.files}
    run_out(tmp_path)
    store.clear_leftovers()
    assert files_there(tmp_path) == late.files.keys()


def test_no_such_run(tmp_path):
    store = write_run(tmp_path, {"ops": [ops([0], [1])]})
    with pytest.raises(WarehouseError, match="q: no such run"):
        compact_run(store, "q")


@pytest.mark.parametrize("change", ["dropped", "written again"])
def test_a_run_that_changes_meanwhile_is_left_alone(tmp_path, monkeypatch, change):
    store = write_run(tmp_path, {"ops": [ops([0], [1]), ops([1], [1])]})
    rewrite = compact_module._rewrite

    def meanwhile(*given):
        rewrite(*given)
        if change == "dropped":
            drop_run(Store(str(tmp_path)), "r")
        else:
            write_run(tmp_path, {"ops": [ops([0], [1, 2]), ops([1], [1])]})

    monkeypatch.setattr(compact_module, "_rewrite", meanwhile)
    with pytest.raises(WarehouseError, match="ingested again or dropped while"):
        compact_run(store, "r")
    if change == "dropped":
        assert store.run_row("r") is None
    else:
        assert len(rows_of(store, "ops", ("device_id",))) == 3


def test_a_dropped_run_is_gone_and_its_files_follow(tmp_path):
    store = write_run(tmp_path, {"ops": [ops([0], [1]), ops([1], [1])]})
    write_run(tmp_path, {"ops": [ops([0], [1])]}, "other")
    write_settings(str(tmp_path), "r", RunSettings(device_kind="TPU v6e"))
    with Warehouse(str(tmp_path)) as before:
        assert before.query("select count(*) from runs").rows == [(2,)]
        assert drop_run(store, "r") == 2
        assert before.query("select count(*) from runs").rows == [(2,)]
        assert before.query("select count(*) from ops where run_id = 'r'").rows == [(2,)]
    assert store.run_row("r") is None
    assert store.run_ids() == ["other"]
    assert not list(tmp_path.glob("settings/*"))
    with Warehouse(str(tmp_path)) as after:
        assert after.query("select run_id from runs").rows == [("other",)]
    run_out(tmp_path)
    store.clear_leftovers()
    assert files_there(tmp_path) == listed(store, "other")
    assert [path.name for path in tmp_path.glob("tables/runs/*")] == ["other.parquet"]


def test_a_dropped_run_that_comes_back_is_not_cleared_away(tmp_path):
    store = write_run(tmp_path, {"ops": [ops([0], [1])]})
    drop_run(store, "r")
    write_run(tmp_path, {"ops": [ops([0], [1, 2])]})
    run_out(tmp_path)
    store.clear_leftovers()
    assert files_there(tmp_path) == listed(store)
    assert len(rows_of(store, "ops", ("device_id",))) == 2
    assert [path.name for path in tmp_path.glob("tables/runs/*")] == ["r.parquet"]


def test_a_run_dropped_at_once_frees_its_space_and_comes_back_by_ingest(tmp_path):
    store = write_run(tmp_path, {"ops": [ops([0], [1])]})
    assert drop_run(store, "r", at_once=True) == 1
    assert files_there(tmp_path) == set()
    assert not list(tmp_path.glob("leases/*"))
    write_run(tmp_path, {"ops": [ops([0], [1])]})
    assert len(rows_of(store, "ops", ("device_id",))) == 1


def test_a_drop_spares_what_an_ingest_of_the_same_run_is_writing(tmp_path):
    store = write_run(tmp_path, {"ops": [ops([0], [1])]})
    writer = store.begin("r")
    writer.write("ops", ops([0], [1, 2]))
    drop_run(store, "r", at_once=True)
    writer.commit({"run_id": "r", "name": "n"})
    assert len(rows_of(store, "ops", ("device_id",))) == 2
    run_out(tmp_path)
    store.clear_leftovers()
    assert files_there(tmp_path) == listed(store)


def test_a_damaged_run_can_be_dropped(tmp_path):
    store = write_run(tmp_path, {"ops": [ops([0], [1])]})
    (tmp_path / "tables/runs/r.parquet").write_bytes(b"not Parquet")
    drop_run(store, "r", at_once=True)
    assert not list(tmp_path.glob("tables/runs/*"))
    assert files_there(tmp_path) == set()
