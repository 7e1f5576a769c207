"""Worker processes, so that what ends one of them costs what it was computing.

A worker that dies, for lack of memory or by a fault in native code, is replaced. What it was computing is
tried once more when all else is done: alone, so that it has the memory to itself.
"""

from __future__ import annotations

import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from xlahouse.capture.errors import XlahouseError
from xlahouse.ingest.spread.parcels import computed, pack, result_of, unpack
from xlahouse.ingest.spread.parts import RunPart

T = TypeVar("T")
# Of the processes of a machine without memory, Linux ends the one of the highest score first.
_OOM_SCORE = "500"
_STARTS = 3  # workers in a row that may end before they take anything


@dataclass(frozen=True)
class Death:
    """In place of an outcome: the worker died."""

    why: str  # a sentence: signal, exit code or memory


@dataclass(frozen=True, eq=False)
class Calls:
    """Calls of one function, do(given, *shared), by number."""

    do: Callable[..., Any]  # the function
    shared: tuple[Any, ...]  # sent to a worker once
    given: Callable[[int], Any]  # number of a call -> its first argument


@dataclass
class _Worker:
    """A process that computes one call after the other."""

    process: BaseProcess  # the process itself
    ours: Connection  # our end of the pipe
    number: int | None = None  # of the call that it computes
    calls: Calls | None = None  # of which it knows the shared part

    def take(self, number: int, calls: Calls) -> None:
        """Have it compute a call."""
        self.number = number
        shared = None if calls is self.calls else calls.shared
        self.calls = calls
        with suppress(OSError):  # it has just died, as it will turn out
            self.ours.send((calls.do, calls.given(number), shared))

    @property
    def death(self) -> str:
        """Why it ended."""
        self.process.join()
        code = self.process.exitcode or 0
        if code == -signal.SIGKILL:
            return "killed, as when memory runs out"
        return f"signal {-code}" if code < 0 else f"exit code {code}"


@dataclass
class Pool:
    """Workers, which stay from one set of calls to the next."""

    processes: int  # at once
    idle: list[_Worker] = field(default_factory=list)  # workers without a call

    def outcomes(self, calls: Calls, numbers: Iterable[int]) -> Iterator[tuple[int, Any]]:
        """(number, result or Death) of calls as they are done.

        Raises:
            XlahouseError: a worker ended before it took a call.
        """
        left = deque(numbers)
        wanted = min(self.processes, len(left))
        busy = [self.idle.pop() for _ in range(min(wanted, len(self.idle)))]
        for worker in busy:
            worker.take(left.popleft(), calls)
        busy += [_started() for _ in range(wanted - len(busy))]
        failed = 0  # workers in a row that ended before they took a call
        try:
            while busy:
                for ready in wait([worker.ours for worker in busy]):
                    worker = next(each for each in busy if each.ours is ready)
                    number, found = worker.number, _said(worker)
                    died = isinstance(found, Death)
                    failed = failed + 1 if died and number is None else 0
                    if not died and left:
                        worker.take(left.popleft(), calls)
                    else:
                        busy.remove(worker)
                        self._lay_down(worker, died)
                    if left and died and (number is not None or not busy):
                        if failed == _STARTS:
                            raise XlahouseError(_no_start(worker.death))
                        busy.append(_started())
                    if number is not None and found is not None:
                        yield number, found
        finally:
            _end(busy)

    def _lay_down(self, worker: _Worker, died: bool) -> None:
        if died:
            worker.ours.close()
            return
        worker.number = None
        self.idle.append(worker)

    def close(self) -> None:
        """End the workers."""
        _end(self.idle)
        self.idle.clear()


@dataclass
class Processes:
    """Computes parts in a pool's workers: a Spread."""

    pool: Pool  # of the workers
    on_event: Callable[[str], None]  # called with a line for each worker that dies
    apart = True

    def each(
        self, do: Callable[..., T], shared: object, parts: Sequence[RunPart], in_turn: bool = False
    ) -> Iterator[T]:
        """As Spread says; all parts are in turn, and one for each worker is computed at a time."""
        calls = Calls(_compute, (do, pack(shared)), lambda number: pack(parts[number].given))
        died: list[int] = []
        done: dict[int, bytes] = {}
        following = 0
        for number, found in self.pool.outcomes(calls, range(len(parts))):
            if isinstance(found, Death):
                died.append(number)
                self.on_event(died_once(parts[number].name, found.why))
            else:
                done[number] = found
            while following in done:
                yield result_of(done.pop(following))
                following += 1
        if died:
            done |= self._alone(calls, died, parts)
        for number in range(following, len(parts)):
            yield result_of(done.pop(number))

    def _alone(self, calls: Calls, died: list[int], parts: Sequence[RunPart]) -> dict[int, bytes]:
        """Results of parts whose workers died."""
        self.pool.close()
        alone = Pool(1)
        try:
            found = dict(alone.outcomes(calls, died))
        finally:
            alone.close()
        for number, result in found.items():
            if isinstance(result, Death):
                raise XlahouseError(died_twice(parts[number].name, result.why))
        return found


_DIED = "the worker process that read it died"


def died_once(name: str, why: str) -> str:
    """The line about a worker that dies."""
    return f"{name}: {_DIED} ({why}); it is tried once more, alone, after all others"


def died_twice(name: str, why: str) -> str:
    """The error about a run, or a file of one, whose second worker died too."""
    return f"{name}: {_DIED} twice ({why}), the second time alone; nothing of this run is in the warehouse"


def _started() -> _Worker:
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs,))
    process.start()
    theirs.close()  # so that its end is seen when the process dies
    return _Worker(process, ours)


def _end(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        worker.process.terminate()
    for worker in workers:
        worker.process.join()
        worker.ours.close()


def _said(worker: _Worker) -> Any:
    """The outcome that a worker sends; None from one that has only just started."""
    try:
        return worker.ours.recv()
    except (EOFError, OSError):
        return Death(worker.death)


def _no_start(why: str) -> str:
    return (
        f"a worker process ended before it began ({why}); a script needs Python's "
        '`if __name__ == "__main__":` around the ingest, or give workers=1'
    )


def _work(theirs: Connection) -> None:
    """Compute calls until there are no more: what a worker process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was written of a run is removed
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:  # else not Linux
        score.write(_OOM_SCORE)
    known: tuple[Any, ...] = ()
    with suppress(EOFError, BrokenPipeError):
        theirs.send(None)
        while True:
            do, given, shared = theirs.recv()
            known = known if shared is None else shared
            theirs.send(do(given, *known))


def _compute(given: bytes, do: Callable[..., object], shared: bytes) -> bytes:
    return computed(do, given, _unpacked(shared))


@lru_cache(maxsize=1)
def _unpacked(shared: bytes) -> Any:
    return unpack(shared).value
