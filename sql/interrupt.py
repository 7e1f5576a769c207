"""Runs a call into DuckDB so that it can be watched, and ended by Ctrl-C or by another thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import duckdb

RETRY_S = 0.05
Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Progress:
    """How far a query is."""

    seconds: float  # since it began
    rows: int  # that were read from its answer


OnProgress = Callable[[Progress], None]


class Cancelled(Exception):
    """The query was ended by `QueryWatch.cancel`."""


@dataclass
class QueryWatch:
    """Follows one query: reports its progress, and cancels it from any thread."""

    connection: duckdb.DuckDBPyConnection
    on_progress: OnProgress | None = None
    rows: int = 0  # read so far
    started: float = field(default_factory=time.monotonic)  # seconds of the monotonic clock
    cancelled: threading.Event = field(default_factory=threading.Event)

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
        """
        if self.cancelled.is_set():
            raise Cancelled
        with ThreadPoolExecutor(1) as pool:
            future = pool.submit(call)
            try:
                while not wait([future], RETRY_S).done:
                    self.tell()
                    if self.cancelled.is_set():
                        self.connection.interrupt()
            except BaseException:
                self._end(future)
                raise
            if self.cancelled.is_set():
                raise Cancelled
            return future.result()

    def _end(self, future: Future[Answer]) -> None:
        while not future.done():
            self.connection.interrupt()
            wait([future], RETRY_S)
