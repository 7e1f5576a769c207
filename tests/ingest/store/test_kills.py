"""Killed before any write of any verb, a warehouse is as it was before the verb or as it is after it."""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import fsspec
import pytest

from tests.ingest.store.kills import Killer, killer
from tests.ingest.traces import tpu_trace, write
from tests.layers import drawn, first_few, sampled
from tests.leases import run_out
from tests.object_store import s3_bucket
from xlahouse.ingest.run import ingest_paths
from xlahouse.ingest.store.store import Store
from xlahouse.sql.warehouse import Warehouse

VERBS = ("ingest", "ingest again", "compact", "drop", "drop at once", "clear", "index")
AHEAD = (0, 3601, -3601)  # seconds: of the clock of the machine on which a verb is killed
MOMENTS = range(100)
# Kills of a verb by `make verify`; ALL=1: at each write and each of the moments.
AT_WRITES, AT_MOMENTS, ON_S3, MOMENTS_ON_S3 = 15, 15, 8, 4


@pytest.fixture(scope="module")
def kills() -> Iterator[Killer]:
    with killer() as made:
        yield made


def prepared(verb: str, root: str, folder: Path) -> str:
    """A warehouse in which the verb has something to do; what the verb is given."""
    trace = write(folder / "a.xplane.pb", tpu_trace(0))
    ingest_paths([write(folder / "b.xplane.pb", tpu_trace(1))], root)
    if verb == "ingest":
        return trace
    (result,) = ingest_paths([trace], root, device_kind="TPU v6e")
    if verb == "compact":
        in_two_files(Store(root), result.run_id)
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
    assert kills.run(verb, given, root)[0] == 0


@dataclass(frozen=True)
class Verb:
    """A verb and a warehouse in which it has something to do."""

    name: str
    given: str
    base: str
    allowed: list[object]  # states
    writes: int
    seconds: float


def tried(kills: Killer, name: str, folder: Path) -> Verb:
    base = str(folder / "base")
    given = prepared(name, base, folder)
    done = str(shutil.copytree(base, folder / "done"))
    began = time.perf_counter()
    code, writes = kills.run(name, given, done)
    took = time.perf_counter() - began
    assert (code, writes > 1) == (0, True)
    return Verb(name, given, base, [state(base), state(done)], writes, took)


def kill_at(kills: Killer, verb: Verb, points: Iterable[int]) -> None:
    """Kill a verb at some of its writes, on machines whose clocks differ."""
    for at in points:
        root = str(shutil.copytree(verb.base, f"{verb.base}-{at}"))
        code, _ = kills.run(verb.name, verb.given, root, at, AHEAD[at % 3])
        assert code == -signal.SIGKILL, at
        check_left(kills, verb.name, verb.given, root, verb.allowed)
        shutil.rmtree(root)


@pytest.mark.parametrize("name", first_few(VERBS, 1))
def test_a_kill_at_some_writes_leaves_the_state_before_or_after(
    tmp_path: Path, kills: Killer, name: str
) -> None:
    verb = tried(kills, name, tmp_path)
    kill_at(kills, verb, random.Random(name).sample(range(1, verb.writes + 1), 2))


@pytest.mark.verify
@pytest.mark.parametrize("name", VERBS)
def test_a_kill_at_each_write_or_moment_leaves_the_state_before_or_after(
    tmp_path: Path, kills: Killer, name: str
) -> None:
    verb = tried(kills, name, tmp_path)
    kill_at(kills, verb, sampled(range(1, verb.writes + 1), AT_WRITES, name))
    for number in sampled(MOMENTS, AT_MOMENTS, name):
        root = str(shutil.copytree(verb.base, f"{verb.base}-{number}"))
        after = drawn(f"{name} {number}").uniform(0, verb.seconds) or 1e-6
        code, _ = kills.run(name, verb.given, root, ahead=AHEAD[number % 3], after=after)
        assert code in (0, -signal.SIGKILL)
        check_left(kills, name, verb.given, root, verb.allowed)
        shutil.rmtree(root)


@pytest.mark.verify
@pytest.mark.parametrize("name", ["ingest", "ingest again", "compact", "drop", "drop at once"])
def test_a_kill_at_a_write_or_moment_on_a_store_leaves_the_state_before_or_after(
    tmp_path: Path, name: str
) -> None:
    with s3_bucket() as bucket, killer() as kills:
        fs = fsspec.filesystem("s3")

        def copy(folder: object) -> str:
            fs.copy(f"{bucket}/base", f"{bucket}/{folder}", recursive=True)
            return f"{bucket}/{folder}"

        given = prepared(name, f"{bucket}/base", tmp_path)
        done = copy("done")
        began = time.perf_counter()
        code, writes = kills.run(name, given, done)
        took = time.perf_counter() - began
        assert code == 0
        allowed = [state(f"{bucket}/base"), state(done)]
        for at in sampled(range(1, writes + 1), ON_S3, name):
            root = copy(at)
            assert kills.run(name, given, root, at, AHEAD[at % 3])[0] == -signal.SIGKILL
            check_left(kills, name, given, root, allowed)
            fs.rm(root, recursive=True)
        for number in sampled(MOMENTS, MOMENTS_ON_S3, name):
            root = copy(f"moment-{number}")
            after = drawn(f"{name} {number}").uniform(0, took) or 1e-6
            code, _ = kills.run(name, given, root, ahead=AHEAD[number % 3], after=after)
            assert code in (0, -signal.SIGKILL)
            check_left(kills, name, given, root, allowed)
            fs.rm(root, recursive=True)
