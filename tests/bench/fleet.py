"""One run of 64 hosts with 8 devices each: ingest, queries, compaction and pages.

It has 20 million ops, so that the full mode stays short; XLAHOUSE_BENCH_FLEET=100 in the environment
makes it 100 million.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp

import pyarrow.parquet as pq

from tests.bench.ingest import child, folder
from tests.bench.registry import Benchmark, Cost, register
from tests.synth.describe import Run
from tests.synth.times import row_counts
from tests.synth.write import write_run

XLAHOUSE = str(Path(sys.executable).with_name("xlahouse"))
SIZE = "XLAHOUSE_BENCH_FLEET"
LARGE = int(os.environ.get(SIZE, "20"))  # million ops
SMALL = LARGE // 10
QUERIES = ("traffic_volume", "comm_compute", "latency", "run_summary", "straggler", "link_traffic")


def fleet(millions: int) -> Run:
    """Steps of 299 ops and 32 collectives on each of 512 devices: tp within a host, ep over hosts."""
    return Run(
        name="fleet",
        mesh=(("dp", 4), ("ep", 16), ("tp", 8)),
        hosts=64,
        layers=8,
        fusions=12,
        batch=64,
        requests=5 * millions // 10,
        output_tokens=13,
    )


@cache
def traces(millions: int) -> Path:
    """The run's 64 files: 0.4 GB for 10 million ops, 3.2 GB for 100."""
    made = folder() / f"fleet{millions}"
    write_run(fleet(millions), made, workers=len(os.sched_getaffinity(0)))
    return made


def ingest(millions: int, root: Path) -> Cost:
    """`xlahouse ingest`, which must find every op and collective that was written."""
    cost = child([XLAHOUSE, "ingest", str(traces(millions)), "-w", str(root)])
    (run,) = pq.read_table(root / "tables" / "runs").to_pylist()
    for table in ("ops", "collectives"):
        found = sum(file["rows"] for file in run["files"] if file["table"] == table)
        written = sum(device[table] for device in row_counts(fleet(millions)))
        assert found == written, f"{found:,} {table}, and {written:,} were written"
    return cost


def root_of(millions: int) -> Path:
    return folder() / f"fleet{millions}-warehouse"


def ingest_again(_: object, millions: int) -> Cost:
    """Ingest into a warehouse that is kept: queries of such a large run share one ingest."""
    shutil.rmtree(root_of(millions), ignore_errors=True)
    return ingest(millions, root_of(millions))


def warehouse(millions: int) -> Path:
    """The run, ingested once."""
    if not root_of(millions).exists():
        ingest(millions, root_of(millions))
    return root_of(millions)


def asked(sql: str) -> Callable[[object], Cost]:
    """A contender that answers a query as a process."""
    return lambda root: child([XLAHOUSE, "query", sql, "-w", str(root), "-o", f"{root}.csv"])


def compact(root: object) -> Cost:
    """`xlahouse compact` on a copy."""
    copied = Path(mkdtemp(dir=folder())) / "warehouse"
    shutil.copytree(str(root), copied)
    try:
        return child([XLAHOUSE, "compact", "-w", str(copied)])
    finally:
        shutil.rmtree(copied.parent)


def report(root: object) -> Cost:
    """`xlahouse report` into a new folder."""
    made = mkdtemp(dir=folder())
    try:
        return child([XLAHOUSE, "report", "-w", str(root), "-o", made])
    finally:
        shutil.rmtree(made)


register(
    Benchmark(
        f"ingest {LARGE} M ops of 512 devices, 64 files",
        lambda: [traces(millions) for millions in (SMALL, LARGE)],
        partial(ingest_again, millions=LARGE),
        {"ours, a tenth": partial(ingest_again, millions=SMALL)},
        most_rounds=1,
    )
)
register(
    Benchmark(
        f"queries on {LARGE} M ops of 512 devices",
        partial(warehouse, LARGE),
        asked("select count(*), sum(duration_ps) from ops"),
        {f"ours, {name}": asked(f"from {name}") for name in QUERIES},
        most_rounds=1,
    )
)
register(
    Benchmark(
        f"compact and pages of {LARGE} M ops of 512 devices",
        partial(warehouse, LARGE),
        compact,
        {"ours, report": report},
        most_rounds=1,
    )
)
