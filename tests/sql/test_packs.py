"""A pack stands for the files of many small runs, and only while it is what they are."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.command import run_command
from tests.leases import run_out
from tests.warehouse import write_warehouse
from xlahouse.ingest.store import compact, packs
from xlahouse.ingest.store.drop import drop_run
from xlahouse.ingest.store.packs import pack_runs, read_pack, runs_to_pack
from xlahouse.ingest.store.run_index import PACK, write_index
from xlahouse.ingest.store.store import Store
from xlahouse.sql import Warehouse

RUNS = [f"run{number:02}" for number in range(6)]


def rows_of(runs: list[str], op: str = "a") -> dict[str, list[dict[str, object]]]:
    """Two ops of each run, which take its number of ps."""
    return {
        "runs": [{"run_id": run, "name": f"name {run}"} for run in runs],
        "ops": [
            {"run_id": run, "op": op, "device_id": n, "duration_ps": int(run[3:])}
            for run in runs
            for n in (0, 1)
        ],
    }


@pytest.fixture(autouse=True)
def _few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packs, "LEAST_NEW", 4)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_warehouse(tmp_path_factory.mktemp("packed") / "w", rows_of(RUNS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packs, "LEAST_NEW", 4)
        assert pack(root) == 6
    return root


@pytest.fixture
def root(made: Path, tmp_path: Path) -> Path:
    """A warehouse whose runs are packed; the files of the copy have the times of the originals."""
    return Path(shutil.copytree(made, tmp_path / "w"))


def pack(root: Path) -> int:
    write_index(str(root), always=True)
    return pack_runs(Store(str(root)))


def own_file(root: Path, run: str) -> Path:
    return root / "tables" / "ops" / f"run_id={run}" / "part-0.parquet"


def without_own_files(root: Path, runs: list[str]) -> None:
    for run in runs:
        own_file(root, run).unlink()


def totals(root: Path) -> list[tuple[object, ...]]:
    """How many ops there are, and how long they take."""
    with Warehouse(str(root)) as warehouse:
        return warehouse.query("select count(*), sum(duration_ps) from ops").rows


def packed_runs(root: Path) -> set[str]:
    (file,) = root.glob("index/pack-*/ops.parquet")
    return set(pq.read_table(file)["run_id"].to_pylist())


def test_a_query_over_all_runs_opens_the_pack_alone(root: Path) -> None:
    without_own_files(root, RUNS)
    assert totals(root) == [(12, 30)]


def test_a_query_of_few_runs_opens_their_own_files(root: Path) -> None:
    (file,) = root.glob("index/pack-*/ops.parquet")
    with Warehouse(str(root)) as warehouse:
        sql = "select count(*), sum(duration_ps) from ops where run_id in ('run03', 'run05')"
        assert warehouse.query("select count(*) from runs").rows == [(6,)]  # opens the warehouse
        file.unlink()
        assert warehouse.query(sql).rows == [(4, 16)]
        assert warehouse.of_run("run04").query("select count(*) from ops").rows == [(2,)]


def test_a_query_that_names_many_runs_opens_the_pack(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("xlahouse.sql.database.FEW_RUNS", 1)
    without_own_files(root, RUNS)
    with Warehouse(str(root)) as warehouse:
        sql = "select sum(duration_ps) from ops where run_id in ('run03', 'run05')"
        assert warehouse.query(sql).rows == [(16,)]


def test_views_read_the_pack(root: Path, tmp_path: Path) -> None:
    sql = "from op_profile order by all"
    with Warehouse(str(root)) as warehouse:
        found = warehouse.query(sql).rows
    with Warehouse(str(write_warehouse(tmp_path / "other", rows_of(RUNS)))) as warehouse:
        assert found == warehouse.query(sql).rows
    assert found


def test_runs_to_pack_are_counted_once_they_are_many(root: Path) -> None:
    store = Store(str(root))
    assert runs_to_pack(store) == 0
    for run in ("run90", "run91", "run92", "run93"):
        assert runs_to_pack(store) == 0
        write_warehouse(root, rows_of([run]))
        write_index(str(root), always=True)
    assert runs_to_pack(store) == 4
    assert pack(root) == 10
    assert runs_to_pack(store) == 0


def test_runs_that_were_not_packed_yet_count_too(root: Path) -> None:
    write_warehouse(root, rows_of(["run90"]))
    without_own_files(root, RUNS)
    assert totals(root) == [(14, 210)]


def test_a_run_that_was_ingested_again_counts_once(root: Path) -> None:
    write_warehouse(root, {"runs": [{"run_id": "run05", "name": "n"}], "ops": [
        {"run_id": "run05", "op": "b", "device_id": 0, "duration_ps": 1000}
    ]})  # fmt: skip
    assert totals(root) == [(11, 1020)]
    assert pack(root) == 6
    without_own_files(root, RUNS)
    assert totals(root) == [(11, 1020)]


def test_a_dropped_run_is_gone_at_once_and_leaves_the_next_pack(root: Path) -> None:
    drop_run(Store(str(root)), "run05")
    assert totals(root) == [(10, 20)]
    assert pack(root) == 5
    (old,) = {path.name for path in root.glob("index/pack-*")} - {pack_folder(root)}
    run_out(root)
    Store(str(root)).clear_leftovers()
    assert not list((root / "index" / old).rglob("*.parquet"))
    assert "run05" not in packed_runs(root)
    assert totals(root) == [(10, 20)]


def test_a_drop_at_once_leaves_no_copy(root: Path) -> None:
    drop_run(Store(str(root)), "run05", at_once=True)
    assert not list(root.glob("index/pack-*/**/*.parquet"))
    assert totals(root) == [(10, 20)]


def pack_folder(root: Path) -> str:
    return f"pack-{json.loads((root / PACK).read_bytes())['token']}"


@pytest.mark.parametrize("damage", ["cut", "gone", "marker", "version", "empty"])
def test_a_damaged_pack_costs_time_alone(root: Path, damage: str) -> None:
    (file,) = root.glob("index/pack-*/ops.parquet")
    marker = root / PACK
    if damage == "cut":
        file.write_bytes(file.read_bytes()[:-9])
    elif damage == "gone":
        file.unlink()
    elif damage == "marker":
        marker.write_bytes(b"{")
    elif damage == "version":
        marker.write_text(json.dumps(json.loads(marker.read_bytes()) | {"ingest_version": 1}))
    else:
        next(root.glob("index/pack-*/run_id=none/*.parquet")).unlink()
    assert totals(root) == [(12, 30)]


def test_a_pack_that_cannot_be_read_is_made_again(root: Path) -> None:
    (file,) = root.glob("index/pack-*/ops.parquet")
    file.write_bytes(b"damaged")
    drop_run(Store(str(root)), "run05")  # so that the rest is copied
    assert pack(root) == 5
    without_own_files(root, RUNS[:5])
    assert totals(root) == [(10, 20)]


def test_a_pack_of_another_version_goes_once_it_is_replaced(root: Path) -> None:
    marker, old = root / PACK, pack_folder(root)
    marker.write_text(json.dumps(json.loads(marker.read_bytes()) | {"ingest_version": 1}))
    assert pack(root) == 6
    assert pack_folder(root) != old
    assert totals(root) == [(12, 30)]
    run_out(root)
    Store(str(root)).clear_leftovers()
    assert {path.name for path in root.glob("index/pack-*") if list(path.rglob("*.parquet"))} == {
        pack_folder(root)
    }
    assert totals(root) == [(12, 30)]


def test_a_run_whose_files_are_damaged_is_left_to_queries(tmp_path: Path) -> None:
    root = write_warehouse(tmp_path / "w", rows_of(RUNS))
    own_file(root, "run00").write_bytes(b"damaged")
    assert pack(root) == 5
    assert "run00" not in packed_runs(root)


def test_large_runs_and_few_runs_are_not_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pack(write_warehouse(tmp_path / "few", rows_of(RUNS[:3]))) == 0
    monkeypatch.setattr(packs, "SMALL_ROWS", 1)
    assert pack(write_warehouse(tmp_path / "large", rows_of(RUNS))) == 0


def test_many_new_runs_join_the_pack(root: Path) -> None:
    more = ["run10", "run11", "run12", "run13"]
    write_warehouse(root, rows_of(more))
    without_own_files(root, RUNS)  # what is packed is copied from the pack
    assert pack(root) == 10
    without_own_files(root, more)
    assert totals(root) == [(20, 122)]


def test_a_pack_that_cannot_be_written_leaves_the_old_one(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {path for path in root.rglob("*") if path.is_file()}
    drop_run(Store(str(root)), "run05")

    def fails(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(packs, "_write", fails)
    with pytest.raises(OSError, match="No space"):
        pack(root)
    left = {path for path in root.rglob("*.parquet") if path.is_file()} - before
    assert not left
    assert totals(root) == [(10, 20)]


def test_a_pack_whose_writer_died_before_it_gave_up_its_lease_stays(root: Path) -> None:
    store = Store(str(root))
    pack = read_pack((root / PACK).read_bytes())
    assert pack is not None
    store.lease(pack.token, "", pack.paths)
    run_out(root)
    files = sorted((root / pack.folder).rglob("*.parquet"))
    assert files
    assert store.clear_leftovers() == 0
    assert sorted((root / pack.folder).rglob("*.parquet")) == files
    assert not [*(root / "leases").iterdir()]


def test_compact_packs_where_no_run_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_warehouse(tmp_path / "w", rows_of(RUNS))
    assert run_command(monkeypatch, "compact", "run00", "-w", str(root)) == 0
    assert not (root / PACK).exists()
    assert run_command(monkeypatch, "compact", "-w", str(root)) == 0
    assert "6 small runs packed" in capsys.readouterr().err
    monkeypatch.setattr(compact, "compact_run", None)  # packed runs need not be opened again
    assert run_command(monkeypatch, "compact", "-w", str(root)) == 0
    assert "run05  name run05: 1 file: as few as possible" in capsys.readouterr().err
    without_own_files(root, RUNS)
    assert totals(root) == [(12, 30)]
