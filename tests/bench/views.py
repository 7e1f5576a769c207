"""Views over one large run: 1, 3 and 10 million ops; the targets are 1 s for summaries, 3 s for others.

`python -m tests.bench.views` prints every view's seconds at each size, and how they grow; `make bench`
times the summaries at one million ops.
"""

from __future__ import annotations

import argparse
import time
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from tests.bench.large import write_large
from tests.bench.registry import Benchmark, register
from xlahouse.sql import Warehouse
from xlahouse.sql.library import shipped

# One row an op, a collective or a gap: people look at some of them.
ROW_LEVEL = {
    "collective_bandwidth",
    "idle_gap",
    "launch_overhead",
    "layout",
    "traffic_burst",
    "traffic_interval",
    "traffic_window",
}
SUMMARIES = ("run_summary", "traffic_volume", "comm_compute", "latency")
OPS_A_COLLECTIVE = 10


def question(base: str) -> str:
    """What is asked of a view: all of it, counted, or some rows of one with millions."""
    if base in ROW_LEVEL:
        return f"select * from {base} limit 1000"
    return f"select count(*), count(columns(*)) from {base}"


@cache
def warehouse_of(ops: int) -> Path:
    """A warehouse with one run of that many ops."""
    root = Path(mkdtemp(prefix="xlahouse-views-")) / str(ops)
    return write_large(root, ops // OPS_A_COLLECTIVE)


def seconds(ops: int, base: str) -> float:
    """How long a view takes in a warehouse that nothing has been asked of yet."""
    with Warehouse(warehouse_of(ops)) as warehouse:
        start = time.perf_counter()
        warehouse.query(question(base)).arrow()
        return time.perf_counter() - start


def _ask(base: str) -> None:
    seconds(1_000_000, base)


for summary in SUMMARIES:
    register(
        Benchmark(
            name=f"view {summary}, 1 M ops",
            prepare=lambda: warehouse_of(1_000_000),
            ours=lambda _, base=summary: _ask(base),
            quick=True,
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("views", nargs="*", help="bare names; none: all")
    parser.add_argument("--ops", type=int, nargs="+", default=[1_000_000, 3_000_000, 10_000_000])
    options = parser.parse_args()
    names = options.views or sorted(shipped().pointers)
    print("view".ljust(28), *(f"{ops // 1_000_000:>4} M" for ops in options.ops), sep="  ")
    for base in names:
        taken = [seconds(ops, base) for ops in options.ops]
        print(base.ljust(28), *(f"{each:6.2f}" for each in taken), sep="  ", flush=True)


if __name__ == "__main__":
    main()
