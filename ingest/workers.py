"""Ingests runs in worker processes, so that what ends one of them costs the run that it was reading.

A worker that dies, for lack of memory or by a fault in native code, is replaced. Its run is tried once
more when all others are done: alone, and on one thread, so that it has the memory to itself.
"""

from __future__ import annotations

import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from xlahouse.capture.errors import XlahouseError
from xlahouse.ingest.events.cores import usable_cores
from xlahouse.ingest.events.run_files import RunFiles
from xlahouse.ingest.one_run import IngestResult, Options

Ingest = Callable[[RunFiles, str, Options], IngestResult | str]
Outcome = IngestResult | str
# Of the processes of a machine without memory, Linux ends the one of the highest score first.
_OOM_SCORE = "500"
_STARTS = 3  # workers in a row that may end before they take a run


@dataclass
class _Worker:
    """A process that ingests one run after the other."""

    process: BaseProcess
    ours: Connection
    run: int | None = None  # the number of the run that it ingests

    def take(self, number: int, runs: list[RunFiles]) -> None:
        """Have it ingest a run."""
        self.run = number
        with suppress(OSError):  # it has just died, as it will turn out
            self.ours.send(runs[number])

    @property
    def death(self) -> str:
        """Why it ended."""
        self.process.join()
        code = self.process.exitcode or 0
        if code == -signal.SIGKILL:
            return "killed, as when memory runs out"
        return f"signal {-code}" if code < 0 else f"exit code {code}"


def ingest_apart(
    ingest: Ingest,
    runs: list[RunFiles],
    root: str,
    options: Options,
    processes: int,
    on_event: Callable[[str], None],
) -> Iterator[Outcome]:
    """The outcomes of runs, in their order; those of runs whose workers died come last.

    Args:
        ingest: ingests one run; named in its module, as another process has to find it.
        runs: the runs.
        root: the warehouse.
        options: of the ingest.
        processes: workers at once.
        on_event: called with a line for each worker that dies.

    Raises:
        XlahouseError: no worker can start.
    """
    shared = replace(options, threads=max(1, usable_cores() // processes))
    died: list[int] = []
    done: dict[int, Outcome] = {}
    following = deque(range(len(runs)))
    for number, found in _Pool(ingest, root, shared, runs).outcomes(range(len(runs)), processes):
        if isinstance(found, _Death):
            died.append(number)
            on_event(
                f"{runs[number].name}: the worker process that read it died ({found.why}); it is tried "
                "once more, alone, after all others"
            )
        else:
            done[number] = found
        while following and (following[0] in done or following[0] in died):
            first = following.popleft()
            if first in done:
                yield done.pop(first)
    alone = _Pool(ingest, root, replace(options, threads=1), runs)
    for number, found in alone.outcomes(died, 1):
        yield _told(runs[number], found.why) if isinstance(found, _Death) else found


def _told(run: RunFiles, why: str) -> str:
    return (
        f"{run.name}: the worker process that read it died twice ({why}), the second time alone; nothing of "
        f"it is in the warehouse; its files are {run.shown(', '.join(run.paths))}"
    )


@dataclass(frozen=True)
class _Death:
    """In place of a run's outcome: its worker died."""

    why: str


@dataclass(frozen=True)
class _Pool:
    """What workers need to ingest."""

    ingest: Ingest
    root: str
    options: Options
    runs: list[RunFiles]

    def outcomes(
        self, numbers: range | list[int], processes: int
    ) -> Iterator[tuple[int, Outcome | _Death]]:
        """(number, outcome) of runs as they are done.

        Raises:
            XlahouseError: a worker ended before it took a run.
        """
        left = deque(numbers)
        workers = [self._start() for _ in range(min(processes, len(left)))]
        started, failed = list(workers), 0  # workers in a row that ended before they took a run
        try:
            while workers:
                for ready in wait([worker.ours for worker in workers]):
                    worker = next(each for each in workers if each.ours is ready)
                    number, found = worker.run, _said(worker)
                    died = isinstance(found, _Death)
                    failed = failed + 1 if died and number is None else 0
                    if died or not left:
                        workers.remove(worker)
                        worker.ours.close()
                    else:
                        worker.take(left.popleft(), self.runs)
                    if left and died and (number is not None or not workers):
                        if failed == _STARTS:
                            raise XlahouseError(_no_start(worker.death))
                        workers.append(self._start())
                        started.append(workers[-1])
                    if number is not None and found is not None:
                        yield number, found
        finally:
            for worker in workers:
                worker.process.terminate()
            for worker in started:
                worker.process.join()

    def _start(self) -> _Worker:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, self.ingest, self.root, self.options))
        process.start()
        theirs.close()  # so that its end is seen when the process dies
        return _Worker(process, ours)


def _said(worker: _Worker) -> Outcome | _Death | None:
    """The outcome that a worker sends; None from one that has only just started."""
    try:
        found: Outcome | None = worker.ours.recv()
    except (EOFError, OSError):
        return _Death(worker.death)
    return found


def _no_start(why: str) -> str:
    return (
        f"a worker process ended before it began ({why}); a script needs Python's "
        '`if __name__ == "__main__":` around the ingest, or give workers=1'
    )


def _work(theirs: Connection, ingest: Ingest, root: str, options: Options) -> None:
    """Ingest runs until there are no more: what a worker process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was written of a run is removed
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:  # else not Linux
        score.write(_OOM_SCORE)
    with suppress(EOFError, BrokenPipeError):
        theirs.send(None)
        while True:
            theirs.send(ingest(theirs.recv(), root, options))
