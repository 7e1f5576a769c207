"""Messages between a capture's parent and child process, and the folder of an unfinished capture."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from pathlib import Path

import msgspec

from xlahouse.capture.plan import Experiment

STOP_LIMIT_S = 600.0  # a trace of 2 GiB takes about a minute to collect and write
PHASE_LIMIT_S = (
    3600.0  # of weights, a warm-up or the profiled requests: a long prompt compiles for minutes
)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The task of a child process."""

    experiment: Experiment  # to capture
    trace_dir: str  # the finished capture's folder, named trace_<timestamp>.trace
    device: str  # `cpu` or `tpu`
    programs: str = ""  # folder for compiled programs, which later captures reuse; empty: none


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line from the child process."""

    kind: str  # `progress`, `warning` or `error`
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


def receive() -> Job:
    """The job, which the parent process sends as a line. The parent keeps the pipe open: if it ends,
    even by SIGKILL, this process ends too and removes its unfinished capture."""
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=Job)
    threading.Thread(target=_end_with_parent, args=[job], daemon=True).start()
    return job


def _end_with_parent(job: Job) -> None:
    while os.read(sys.stdin.fileno(), 4096):  # the parent sends no more
        pass
    shutil.rmtree(partial_dir(Path(job.trace_dir)), ignore_errors=True)
    os._exit(1)
