"""Views over one large run: 1, 3 and 10 million ops; the targets are 1 s for summaries, 3 s for others.

`python -m tests.bench.views` prints every view's seconds (wall and CPU) at each size and how they grow,
with the times of a bare scan and bare sorts of the rows; `make bench` times some views.
"""

from __future__ import annotations

import argparse
import atexit
import shutil
import time
from functools import cache, partial
from math import log
from pathlib import Path
from tempfile import mkdtemp

from tests.bench.large import write_large
from tests.bench.registry import Benchmark, register
from xlahouse.sql import Warehouse
from xlahouse.sql.library import shipped

# One row per op, collective or gap: people look at some of them.
ROW_LEVEL = {
    "collective_bandwidth",
    "idle_gap",
    "launch_overhead",
    "layout",
    "traffic_burst",
    "traffic_interval",
    "traffic_window",
}
OVER_INTERVALS = {"bubble", "exposed_collective", "sync_wait"}
SUMMARIES = ("run_summary", "traffic_volume", "comm_compute", "latency")
# Views that take more than half of their target.
SLOWEST = (
    "bandwidth_summary",
    "bubble",
    "ccl_bench",
    "ccl_legacy",
    "collective_latency_summary",
    "exposed_collective",
    "idle_gap",
    "layer_breakdown",
    "link_traffic",
    "module_breakdown",
    "op_profile",
    "reconfiguration_fit",
    "roofline",
    "traffic_interval_summary",
    "traffic_window",
    "traffic_window_summary",
)
SIZES = (1_000_000, 3_000_000, 10_000_000)
OPS_A_COLLECTIVE = 10
# The least that a view must do to order the rows of a table.
_SORT = """
select max(before_ps) from (
    select lag(start_ps) over (partition by device_id order by start_ps) as before_ps from {}
)
"""
BARE = {f"a scan of {table}": f"select sum(duration_ps) from {table}" for table in ("ops",)} | {
    f"a sort of {table}": _SORT.format(table) for table in ("busy_stretches", "collectives")
}


def question(base: str) -> str:
    """The query of a view: all rows, counted, or some rows of a view with millions."""
    if base in BARE:
        return BARE[base]
    if base in ROW_LEVEL:
        return f"select * from {base} limit 1000"
    return f"select count(*), count(columns(*)) from {base}"


def target(base: str) -> float:
    """Seconds of wall time that a view may take at 10 million ops on two cores."""
    return 3.0 if base in ROW_LEVEL | OVER_INTERVALS else 1.0


@cache
def warehouse_of(ops: int) -> Path:
    """A warehouse with one run of that many ops, until this process ends."""
    root = Path(mkdtemp(prefix="xlahouse-views-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    return write_large(root / str(ops), ops // OPS_A_COLLECTIVE)


def seconds(ops: int, base: str) -> tuple[float, float]:
    """(wall, CPU) seconds of a view in a warehouse that was only just opened."""
    root = warehouse_of(ops)
    with Warehouse(root, memory_limit="4GB", threads=2) as warehouse:
        start, worked = time.perf_counter(), time.process_time()
        warehouse.query(question(base)).arrow()
        return time.perf_counter() - start, time.process_time() - worked


def _ask(ops: int, base: str, _: object) -> None:
    seconds(ops, base)


for view in SUMMARIES:
    register(
        Benchmark(
            name=f"view {view}, 1 M ops",
            prepare=partial(warehouse_of, SIZES[0]),
            ours=partial(_ask, SIZES[0], view),
            quick=True,
        )
    )
for view in (*SUMMARIES, *SLOWEST):
    register(
        Benchmark(
            name=f"view {view}, 10 M ops",
            prepare=lambda: [warehouse_of(ops) for ops in SIZES],
            ours=partial(_ask, SIZES[-1], view),
            peers={f"of {ops // 1_000_000} M ops": partial(_ask, ops, view) for ops in SIZES[:-1]}
            | {name: partial(_ask, SIZES[-1], name) for name in BARE if view in SLOWEST},
            most_rounds=2,
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("views", nargs="*", help="views without their version; default: all")
    parser.add_argument("--ops", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=1, help="rounds; the least is printed")
    options = parser.parse_args()
    sizes = sorted(options.ops)
    print(
        "wall seconds, CPU seconds in brackets; grown: CPU of the largest by n log n of the smallest"
    )
    for base in options.views or [*BARE, *sorted(shipped().pointers)]:
        rounds = [[seconds(ops, base) for ops in sizes] for _ in range(options.rounds)]
        least = [
            tuple(map(min, zip(*of_size, strict=True))) for of_size in zip(*rounds, strict=True)
        ]
        cells = [f"{clock:6.2f} ({cpu:5.2f})" for clock, cpu in least]
        first, last = (ops * log(ops) for ops in (sizes[0], sizes[-1]))
        grown = least[-1][1] / least[0][1] / (last / first)
        # On a busy machine CPU seconds show whether the target is met: two cores take no longer.
        is_met = base in BARE or min(least[-1]) <= target(base)
        over = "" if is_met else f"over {target(base):.0f} s"
        print(base.ljust(28), *cells, f"{grown:5.2f}", over, sep="  ", flush=True)


if __name__ == "__main__":
    main()
