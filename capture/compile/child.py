"""Runs a child process within limits of time and memory; its failure is one line and a log."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from xlahouse.capture.errors import CaptureError
from xlahouse.capture.run.process import ending, last_line

GIB = 2**30
# How an allocator and the loader say that a limit of memory is reached.
_OUT_OF_MEMORY = (
    "bad_alloc",
    "MemoryError",
    "Cannot allocate memory",
    "mmap error: 12",
    "failed to map segment",
    "Memory allocation still failed",
)
_LAST = 4000  # characters at the end of a log that state why a process ended


@dataclass(frozen=True)
class ChildLimits:
    """Bounds of one child process."""

    seconds: float = 3600.0  # from its start to its end
    memory_gib: float = 16.0  # of its data: heap and private mappings


def run_child(
    command: Sequence[str],
    request: bytes,
    log: Path,
    limits: ChildLimits,
    environment: Mapping[str, str],
) -> bytes:
    """Run `command` with `request` on its stdin and return its stdout; stderr goes to `log`.

    The log is removed after success.

    Raises:
        CaptureError: the process failed, was too slow, or needed too much memory.
    """

    def bound() -> None:
        size = int(limits.memory_gib * GIB)
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))

    with log.open("wb") as stderr:
        try:
            done = subprocess.run(
                command,
                input=request,
                stdout=subprocess.PIPE,
                stderr=stderr,
                timeout=limits.seconds,
                env={**os.environ, **environment},
                preexec_fn=bound,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise CaptureError(
                f"no result in {limits.seconds:g} s; raise --timeout; its log is {log}"
            ) from error
        except OSError as error:
            raise CaptureError(f"{command[0]}: {error.strerror}; name a Python") from error
    if done.returncode:
        raise CaptureError(f"{_reason(done.returncode, log, limits)}; its log is {log}")
    log.unlink()
    return done.stdout


def _reason(code: int, log: Path, limits: ChildLimits) -> str:
    """Why a process failed, from the end of its log."""
    text = log.read_text(errors="replace")[-_LAST:]
    if any(word in text for word in _OUT_OF_MEMORY):
        return f"it needs more than {limits.memory_gib:g} GiB of memory; raise --memory"
    return f"{ending(code)}: {last_line(log)}"
