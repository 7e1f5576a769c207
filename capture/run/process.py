"""Runs one experiment in a child process, forwards its progress, and reports why it failed."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec

from xlahouse.capture.advice import advice_on
from xlahouse.capture.errors import CaptureError
from xlahouse.capture.plan import Experiment
from xlahouse.capture.run.job import Job, Note, partial_dir
from xlahouse.capture.run.warm import Forked, WarmProcess

PROGRAMS = ".programs"  # in the traces folder: programs that captures compiled
KEEPING = ("tpu",)  # devices whose runtime loads programs; PJRT's CPU client can write them only
CHILD = (sys.executable, "-m", "xlahouse.capture.run.experiment")
Listener = Callable[[Note], None]


def run_experiment(
    experiment: Experiment,
    traces_dir: Path,
    device: str,
    listen: Listener,
    command: tuple[str, ...] = CHILD,
    stamp: str | None = None,
    warm: WarmProcess | None = None,
) -> Path:
    """Capture one experiment on `device` (`cpu` or `tpu`) and return its trace folder.

    `stamp` names the capture; hosts of one run share it. None: the time now. `warm` starts the child
    in place of `command`.
    A failed capture leaves only a log, trace_<timestamp>.log, with the child's stderr.

    Raises:
        CaptureError: the reason, in one line.
    """
    cell = traces_dir / experiment.cell
    timestamp = stamp or new_stamp()
    trace_dir, log = cell / f"trace_{timestamp}.trace", cell / f"trace_{timestamp}.log"
    job = Job(
        experiment=experiment,
        trace_dir=str(trace_dir.absolute()),
        device=device,
        programs=str((traces_dir / PROGRAMS).absolute()) if device in KEEPING else "",
    )
    try:
        cell.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as stderr:
            child = warm.start(stderr) if warm else _start(command, stderr)
            error, code = _run_child(child, job, listen)
    except OSError as problem:
        raise CaptureError(f"experiment {experiment.name}: {problem}") from problem
    finally:
        # A killed child cannot clean up.
        shutil.rmtree(partial_dir(trace_dir), ignore_errors=True)
    if code:
        reason = error or f"{ending(code)}: {last_line(log)}"
        advice = advice_on(reason, log.read_text(errors="replace"))
        raise CaptureError(f"experiment {experiment.name}: {reason}{advice}; its log is {log}")
    log.unlink()
    return trace_dir


def new_stamp() -> str:
    """The current time as in the names of captures."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}"


def _start(command: tuple[str, ...], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)


def _run_child(
    started: subprocess.Popen[bytes] | Forked, job: Job, listen: Listener
) -> tuple[str | None, int]:
    """Run the job and forward its notes; return its error note, if any, and its exit code."""
    error = None
    with started as child:
        assert child.stdin is not None
        assert child.stdout is not None
        watch = Watchdog(child.kill)
        try:
            child.stdin.write(msgspec.json.encode(job) + b"\n")
            child.stdin.flush()  # keep it open: its end tells the child that this process ended
            for line in child.stdout:
                note = _decode_note(line)
                if note is None:
                    continue
                watch.expect_more(note)
                if note.kind == "error":
                    error = note.message
                else:
                    listen(note)
        except BaseException:
            child.kill()
            raise
        finally:
            watch.end()
    assert child.returncode is not None
    return watch.hanging or error, child.returncode


class Watchdog:
    """Ends a child process that exceeds the limit of its last note.

    hanging: None until it ends the child, then the reason.
    """

    def __init__(self, end_child: Callable[[], None]) -> None:
        self.hanging: str | None = None
        self._end_child, self._timer = end_child, threading.Timer(0, lambda: None)

    def expect_more(self, note: Note) -> None:
        """Replace the previous note's limit by this note's."""
        self._timer.cancel()
        if note.limit_s is not None:
            self._timer = threading.Timer(note.limit_s, self._give_up, [note])
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> None:
        """Remove the limit."""
        self._timer.cancel()

    def _give_up(self, note: Note) -> None:
        self.hanging = (
            f"{note.message}: no result in {note.limit_s:g} s, so the process was ended; "
            "lower `profiled_steps` or `requests` in the plan"
        )
        self._end_child()


def _decode_note(line: bytes) -> Note | None:
    """A line of the child's stdout; None for the output of libraries."""
    try:
        return msgspec.json.decode(line, type=Note)
    except msgspec.DecodeError:
        return None


def ending(code: int) -> str:
    """How a process ended."""
    if code >= 0:
        return f"its process ended with code {code}"
    return f"its process was ended by {signal.Signals(-code).name}"


def last_line(log: Path) -> str:
    """The last line of a log, where Python and XLA put the reason."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it printed nothing"
