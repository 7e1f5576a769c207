"""Runs a call into DuckDB: watched, and ended by Ctrl-C, another thread, or the end of its time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import duckdb

RETRY_S = 0.05
GRACE_S = 5.0  # DuckDB ends within this, unless a single value takes it longer
Answer = TypeVar("Answer")
_left: list[Future[object]] = []  # calls that did not end


@dataclass(frozen=True)
class Progress:
    """How far a query is."""

    seconds: float  # since it began
    rows: int  # that were read from its answer


OnProgress = Callable[[Progress], None]


class Cancelled(Exception):
    """The query was ended by `QueryWatch.cancel`."""


class OutOfTime(Exception):
    """The query took longer than it may."""

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"the query reached its limit of {limit_s:g} s")


@dataclass
class QueryWatch:
    """Follows one query: reports its progress, cancels it from any thread, ends it when its time is up.

    Only time in DuckDB counts, not the time in which a caller uses rows.
    """

    connection: duckdb.DuckDBPyConnection  # that runs the query
    on_progress: OnProgress | None = None  # receives each report of progress
    limit_s: float | None = None  # time in DuckDB; None: no limit
    rows: int = 0  # read so far
    used_s: float = 0  # in DuckDB so far
    started: float = field(default_factory=time.monotonic)  # seconds of the monotonic clock
    cancelled: threading.Event = field(default_factory=threading.Event)  # set once it is cancelled

    def cancel(self) -> None:
        """End the call that runs, and refuse later calls."""
        self.cancelled.set()
        self.connection.interrupt()

    def count(self, rows: int) -> None:
        """Note rows that were read."""
        self.rows += rows
        self.tell()

    def tell(self) -> None:
        """Report how far the query is."""
        if self.on_progress is not None:
            self.on_progress(Progress(time.monotonic() - self.started, self.rows))

    def run(self, call: Callable[[], Answer]) -> Answer:
        """The result of `call`.

        It runs beside the calling thread, because signals reach only the main thread, and DuckDB is
        interrupted until it stops: it forgets an interrupt from before a query begins.

        Raises:
            KeyboardInterrupt: the user pressed Ctrl-C.
            Cancelled: `cancel` was called.
            OutOfTime: the query's time is up; a call that does not heed it goes on (`left_behind`).
        """
        self._check()
        began, before = time.monotonic(), self.used_s
        future = _start(call)
        try:
            while not wait([future], RETRY_S).done:
                self.used_s = before + time.monotonic() - began
                self.tell()
                self._check()
        except BaseException:
            self._end(future)
            raise
        self.used_s = before + time.monotonic() - began
        if self.cancelled.is_set():
            raise Cancelled
        return future.result()

    def _check(self) -> None:
        if self.cancelled.is_set():
            raise Cancelled
        if self.limit_s is not None and self.used_s >= self.limit_s:
            raise OutOfTime(self.limit_s)

    def _end(self, future: Future[Answer]) -> None:
        until = time.monotonic() + GRACE_S
        while not future.done():
            self.connection.interrupt()
            wait([future], RETRY_S)
            if time.monotonic() > until:
                _left.append(future)  # type: ignore[arg-type]
                return


def left_behind() -> bool:
    """Whether a call still runs that was to end: the process must not wait for it."""
    return any(not future.done() for future in _left)


def _start(call: Callable[[], Answer]) -> Future[Answer]:
    """Run a call in a thread of its own, for which the process does not wait at its end."""
    future: Future[Answer] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # the caller raises it
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future
