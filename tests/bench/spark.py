"""Ingest over a Spark cluster of one worker and of two, and by processes: many runs, a large one."""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

import duckdb

from tests.bench.ingest import child
from tests.bench.registry import Benchmark, Cost, register
from tests.spark.cluster import HOST, standalone
from tests.spark.engines import why_not
from tests.synth.describe import Run
from tests.synth.write import manifest, write_run
from xlahouse.capture.manifest import write_manifest

RUNS = 8
WORKERS = (1, 2)
# Layers with eight compute ops and one collective per half: 572,000 ops and 18 MB each, so that the
# driver's own work (finding the runs, and writing their index) hardly counts.
RUN = Run(layers=8, fusions=8, requests=8, output_tokens=100)
# 16 hosts of 8 devices: 4 million ops and 146 MB.
LARGE = Run(
    mesh=(("dp", 4), ("ep", 4), ("tp", 8)),
    hosts=16,
    layers=8,
    fusions=12,
    batch=64,
    requests=8,
    output_tokens=13,
)
DRIVER = """
import json, sys
from xlahouse.ingest.on_spark import each_on
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.spark_query import start_session
session = start_session(json.loads(sys.argv[1]))
print("ready", flush=True)
for line in sys.stdin:
    traces, root = line.rstrip("\\n").split("\\t")
    found = ingest_paths([traces], root, each=each_on(session))
    print(json.dumps({run.run_id: run.rows for run in found}), flush=True)
"""


@dataclass(frozen=True)
class Cluster:
    """Traces, and a driver for each number of workers, which has as many executors of one core."""

    folder: Path
    traces: Path
    drivers: dict[int, subprocess.Popen[str]]

    def root(self) -> Path:
        return Path(mkdtemp(dir=self.folder)) / "warehouse"


def write_runs(traces: Path) -> None:
    write_run(RUN, traces / "run0")
    for number in range(1, RUNS):  # another name makes the same files another run
        copied = traces / f"run{number}"
        shutil.copytree(traces / "run0", copied)
        write_manifest(manifest(replace(RUN, name=copied.name)), copied / "metadata_0.json")


def prepare(write: Callable[[Path], None]) -> Cluster | str:
    """Write the traces, start the cluster, and check that all ways write the same; or why it cannot run."""
    reason = why_not()
    if reason is not None:
        return reason
    folder = Path(mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    write(folder / "traces")
    stack = ExitStack()
    atexit.register(stack.close)
    master = stack.enter_context(standalone(folder, sum(WORKERS)))
    drivers = {count: _driver(master, count, stack) for count in WORKERS}
    cluster = Cluster(folder, folder / "traces", drivers)
    here = cluster.root()
    _here(cluster, here, 2)
    expected = contents(here)
    for count in WORKERS:  # which also has the executors import what they need
        there = cluster.root()
        _spread(cluster, there, count)
        assert contents(there) == expected, f"{count} workers write other rows than this machine"
    return cluster


def prepare_here(write: Callable[[Path], None]) -> Cluster:
    """Write the traces, and check that any number of processes writes the same."""
    folder = Path(mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    write(folder / "traces")
    cluster = Cluster(folder, folder / "traces", {})
    found = []
    for count in WORKERS:
        root = cluster.root()
        _here(cluster, root, count)
        found.append(contents(root))
        shutil.rmtree(root.parent)
    assert found[0] == found[1], "2 workers write other rows than 1"
    return cluster


def _driver(master: str, count: int, stack: ExitStack) -> subprocess.Popen[str]:
    settings = {
        "spark.master": master,
        "spark.cores.max": str(count),
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.ui.enabled": "false",
    }
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    stack.callback(process.wait)
    stack.callback(process.terminate)
    assert process.stdout.readline() == "ready\n", "the driver did not start"
    return process


def _spread(cluster: Cluster, root: Path, count: int) -> dict[str, dict[str, int]]:
    driver = cluster.drivers[count]
    driver.stdin.write(f"{cluster.traces}\t{root}\n")
    driver.stdin.flush()
    found: dict[str, dict[str, int]] = json.loads(driver.stdout.readline())
    return found


def _here(cluster: Cluster, root: Path, processes: int) -> Cost:
    command = str(Path(sys.executable).with_name("xlahouse"))
    options = ["-w", str(root), "--workers", str(processes)]
    return child([command, "ingest", str(cluster.traces), *options])


def contents(root: Path) -> dict[str, tuple[int, int]]:
    """Table -> (rows, sum of the rows' hashes), whatever the order of files and rows."""
    found = {}
    for table in sorted(path.name for path in (root / "tables").iterdir() if path.name != "runs"):
        files = f"{root}/tables/{table}/*/*.parquet"
        sql = "select count(*), sum(hash(t)::hugeint) from read_parquet($files) t"
        found[table] = duckdb.execute(sql, {"files": files}).fetchone()
    return found


def spread(count: int):
    """A contender: over that many workers."""

    def ingest(cluster: Cluster) -> dict[str, dict[str, int]]:
        root = cluster.root()
        try:
            return _spread(cluster, root, count)
        finally:
            shutil.rmtree(root.parent)

    return ingest


def here(processes: int):
    """A contender: without Spark."""

    def ingest(cluster: Cluster) -> Cost:
        root = cluster.root()
        try:
            return _here(cluster, root, processes)
        finally:
            shutil.rmtree(root.parent)

    return ingest


def over_spark(name: str, write: Callable[[Path], None]) -> Benchmark:
    return Benchmark(
        f"ingest of {name} over Spark, 2 workers",
        partial(prepare, write),
        spread(2),
        {
            "ours, 1 worker": spread(1),
            "ours, 2 processes without Spark": here(2),
            "ours, 1 process": here(1),
        },
        most_rounds=2,
        same=frozenset({"ours, 1 worker"}),
    )


def write_large(traces: Path) -> None:
    write_run(LARGE, traces / "run0")


register(over_spark(f"{RUNS} runs", write_runs))
register(over_spark(f"one run of {LARGE.hosts} files", write_large))
register(
    Benchmark(
        f"ingest of one run of {LARGE.hosts} files, 2 workers",
        partial(prepare_here, write_large),
        here(2),
        {"ours, 1 worker": here(1)},
        most_rounds=3,
    )
)
