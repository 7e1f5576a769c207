"""`make bench`: run every registered benchmark and print one table."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys

from rich.console import Console
from rich.table import Table

import tests.bench
from tests.bench.registry import REGISTERED, measure


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="times that each contender runs")
    parser.add_argument("names", nargs="*", help="benchmarks to run; none: all")
    options = parser.parse_args()
    for module in pkgutil.iter_modules(tests.bench.__path__):
        if not module.name.startswith(("_", "test_")):
            importlib.import_module(f"tests.bench.{module.name}")
    chosen = [b for b in REGISTERED if not options.names or b.name in options.names]
    if not chosen:
        print(f"no such benchmark; there are: {[b.name for b in REGISTERED]}", file=sys.stderr)
        return 2
    table = Table("benchmark", "contender", "median s", "least s", "times ours", "peak MB")
    for benchmark in chosen:
        rows = measure(benchmark, options.rounds)
        if isinstance(rows, str):
            print(f"{benchmark.name}: skipped, {rows}", file=sys.stderr)
            continue
        for row in rows:
            numbers = (f"{row.median_s:.3f}", f"{row.least_s:.3f}", f"{row.ratio:.2f}")
            peak = "" if row.peak_bytes is None else f"{row.peak_bytes / 1e6:,.0f}"
            table.add_row(row.benchmark, row.contender, *numbers, peak)
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
