"""What a capture's parent and child process tell each other, and where a capture grows."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from pathlib import Path

import msgspec

from xlahouse.capture.plan import Experiment


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What the child process is to do."""

    experiment: Experiment
    trace_dir: str  # the finished capture's folder, named trace_<timestamp>.trace
    device: str  # `cpu` or `tpu`


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the child process says: `progress`, `warning` or `error`, and a line of text.

    limit_s: the child hangs if it says nothing more for that long; None: it may take its time.
    """

    kind: str
    message: str
    limit_s: float | None = None


def partial_dir(trace_dir: Path) -> Path:
    """Where a capture grows until it is finished: hidden, and not named as captures are."""
    return trace_dir.with_name(f".{trace_dir.name}.partial")


def say(kind: str, message: str, limit_s: float | None = None) -> None:
    """Tell the parent process; with a limit, it ends this one if it hears no more for that long."""
    print(msgspec.json.encode(Note(kind, message, limit_s)).decode(), flush=True)


def receive() -> Job:
    """The job that the parent process sends as a line. The parent keeps the pipe open: when it ends,
    even by SIGKILL, this process ends too and leaves nothing half-written."""
    job = msgspec.json.decode(sys.stdin.buffer.readline(), type=Job)
    threading.Thread(target=_end_with_parent, args=[job], daemon=True).start()
    return job


def _end_with_parent(job: Job) -> None:
    while os.read(sys.stdin.fileno(), 4096):  # nothing more is sent
        pass
    shutil.rmtree(partial_dir(Path(job.trace_dir)), ignore_errors=True)
    os._exit(1)
