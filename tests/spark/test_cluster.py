"""A standalone cluster of two workers, started with spark-class: ingest and query run on it, by the verbs."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.spark.engines import require_spark
from tests.synth.cases import CASES
from tests.synth.write import write_run
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql import Warehouse

pytestmark = pytest.mark.xdist_group("spark")
RUNS = ("tp4", "dp_tp", "unmarked")
HOST = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    """The master's URL; each worker has one core, so two tasks at once need both."""
    require_spark()
    import pyspark

    home, folder = Path(pyspark.__file__).parent, tmp_path_factory.mktemp("cluster")
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST}
    master = f"spark://{HOST}:{free_port()}"
    started = []

    def start(name: str, *arguments: str) -> subprocess.Popen[str]:
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
        process = subprocess.Popen(
            [*command, "--host", HOST, "--webui-port", "0", *arguments],
            env=environment,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    def wait_for(process: subprocess.Popen[str], said: str) -> None:
        lines = []
        for line in process.stderr:
            lines.append(line)
            if said in line:
                return
        raise AssertionError("".join(lines))

    try:
        wait_for(start("master.Master", "--port", master.rpartition(":")[2]), "I have been elected")
        for number in range(2):
            folder_of_worker = str(folder / f"worker{number}")
            worker = start(
                *("worker.Worker", "--cores", "1", "--memory", "1g"),
                *("--work-dir", folder_of_worker, master),
            )
            wait_for(worker, "Successfully registered")
        yield master
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.stderr.close()
            process.wait()


def xlahouse(master: str, *arguments: str) -> str:
    settings = {
        "spark.master": master,
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    conf = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from xlahouse.sql.cli import main; main()"),
            *(*arguments, "--engine", "spark", *conf),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SPARK_LOCAL_IP": HOST},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name in RUNS:
        write_run(CASES[name], folder / "traces" / name)
    ingest_paths([str(folder / "traces")], str(folder / "local"))
    return folder


def rows_of(table):
    """Rows in one order: what an ingest writes of equal rank has none of its own."""
    return sorted(map(repr, table.to_pylist()))


def test_executors_write_the_parquet_that_is_written_here(cluster, folder):
    printed = xlahouse(
        cluster, "ingest", str(folder / "traces"), "-w", str(folder / "spread")
    ).split()
    with Warehouse(folder / "local") as here, Warehouse(folder / "spread") as there:
        ids = [run["run_id"] for run in here.runs()]
        assert sorted(printed) == sorted(ids) == sorted(run["run_id"] for run in there.runs())
        tables = {table for run in here.runs() for table in (f["table"] for f in run["files"])}
        assert {"ops", "collectives", "phases"} <= tables
        for table in tables:
            ours, theirs = (
                [pq.ParquetFile(file).read() for file in warehouse.files(table)]
                for warehouse in (here, there)
            )
            assert sorted(t.num_rows for t in ours) == sorted(t.num_rows for t in theirs)
            by_run = {t["run_id"][0].as_py(): t for t in theirs}
            for found in ours:
                other = by_run[found["run_id"][0].as_py()]
                assert found.schema.equals(other.schema), table
                assert rows_of(found) == rows_of(other), table


def test_a_view_on_the_cluster_gives_what_it_gives_here(cluster, folder):
    sql = (
        "select run_id, phase, axis, kind, sum(wire_bytes) as b from traffic_volume "
        "group by all order by all"
    )
    printed = xlahouse(cluster, "query", sql, "-w", str(folder / "local"), "--format", "csv")
    with Warehouse(folder / "local") as warehouse:
        expected = [
            ["" if value is None else str(value) for value in row]
            for row in warehouse.query(sql).rows
        ]
    assert [line.split(",") for line in printed.splitlines()[1:]] == expected
    assert len(expected) > 3
