"""What a capture's parent and child process tell each other, and where a capture grows."""

from __future__ import annotations

from pathlib import Path

import msgspec

from xlahouse.capture.plan import Experiment


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What the child process is to do."""

    experiment: Experiment
    trace_dir: str  # the finished capture's folder, named trace_<timestamp>.trace
    device: str  # `cpu` or `tpu`


class Note(msgspec.Struct, frozen=True):
    """What the child process says: `progress`, `warning` or `error`, and a line of text."""

    kind: str
    message: str


def partial_dir(trace_dir: Path) -> Path:
    """Where a capture grows until it is finished: hidden, and not named as captures are."""
    return trace_dir.with_name(f".{trace_dir.name}.partial")
