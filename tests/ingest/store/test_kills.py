"""Killed before any write of any verb, a warehouse is as it was before the verb or as it is after it."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import fsspec
import pytest

from tests.ingest.store.kills import Killer, killer
from tests.ingest.traces import tpu_trace, write
from tests.layers import drawn, first_few, sampled, takes_all
from tests.leases import run_out
from tests.object_store import s3_bucket
from xlahouse.ingest.run import ingest_paths
from xlahouse.ingest.store.packs import read_pack
from xlahouse.ingest.store.run_index import PACK
from xlahouse.ingest.store.store import Store
from xlahouse.sql.warehouse import Warehouse

VERBS = (
    "ingest", "ingest again", "compact", "pack", "pack again", "drop", "drop at once", "drop packed",
    "clear", "index",
)  # fmt: skip
AHEAD = (0, 3601, -3601)  # seconds: of the clock of the machine on which a verb is killed
ON_S3 = ("ingest", "ingest again", "compact", "drop", "drop at once", "pack")
# Kills of a verb by `make verify`; ALL=1: at each write, and at so many moments.
AT_WRITES, AT_MOMENTS, AT_WRITES_ON_S3, AT_MOMENTS_ON_S3, ALL_MOMENTS = 15, 15, 8, 4, 100


@pytest.fixture(scope="module")
def kills() -> Iterator[Killer]:
    with killer() as made:
        yield made


def prepared(kills: Killer, verb: str, root: str, folder: Path) -> str:
    """A warehouse in which the verb has something to do; what the verb is given."""
    trace = write(folder / "a.xplane.pb", tpu_trace(0))
    ingest_paths([write(folder / "b.xplane.pb", tpu_trace(1))], root)
    if verb == "ingest":
        return trace
    (result,) = ingest_paths([trace], root, device_kind="TPU v6e")
    if verb == "compact":
        in_two_files(Store(root), result.run_id)
    if verb in ("drop packed", "pack again"):
        assert kills.run("index", "", root)[0] == kills.run("pack", "", root)[0] == 0
    if verb == "pack":
        assert kills.run("index", "", root)[0] == 0
    if verb == "pack again":  # of one run less
        assert kills.run("drop", result.run_id, root)[0] == 0
    if verb == "clear":
        from xlahouse.ingest.store.drop import drop_run

        drop_run(Store(root), result.run_id)
        run_out(root)
    return trace if verb == "ingest again" else result.run_id


def in_two_files(store: Store, run_id: str) -> None:
    """Write a run's ops as files of one row each."""
    import pyarrow.parquet as pq

    row = store.run_row(run_id)
    assert row is not None
    (ops,) = [file["path"] for file in row["files"] if file["table"] == "ops"]
    with store.fs.open(f"{store.base}/{ops}") as file:
        rows = pq.read_table(file)
    writer = store.begin(run_id)
    for part in (0, 1):
        writer.write_pieces("ops", [rows], part)
    writer.commit(row, [file for file in row["files"] if file["path"] != ops])


def state(root: str) -> object:
    """All that a reader finds, but how many files hold it and which version wrote it."""
    told: list[str] = []
    with Warehouse(root, told.append) as warehouse:
        runs = warehouse.query("select run_id, name, duration_ps from runs order by 1").rows
        ops = warehouse.query("select run_id, op, device_id, start_ps from ops order by all").rows
        kinds = warehouse.query("from run_settings order by run_id").rows
    assert not [line for line in told if "damaged" in line]
    return runs, ops, kinds


def listed(root: str) -> set[str]:
    store = Store(root)
    rows = [store.run_row(run_id) for run_id in store.run_ids()]
    assert all(row is not None and store.is_whole(row) for row in rows)
    return {file["path"] for row in rows if row for file in row["files"]}


def packed(root: str) -> set[str]:
    """The folder of its pack, if it has one."""
    path = Path(root, PACK)
    pack = read_pack(path.read_bytes()) if path.exists() else None
    return {f"pack-{pack.token}"} if pack is not None else set()


