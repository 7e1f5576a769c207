"""`make bench`: run benchmarks, print one table, and hold it against the baseline."""

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
    markdown,
    merged,
    outcome_of,
    read_outcome,
    save,
    show_in_readme,
    slowness,
)
from tests.bench.registry import REGISTERED, Benchmark, Row, check, choose, measure

EXAMPLES = f"""examples:
  make bench                            the quick mode, under 3 minutes
  make bench ARGS=--full                all of them, under 30
  make bench ARGS="Kineto questions"    those whose names hold a word
  make bench ARGS="--full --save"       the table becomes the baseline, and README's
  make bench ARGS=--check               that what is timed gives the right results, as CI does

The run of 512 devices has 20 million ops. {SIZE}=100 in the environment makes them 100 million:
that takes 4 GB of disk and, alone, a quarter of an hour.
"""


def main() -> int:
    # Peers come compiled from their packages. Where Python may not keep what it compiles, ours would be
    # compiled at each start.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    options = _options()
    load_all()
    try:
        chosen = choose(options.words, options.full)
    except KeyError as error:
        names = "\n  ".join(benchmark.name for benchmark in REGISTERED)
        print(f"no benchmark has {error} in its name; there are:\n  {names}", file=sys.stderr)
        return 2
    if options.check:
        return check_all(chosen)
    rows, failed = measure_all(chosen, options.rounds or (5 if options.full else 3))
    outcome = outcome_of(rows)
    baseline = read_outcome(BASELINE) if BASELINE.exists() else None
    if options.markdown:
        print(markdown(outcome))
    else:
        Console(width=None if sys.stdout.isatty() else 120).print(table(outcome, baseline))
    if options.json:
        save(outcome, options.json)
    if options.save:
        kept = merged(baseline, outcome) if baseline else outcome
        save(kept, BASELINE)
        show_in_readme(kept)
    return 1 if failed else 0


def measure_all(chosen: list[Benchmark], rounds: int) -> tuple[list[Row], list[str]]:
    """(rows, names of what failed): one that fails costs itself, not the half hour of the others."""
    rows: list[Row] = []
    failed = []
    for benchmark in chosen:
        print(f"{benchmark.name} …", file=sys.stderr, flush=True)
        start = time.perf_counter()
        try:
            found = measure(benchmark, rounds)
            told = f"skipped, {found}" if isinstance(found, str) else "done"
        except Exception as error:
            failed.append(benchmark.name)
            found, told = [], f"FAILED: {type(error).__name__}: {error}"
        if isinstance(found, list):
            rows += found
        print(f"  {told} ({time.perf_counter() - start:.0f} s)", file=sys.stderr, flush=True)
    return rows, failed


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("words", nargs="*", help="benchmarks whose names hold one of them")
    parser.add_argument("--full", action="store_true", help="all benchmarks, not the quick ones")
    parser.add_argument("--rounds", type=int, help="times that each runs; 3, with --full 5")
    parser.add_argument(
        "--check", action="store_true", help="no times: only that results are right"
    )
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcome as JSON")
    parser.add_argument("--save", action="store_true", help="make it the baseline, in README too")
    return parser.parse_args()


def check_all(chosen: list[Benchmark]) -> int:
    """Run each once, without a clock; 1 where one gives something wrong."""
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
        "benchmark", "contender", "median s", "least s", "times ours", "peak MB", "to baseline"
    )
    slower = slowness(outcome.rows, baseline) if baseline else 1.0
    for row in outcome.rows:
        numbers = (f"{row.median_s:.3f}", f"{row.least_s:.3f}", f"{row.ratio:.2f}")
        peak = "" if row.peak_bytes is None else f"{row.peak_bytes / 1e6:,.0f}"
        change = against(row, baseline, slower) if baseline else None
        shown.add_row(
            row.benchmark, row.contender, *numbers, peak, "" if change is None else f"{change:.2f}"
        )
    if baseline:
        shown.caption = (
            f"to baseline: ours over {baseline.measured_on}'s; by the peers' times this machine is now "
            f"{slower:.2f} times as slow"
        )
    return shown


if __name__ == "__main__":
    sys.exit(main())
