"""Starts a standalone Spark cluster on this machine, as spark-class starts one on many."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOST = "127.0.0.1"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


@contextmanager
def standalone(folder: Path, workers: int) -> Iterator[str]:
    """The master's URL of a cluster whose workers have a core each, so that n tasks at once need n.

    Raises:
        AssertionError: a part of it ended or never said that it is there; with what it printed.
    """
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST}
    master = f"spark://{HOST}:{_free_port()}"
    started: list[subprocess.Popen[str]] = []

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

    try:
        port = master.rpartition(":")[2]
        _wait_for(start("master.Master", "--port", port), "I have been elected")
        for number in range(workers):
            size = ("--cores", "1", "--memory", "1g")
            work = ("--work-dir", str(folder / f"worker{number}"), master)
            _wait_for(start("worker.Worker", *size, *work), "Successfully registered")
        yield master
    finally:
        for process in started:
            process.terminate()
        for process in started:
            process.stderr.close()
            process.wait()


def _wait_for(process: subprocess.Popen[str], said: str) -> None:
    lines = []
    for line in process.stderr:
        lines.append(line)
        if said in line:
            return
    raise AssertionError("".join(lines))


def on_cluster(master: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`xlahouse … --engine spark` as a process, with executors that fit the workers."""
    settings = {
        "spark.master": master,
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.executor.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    conf = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    return subprocess.run(
        [
            *(sys.executable, "-c", "from xlahouse.sql.cli import main; main()"),
            *(*arguments, "--engine", "spark", *conf),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SPARK_LOCAL_IP": HOST},
    )
