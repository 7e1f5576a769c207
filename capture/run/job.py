"""Messages between a capture's parent and child process, and the folder of an unfinished capture."""

from __future__ import annotations

import io
import os
import queue
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec

from xlahouse.capture.plan import Experiment

STOP_LIMIT_S = 600.0  # a trace of 2 GiB takes about a minute to collect and write
PHASE_LIMIT_S = (
    3600.0  # of weights, a warm-up or the profiled requests: a long prompt compiles for minutes
)
DONE = "done"  # a note's kind: the capture is finished, and the child waits for the next job


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A task of a child process."""

    experiment: Experiment  # to capture
    trace_dir: str  # the finished capture's folder, named trace_<timestamp>.trace
    log: str  # file for what the child writes to stderr
    device: str  # `cpu` or `tpu`
    programs: str = ""  # folder for compiled programs, which later captures reuse; empty: none


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line from the child process."""

    kind: str  # `progress`, `warning`, `error` or, where a job is done, DONE
    message: str  # one line
    limit_s: float | None = None  # seconds until the next note is due; None: no limit


def partial_dir(trace_dir: Path) -> Path:
    """Folder of an unfinished capture: hidden, and without the name of a capture."""
    return trace_dir.with_name(f".{trace_dir.name}.partial")


def say(kind: str, message: str, limit_s: float | None = None) -> None:
    """Send a note to the parent, which ends this process if the next one is later than the limit."""
    print(msgspec.json.encode(Note(kind, message, limit_s)).decode(), flush=True)


def without_jax() -> None:
    """Keep jax out of this process: torch_xla's scopes would trace with it where it is installed."""
    sys.modules["jax"] = None  # type: ignore[assignment]


def receive() -> Iterator[Job]:
    """The jobs, each a line that the parent process sends when the one before is done. The parent keeps the
    pipe open: if it ends, even by SIGKILL, this process ends too and removes its unfinished capture."""
    waiting: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
    running: list[Job] = []  # at most one

    def read() -> None:
        # Unbuffered: a buffer's lock, held in a thread, would stop the interpreter from ending.
        for line in io.FileIO(sys.stdin.fileno(), closefd=False):
            running.append(msgspec.json.decode(line, type=Job))
            waiting.put(running[0])
        for job in running:
            shutil.rmtree(partial_dir(Path(job.trace_dir)), ignore_errors=True)
            os._exit(1)
        waiting.put(None)

    threading.Thread(target=read, daemon=True).start()
    while (job := waiting.get()) is not None:
        _log_to(job.log)
        yield job
        running.clear()
        say(DONE, job.trace_dir)


def _log_to(path: str) -> None:
    """Write stderr to this file from now on."""
    sys.stderr.flush()
    with open(path, "ab") as log:
        os.dup2(log.fileno(), sys.stderr.fileno())
