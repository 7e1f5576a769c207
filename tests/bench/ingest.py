"""Ingest of whole traces as processes, beside xprof's events table, protobuf objects, and a floor."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp

from tests.bench.decode import objects
from tests.bench.floor import save_rows
from tests.bench.grow import write_grown
from tests.bench.peers import XPROF, has
from tests.bench.registry import Benchmark, Cost, register
from tests.samples import SAMPLES
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql import Warehouse

TPU = SAMPLES / "tpu/v6e_4dev_jax_psum_offload.xplane.pb"
CPU = SAMPLES / "cpu/torch_xla_mlp_4dev.xplane.pb"
LOOP = """
import sys
from tests.bench.decode import objects
objects(open(sys.argv[1], "rb").read())
"""

EVENTS = """
select cast(sum(events_read) as bigint), cast(sum(rows_written + events_rejected) as bigint)
from coverage
"""

# A process's peak memory starts at that of its parent, so a small process starts the contender.
LAUNCHER = """
import os, sys
null = os.open(os.devnull, os.O_RDWR)
quiet = [(os.POSIX_SPAWN_DUP2, null, number) for number in (1, 2)]
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=quiet)
_, status, usage = os.wait4(child, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss, usage.ru_utime + usage.ru_stime)
"""


@dataclass(frozen=True)
class Grown:
    """How a sample is grown: `times` copies of its events, `planes` copies of each device."""

    sample: Path
    times: int
    lines: str = "^/device:"
    planes: int = 1


@cache
def folder() -> Path:
    made = Path(mkdtemp())
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made


@cache
def grown(how: Grown) -> Path | str:
    """The grown trace; or why it cannot be made."""
    if not how.sample.is_file():
        return f"no sample trace at {how.sample}"
    path = folder() / f"{how.sample.stem}_{how.times}_{how.planes}.xplane.pb"
    write_grown(how.sample.read_bytes(), path, how.times, how.lines, how.planes)
    return path


def child(command: list[str]) -> Cost:
    """Run a process to its end.

    Raises:
        RuntimeError: its exit code is not 0.
    """
    given = [sys.executable, "-S", "-c", LAUNCHER, *command]
    printed = subprocess.run(given, capture_output=True, check=True).stdout.split()
    code, kilobytes = map(int, printed[:2])
    if code:
        raise RuntimeError(f"{command[0]}: exit code {code}")
    return Cost(kilobytes * 1024, float(printed[2]))


def ours(path: object) -> Cost:
    """`xlahouse ingest` into a new warehouse."""
    root = mkdtemp(dir=folder())
    try:
        return child(
            [str(Path(sys.executable).with_name("xlahouse")), "ingest", str(path), "-w", root]
        )
    finally:
        shutil.rmtree(root)


def every_event(path: object) -> None:
    """Ours reads as many events as a loop over protobuf objects, and writes or rejects each."""
    root = mkdtemp(dir=folder())
    try:
        ingest_paths([str(path)], root)
        with Warehouse(root) as warehouse:
            (row,) = warehouse.query(EVENTS).rows
    finally:
        shutil.rmtree(root)
    events = objects(Path(str(path)).read_bytes())
    assert row == (events, events), f"{row} events read, and written or rejected, of {events:,}"


def xprof(path: object) -> Cost:
    """`xprof create_events_db`, which writes one Parquet file of events."""
    given = [f"--session_id={path}", "--bypass_cache=True"]
    return child([str(XPROF), "create_events_db", *given])


def loop(path: object) -> Cost:
    """A loop over protobuf objects that makes a tuple of each event, and writes nothing."""
    return child([sys.executable, "-c", LOOP, str(path)])


def with_rows(how: Grown) -> Path | str:
    """The grown trace, with its rows stored beside it for `floor`; or why it cannot be made."""
    path = grown(how)
    if isinstance(path, str) or (rows := path.with_suffix(".rows")).is_dir():
        return path
    root = Path(mkdtemp(dir=folder()))
    ingest_paths([str(path)], str(root))
    rows.mkdir()
    save_rows(root, rows)
    shutil.rmtree(root)
    return path


def floor(path: object) -> Cost:
    """Start, hash, decoder and Parquet alone: tests.bench.floor."""
    rows = Path(str(path)).with_suffix(".rows")
    return child([sys.executable, "-m", "tests.bench.floor", str(path), str(rows)])


def other(how: Grown) -> Callable[[object], Cost]:
    """Ours, on another trace than the benchmark's."""
    return lambda _: ours(grown(how))


PEERS = {"protobuf objects": loop} | ({"xprof": xprof} if has("xprof") else {})
LARGE = Grown(TPU, 250)  # 75 MB, 1.9 M events
TENTH = Grown(TPU, 25)
LONG = 3  # rounds of a benchmark that takes long
register(
    Benchmark(
        "ingest TPU xplane, 7.5 MB",
        partial(grown, TENTH),
        ours,
        PEERS,
        quick=True,
        proof=every_event,
    )
)
BESIDE = PEERS | {"floor": floor}
register(Benchmark("ingest TPU xplane, 75 MB", partial(with_rows, LARGE), ours, BESIDE, LONG))
VIRTUAL = Grown(CPU, 590, "^/host:CPU$")  # 65 MB, 2.7 M events
register(Benchmark("ingest CPU xplane, 65 MB", partial(with_rows, VIRTUAL), ours, BESIDE, LONG))
# In the next two, the peer is ours on a smaller trace: 1 over the ratio is the growth.
register(
    Benchmark("ingest ten times", partial(grown, LARGE), ours, {"a tenth": other(TENTH)}, LONG)
)
WIDE = Grown(TPU, 60, planes=16)
FEWER = {"a quarter of the planes": other(Grown(TPU, 60, planes=4))}
register(Benchmark("ingest 64 planes", partial(grown, WIDE), ours, FEWER, LONG))
