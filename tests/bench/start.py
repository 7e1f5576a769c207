"""How long a command takes to its first row, on a cold warehouse of 50 runs, and to its help."""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp

from tests.bench.registry import Benchmark, register
from tests.synth.cases import CASES
from tests.synth.write import write_run
from xlahouse.ingest.run import ingest_paths

RUNS = 50
XLAHOUSE = (sys.executable, "-c", "from xlahouse.sql.cli import main; main()")
# The same rows without us: someone has to know where the files are.
BY_HAND = (
    'import duckdb, sys; print(duckdb.sql(f"select run_id, count(*), sum(duration_ps) '
    "from read_parquet('{sys.argv[1]}/tables/ops/*/*.parquet', hive_partitioning = true) "
    'group by all order by all").fetchall())'
)
SAME = "select run_id, count(*), sum(duration_ps) from ops group by all order by all"


def prepare() -> Path:
    """A warehouse of RUNS runs that differ in requests and tokens."""
    folder = Path(mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for number in range(RUNS):
        sizes = {"requests": 1 + number % 5, "output_tokens": 2 + number // 5}
        write_run(replace(CASES["tp4"], name=f"run{number}", **sizes), folder / f"run{number}")
    found = ingest_paths([str(path) for path in folder.iterdir()], str(folder / "warehouse"))
    assert len({run.run_id for run in found}) == RUNS
    return folder / "warehouse"


def asked(sql: str) -> Callable[[object], object]:
    """A contender that answers a query as a process."""

    def ask(root: object) -> None:
        command = [*XLAHOUSE, "query", sql, "-w", str(root)]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)

    return ask


def by_hand(root: object) -> None:
    """DuckDB alone, as a process."""
    command = [sys.executable, "-c", BY_HAND, str(root)]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)


def help_of(*verb: str) -> Callable[[object], object]:
    """A contender that prints its help."""
    command = [*XLAHOUSE, *verb, "--help"]
    return lambda _: subprocess.run(command, stdout=subprocess.DEVNULL, check=True) and None


register(
    Benchmark(
        f"first row of a query on {RUNS} runs",
        prepare,
        asked(SAME),
        {
            "DuckDB alone, its files by hand": by_hand,
            "ours, select 1": asked("select 1"),
            "ours, latency": asked("from latency"),
            "ours, traffic_volume": asked("from traffic_volume"),
            "ours, run_summary": asked("from run_summary"),
        },
    )
)
VERBS = ("ingest", "query", "shell", "views", "report", "compare", "export perfetto", "tpu create")
register(
    Benchmark(
        "start of a verb (--help)",
        lambda: None,
        help_of(),
        {
            "Python alone": lambda _: (
                subprocess.run([sys.executable, "-c", ""], check=True) and None
            ),
            **{f"ours, {verb}": help_of(*verb.split()) for verb in VERBS},
        },
    )
)


def imported(statement: str) -> Callable[[object], object]:
    """A contender that imports something, as a process."""
    command = [sys.executable, "-c", statement]
    return lambda _: subprocess.run(command, check=True) and None


register(
    Benchmark(
        "import of xlahouse.sql",
        lambda: None,
        imported("from xlahouse.sql import Warehouse"),
        {
            "Python alone": imported(""),
            "ours, xlahouse.sql.cli": imported("import xlahouse.sql.cli.app"),
            "ours, xlahouse.ingest.run": imported("import xlahouse.ingest.run"),
            "ours, xlahouse.reports.site": imported("import xlahouse.reports.site"),
            "duckdb": imported("import duckdb"),
            "polars and pyarrow": imported("import polars, pyarrow.parquet"),
        },
    )
)