def check_left(kills: Killer, verb: str, given: str, root: str, allowed: list[object]) -> None:
    """The state is one of those allowed, what is left goes to the last file, and the verb can be done."""
    found = state(root)
    assert found in allowed
    whole = listed(root)
    Store(root).clear_leftovers()  # by another machine, while the leases still run
    assert state(root) == found
    if "://" in root:
        return
    run_out(root)
    Store(root).clear_leftovers()
    assert state(root) == found
    there = {str(path.relative_to(root)) for path in Path(root).glob("tables/*/*=*/*")}
    assert (there, listed(root)) == (whole, whole)
    assert not [*Path(root).rglob("*.tmp"), *Path(root).glob("leases/*")]
    assert {path.parent.name for path in Path(root).glob("index/pack-*/*.parquet")} == packed(root)
    assert kills.run(verb, given, root)[0] == 0


@dataclass(frozen=True)
class Trial:
    """A verb and a warehouse in which it has something to do.

    Attributes:
        verb: one of VERBS.
        given: what it is given.
        base: the warehouse.
        allowed: its states before and after.
        writes: how many the verb makes.
        seconds: that it takes at most.
    """

    kills: Killer
    verb: str
    given: str
    base: str
    allowed: list[object]
    writes: int
    seconds: float

    def at_write(self, at: int) -> None:
        """Kill it at a write, on a machine whose clock differs."""
        with copied(self.base) as root:
            code, _ = self.kills.run(self.verb, self.given, root, at, AHEAD[at % 3])
            assert code == -signal.SIGKILL, at
            check_left(self.kills, self.verb, self.given, root, self.allowed)

    def at_moments(self, count: int) -> None:
        """Kill it at random moments; one that comes after its end does not count."""
        draw, longest, killed = drawn(self.verb), self.seconds, 0
        while killed < count:
            with copied(self.base) as root:
                after, ahead = draw.uniform(0, longest) or 1e-6, AHEAD[killed % 3]
                code, _ = self.kills.run(self.verb, self.given, root, ahead=ahead, after=after)
                assert code in (0, -signal.SIGKILL)
                check_left(self.kills, self.verb, self.given, root, self.allowed)
            killed += code != 0
            longest = longest if code else after


@contextmanager
def copied(base: str) -> Iterator[str]:
    """A copy of a warehouse on the same disk or store, removed afterwards."""
    root = f"{base}-copy"
    if "://" not in base:
        shutil.copytree(base, root)
        yield root
        shutil.rmtree(root)
        return
    fs = fsspec.filesystem("s3")
    fs.copy(base, root, recursive=True)
    yield root
    fs.rm(root, recursive=True)


def tried(kills: Killer, verb: str, base: str, folder: Path) -> Trial:
    given = prepared(kills, verb, base, folder)
    with copied(base) as done:
        began = time.perf_counter()
        code, writes = kills.run(verb, given, done)
        took = time.perf_counter() - began
        assert (code, writes > 1) == (0, True)
        return Trial(kills, verb, given, base, [state(base), state(done)], writes, took)


@pytest.mark.parametrize("verb", first_few(VERBS, 1))
def test_a_kill_at_some_writes_leaves_the_state_before_or_after(
    tmp_path: Path, kills: Killer, verb: str
) -> None:
    trial = tried(kills, verb, str(tmp_path / "w"), tmp_path)
    for at in random.Random(verb).sample(range(1, trial.writes + 1), 2):
        trial.at_write(at)


@pytest.mark.verify
@pytest.mark.parametrize("verb", VERBS)
def test_a_kill_at_each_write_or_moment_leaves_the_state_before_or_after(
    tmp_path: Path, kills: Killer, verb: str
) -> None:
    trial = tried(kills, verb, str(tmp_path / "w"), tmp_path)
    for at in sampled(range(1, trial.writes + 1), AT_WRITES, verb):
        trial.at_write(at)
    trial.at_moments(ALL_MOMENTS if takes_all() else AT_MOMENTS)


@pytest.mark.verify
@pytest.mark.parametrize("verb", ON_S3)
def test_a_kill_at_a_write_or_moment_on_a_store_leaves_the_state_before_or_after(
    tmp_path: Path, verb: str
) -> None:
    with s3_bucket() as bucket, killer() as kills:
        trial = tried(kills, verb, f"{bucket}/w", tmp_path)
        for at in sampled(range(1, trial.writes + 1), AT_WRITES_ON_S3, verb):
            trial.at_write(at)
        trial.at_moments(ALL_MOMENTS if takes_all() else AT_MOMENTS_ON_S3)
