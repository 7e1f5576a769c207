"""`make bench`: run benchmarks, print one table, and compare it with the baseline."""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

import tests.bench
from tests.bench.fleet import SIZE
from tests.bench.outcome import (
    BASELINE,
    Outcome,
    against,
    merged,
    outcome_of,
    read_outcome,
    save,
    slowness,
)
from tests.bench.page import page, write_page
from tests.bench.registry import REGISTERED, Benchmark, Row, check, choose, measure

EXAMPLES = f"""examples:
  make bench                            the quick mode, under 3 minutes
  make bench ARGS=--full                all of them, under 30
  make bench ARGS="Kineto questions"    benchmarks whose names contain one of the words
  make bench ARGS="--full --save"       store the result as the baseline, and rewrite its page
  make bench ARGS=--check               check that what is timed gives the right results, as CI does

The run of 512 devices has 20 million ops. {SIZE}=100 in the environment makes it 100 million:
this takes 4 GB of disk and, alone, a quarter of an hour.
"""


def main() -> int:
    # Peers are installed with compiled modules. If Python may not store compiled modules, ours would be
    # compiled at each start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    options = _options()
    load_all()
    try:
        chosen = choose(options.words, options.full)
    except KeyError as error:
        names = "\n  ".join(benchmark.name for benchmark in REGISTERED)
        print(
            f"no benchmark has {error} in its name; the benchmarks are:\n  {names}", file=sys.stderr
        )
        return 2
    if options.page:
        write_page(read_outcome(BASELINE))
        return 0
    if options.check:
        return check_all(chosen)
    rows, failed = measure_all(chosen, options.rounds or (5 if options.full else 3))
    outcome = outcome_of(rows)
    baseline = read_outcome(BASELINE) if BASELINE.exists() else None
    if options.markdown:
        print(page(outcome))
    else:
        Console(width=None if sys.stdout.isatty() else 120).print(table(outcome, baseline))
    if options.json:
        save(outcome, options.json)
    if options.save:
        kept = merged(baseline, outcome) if baseline else outcome
        save(kept, BASELINE)
        write_page(kept)
    return 1 if failed else 0


def measure_all(chosen: list[Benchmark], rounds: int) -> tuple[list[Row], list[str]]:
    """(rows, names of benchmarks that failed): a failure does not stop the other benchmarks."""
    rows: list[Row] = []
    failed = []
    for benchmark in chosen:
        print(f"{benchmark.name} …", file=sys.stderr, flush=True)
        start = time.perf_counter()
        try:
            found = measure(benchmark, rounds)
            result = f"skipped, {found}" if isinstance(found, str) else "done"
        except Exception as error:
            failed.append(benchmark.name)
            found, result = [], f"FAILED: {type(error).__name__}: {error}"
        if isinstance(found, list):
            rows += found
        print(f"  {result} ({time.perf_counter() - start:.0f} s)", file=sys.stderr, flush=True)
    return rows, failed


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="*", help="benchmarks whose names contain one of these")
    parser.add_argument("--full", action="store_true", help="all benchmarks, not the quick ones")
    parser.add_argument("--rounds", type=int, help="rounds of each benchmark; 3, with --full 5")
    parser.add_argument(
        "--check", action="store_true", help="time nothing: check that results are right"
    )
    parser.add_argument("--markdown", action="store_true", help="print the page, as Markdown")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcome as JSON")
    parser.add_argument(
        "--save", action="store_true", help="store it as the baseline, with its page"
    )
    parser.add_argument("--page", action="store_true", help="rewrite the baseline's page, and stop")
    return parser.parse_args()


def check_all(chosen: list[Benchmark]) -> int:
    """Run each benchmark once, without a clock; returns 1 if one gives a wrong result."""
    wrong = 0
    for benchmark in chosen:
        try:
            reason = check(benchmark)
        except (AssertionError, RuntimeError) as error:
            wrong = 1
            print(f"{benchmark.name}: WRONG: {error}")
            continue
        print(
            f"{benchmark.name}: {'right' if reason is None else f'skipped, {reason}'}", flush=True
        )
    return wrong


def load_all() -> None:
    """Import every module that registers benchmarks."""
    for module in pkgutil.iter_modules(tests.bench.__path__):
        if not module.name.startswith(("_", "test_")):
            importlib.import_module(f"tests.bench.{module.name}")


def table(outcome: Outcome, baseline: Outcome | None) -> Table:
    """The outcome for a terminal."""
    shown = Table(
        "benchmark",
        "contender",
        "median s",
        "least s",
        "times ours",
        "CPU s",
        "peak MB",
        "to baseline",
    )
    slower = slowness(outcome.rows, baseline) if baseline else 1.0
    for row in outcome.rows:
        numbers = (f"{row.median_s:.3f}", f"{row.least_s:.3f}", f"{row.ratio:.2f}")
        cpu = "" if row.cpu_s is None else f"{row.cpu_s:.2f}"
        peak = "" if row.peak_bytes is None else f"{row.peak_bytes / 1e6:,.0f}"
        change = against(row, baseline, slower) if baseline else None
        shown.add_row(
            *(row.benchmark, row.contender, *numbers, cpu, peak),
            "" if change is None else f"{change:.2f}",
        )
    if baseline:
        shown.caption = (
            f"to baseline: ours over ours on {baseline.measured_on}; by the peers' times this machine is now "
            f"{slower:.2f} times as slow"
        )
    return shown


if __name__ == "__main__":
    sys.exit(main())
