"""Runs child processes within limits of time and memory; its failure is one line and a log."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import IO

from xlahouse.capture.compile.compiler import PARENT
from xlahouse.capture.errors import CaptureError
from xlahouse.capture.run.process import ending, last_line
from xlahouse.capture.scratch import scratch_folder

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


DEFAULT_LIMITS = ChildLimits()


class Children:
    """Runs child processes within the same limits, from any thread.

    They end with this process (compiler.end_with_parent), and their temporary files go with its own.
    """

    def __init__(self, limits: ChildLimits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self.ended = False
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = Lock()  # of `ended` and `_running`

    def run(
        self, command: Sequence[str], request: bytes, log: Path, environment: Mapping[str, str]
    ) -> bytes:
        """Run `command` with `request` on its stdin and return its stdout; stderr goes to `log`.

        The log is removed after success.

        Raises:
            CaptureError: the process failed, was too slow, needed too much memory, or was ended.
        """
        limits = self.limits
        with log.open("wb") as stderr, self._start(command, stderr, environment) as child:
            try:
                answer, _ = child.communicate(request, limits.seconds)
            except subprocess.TimeoutExpired as error:
                raise CaptureError(
                    f"no result in {limits.seconds:g} s; raise --timeout; its log is {log}"
                ) from error
            finally:
                with self._lock:
                    self._running.discard(child)
                child.kill()  # nothing to one that is over
        if child.returncode:
            raise CaptureError(f"{_reason(child.returncode, log, limits)}; its log is {log}")
        log.unlink()
        return answer

    def end(self) -> None:
        """End all that run; no other starts."""
        with self._lock:
            self.ended = True
            for child in self._running:
                child.kill()

    def _start(
        self, command: Sequence[str], stderr: IO[bytes], environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        own = {PARENT: str(os.getpid()), "TMPDIR": scratch_folder()}
        size = int(self.limits.memory_gib * GIB)
        with self._lock:
            if self.ended:
                raise CaptureError("interrupted")
            try:
                child = subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    env={**os.environ, **own, **environment},
                )
            except OSError as error:
                raise CaptureError(f"{command[0]}: {error.strerror}; name a Python") from error
            # Not in the child before it starts: Python code there may hang where this process has threads.
            resource.prlimit(child.pid, resource.RLIMIT_DATA, (size, size))
            self._running.add(child)
        return child


def _reason(code: int, log: Path, limits: ChildLimits) -> str:
    """Why a process failed, from the end of its log."""
    text = log.read_text(errors="replace")[-_LAST:]
    if any(word in text for word in _OUT_OF_MEMORY):
        return f"it needs more than {limits.memory_gib:g} GiB of memory; raise --memory"
    return f"{ending(code)}: {last_line(log)}"
