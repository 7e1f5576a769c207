"""Runs one experiment in a child process, passes its progress on, and says why it failed."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec

from xlahouse.capture.errors import CaptureError
from xlahouse.capture.job import Job, Note, partial_dir
from xlahouse.capture.plan import Experiment

CHILD = (sys.executable, "-m", "xlahouse.capture.experiment")
Listener = Callable[[Note], None]


def run_experiment(
    experiment: Experiment,
    traces_dir: Path,
    device: str,
    listen: Listener,
    stamp: str | None = None,
    command: tuple[str, ...] = CHILD,
) -> Path:
    """Capture one experiment on `device` (`cpu` or `tpu`) and return its trace folder.

    `stamp` names the capture; hosts of one run share it. None: the time now.
    A failed capture leaves nothing but a log, trace_<timestamp>.log, with the child's stderr.

    Raises:
        CaptureError: in one line, why.
    """
    cell = traces_dir / experiment.cell
    timestamp = stamp or new_stamp()
    trace_dir, log = cell / f"trace_{timestamp}.trace", cell / f"trace_{timestamp}.log"
    job = Job(experiment=experiment, trace_dir=str(trace_dir.absolute()), device=device)
    try:
        cell.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as stderr:
            error, code = _run_child(command, job, stderr, listen)
    except OSError as problem:
        raise CaptureError(f"experiment {experiment.name}: {problem}") from problem
    finally:
        # A child that was killed could not clean up after itself.
        shutil.rmtree(partial_dir(trace_dir), ignore_errors=True)
    if code:
        reason = error or f"{_ending(code)}: {_last_line(log)}"
        raise CaptureError(f"experiment {experiment.name}: {reason}; its log is {log}")
    log.unlink()
    return trace_dir


def new_stamp() -> str:
    """The time now, as captures have it in their names."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}"


def _run_child(
    command: tuple[str, ...], job: Job, stderr: IO[bytes], listen: Listener
) -> tuple[str | None, int]:
    """Run the job, passing its notes on; returns the error it named, if any, and its exit code."""
    error = None
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(msgspec.json.encode(job))
            child.stdin.close()
            for line in child.stdout:
                note = _decode_note(line)
                if note is not None and note.kind == "error":
                    error = note.message
                elif note is not None:
                    listen(note)
        except BaseException:
            child.kill()
            raise
    return error, child.returncode


def _decode_note(line: bytes) -> Note | None:
    """A line of the child's stdout; None for what libraries print there."""
    try:
        return msgspec.json.decode(line, type=Note)
    except msgspec.DecodeError:
        return None


def _ending(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"its process ended with code {code}"
    hint = " (out of memory?)" if -code == signal.SIGKILL else ""
    return f"its process was ended by {signal.Signals(-code).name}{hint}"


def _last_line(log: Path) -> str:
    """The last thing that a process said, where Python and XLA put the reason."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"
