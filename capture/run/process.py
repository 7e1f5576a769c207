"""Runs experiments in child processes, forwards their progress, and reports why one failed."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import msgspec

from xlahouse.capture.advice import advice_on
from xlahouse.capture.errors import CaptureError
from xlahouse.capture.plan import Experiment
from xlahouse.capture.run.job import DONE, Job, Note, partial_dir
from xlahouse.capture.run.warm import Forked, WarmProcess

PROGRAMS = ".programs"  # in the traces folder: programs that captures compiled
KEEPING = ("tpu",)  # devices whose runtime loads programs; PJRT's CPU client can write them only
END_LIMIT_S = 60.0  # of a child whose jobs are done
CHILD = (sys.executable, "-m", "xlahouse.capture.run.experiment")
Listener = Callable[[Note], None]
Child = subprocess.Popen[bytes] | Forked


class CaptureProcess:
    """Captures experiments, one after the other, in a child process of this one.

    Experiments with equal `placing` that follow each other share a child, which places their weights once.
    A child that fails, hangs or ends costs the experiment that it runs: the next one has another child.
    """

    def __init__(
        self, device: str, command: tuple[str, ...] = CHILD, warm: WarmProcess | None = None
    ) -> None:
        """`device`: `cpu` or `tpu`. `warm` starts children in place of `command`."""
        self._device, self._command, self._warm = device, command, warm
        self._child: Child | None = None
        self._placing: bytes | None = None  # of the child's experiments

    def run(
        self, experiment: Experiment, traces_dir: Path, listen: Listener, stamp: str | None = None
    ) -> Path:
        """Capture one experiment and return its trace folder.

        `stamp` names the capture; hosts of one run share it. None: the time now.
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
            log=str(log.absolute()),
            device=self._device,
            programs=str((traces_dir / PROGRAMS).absolute()) if self._device in KEEPING else "",
        )
        try:
            cell.mkdir(parents=True, exist_ok=True)
            with log.open("wb") as stderr:
                child = self._child_for(experiment, stderr)
            failure = self._run(child, job, listen)
        except OSError as problem:
            raise CaptureError(f"experiment {experiment.name}: {problem}") from problem
        finally:
            # A killed child cannot clean up.
            shutil.rmtree(partial_dir(trace_dir), ignore_errors=True)
        if failure is not None:
            advice = advice_on(failure, log.read_text(errors="replace"))
            raise CaptureError(f"experiment {experiment.name}: {failure}{advice}; its log is {log}")
        log.unlink()
        return trace_dir

    def __enter__(self) -> CaptureProcess:
        return self

    def __exit__(self, *raised: object) -> None:
        self._end()

    def _child_for(self, experiment: Experiment, stderr: IO[bytes]) -> Child:
        """The child that has the experiment's weights, or a new one."""
        if self._child is None or self._placing != experiment.placing:
            self._end()
            self._child = self._warm.start(stderr) if self._warm else _start(self._command, stderr)
            self._placing = experiment.placing
        return self._child

    def _run(self, child: Child, job: Job, listen: Listener) -> str | None:
        """Run a job and forward its notes; None, or why it failed.

        A child that did not say that it is done has ended or is ended here.
        """
        error, finished = None, False
        assert child.stdin is not None
        assert child.stdout is not None
        watch = Watchdog(child.kill)
        try:
            with suppress(BrokenPipeError):  # it has ended; its log has the reason
                child.stdin.write(msgspec.json.encode(job) + b"\n")
                child.stdin.flush()  # keep it open: its end tells the child that this process ended
            for line in child.stdout:
                note = _decode_note(line)
                if note is None:
                    continue
                watch.expect_more(note)
                if note.kind == DONE:
                    finished = True
                    break
                if note.kind == "error":
                    error = note.message
                else:
                    listen(note)
        except BaseException:
            child.kill()
            raise
        finally:
            watch.end()
            if not finished:
                self._end()
        if finished:
            return None
        assert child.returncode is not None
        return watch.hanging or error or f"{ending(child.returncode)}: {last_line(Path(job.log))}"

    def _end(self) -> None:
        """Let the child end, and wait for it."""
        child, self._child, self._placing = self._child, None, None
        if child is not None:
            watch = Watchdog(child.kill)
            watch.expect_more(Note("progress", "ending", END_LIMIT_S))
            # Closes its stdin, where a job may lie that a child which has ended never read.
            with suppress(BrokenPipeError), child:
                pass
            watch.end()


def new_stamp() -> str:
    """The current time as in the names of captures."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%S.%f}"


def _start(command: tuple[str, ...], stderr: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)


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
