"""Processes that answer questions, some at once; one that overruns its limits is replaced."""

from __future__ import annotations

import multiprocessing
import os
import queue
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from xlahouse.capture.errors import XlahouseError
from xlahouse.sql.limits import QueryLimits
from xlahouse.sql.serve.worker import QueryJob, Reply, work

MANY_QUERIES = 4  # a summary or a check runs many queries: so many times a query's time, altogether
SPARE_S = 15.0  # for opening the warehouse, starting a process and ending a query
FEW_QUERIES = ("query", "table", "file")
POLL_S = 0.1  # how soon it is noticed that a client left


class Busy(XlahouseError):
    """All processes are at work for longer than a client waits."""


class Refused(XlahouseError):
    """A question has no answer; the message says why, in one line."""


class Gone(XlahouseError):
    """Who asked is gone: the question was ended."""


@dataclass
class _QueryWorker:
    process: BaseProcess  # that answers
    connection: Connection  # our end of its pipe


class Workers:
    """A number of processes, each with one question at a time.

    Args:
        root: the warehouse.
        limits: of each question.
        count: of processes; together they take `count` times the memory of the limits.
        patience_s: how long a question waits for a free process.
    """

    def __init__(
        self, root: str, limits: QueryLimits, count: int = 2, patience_s: float = 60
    ) -> None:
        self._root = root if "://" in root else os.path.abspath(root)
        self._limits, self._patience_s = limits, patience_s
        # A process of its own, not a fork: the server has threads, and DuckDB too.
        self._context = multiprocessing.get_context("spawn")
        self._free: queue.Queue[_QueryWorker | None] = queue.Queue()
        for _ in range(count):
            self._free.put(None)  # started when first needed

    def ask(self, question: str, gone: threading.Event | None = None, /, **given: Any) -> Any:
        """The answer to a question of QUESTIONS; blocks until it is there.

        Args:
            question: its name.
            gone: set when no client waits for the answer any more; the question then ends.
            given: its arguments.

        Raises:
            Refused: it has none; over a limit, it is ended.
            Busy: no process was free for too long.
            Gone: no client waits for the answer.
        """
        gone = gone or threading.Event()
        worker = self._next_free(gone)
        try:
            worker, reply = self._reply(worker, QueryJob(question, given), gone)
        except BaseException:
            self._free.put(None)
            raise
        if not reply.stays:
            self._end(worker)
        self._free.put(worker if reply.stays else None)
        if reply.error is not None:
            raise Refused(reply.error)
        return reply.answer

    def close(self) -> None:
        """End all processes that are free."""
        while True:
            try:
                worker = self._free.get_nowait()
            except queue.Empty:
                return
            if worker is not None:
                self._end(worker)

    def _next_free(self, gone: threading.Event) -> _QueryWorker | None:
        until = time.monotonic() + self._patience_s
        while not gone.is_set():
            try:
                return self._free.get(timeout=min(POLL_S, self._patience_s))
            except queue.Empty:
                if time.monotonic() >= until:
                    raise Busy("too many questions at once; ask again in a moment") from None
        raise Gone("the client left")

    def _reply(
        self, worker: _QueryWorker | None, job: QueryJob, gone: threading.Event
    ) -> tuple[_QueryWorker, Reply]:
        """The worker and its reply.

        Raises:
            Gone: no client waits for it; the process has ended, as a query may not heed anything else.
        """
        if worker is None or not worker.process.is_alive():
            worker = self._start()
        try:
            worker.connection.send(job)
            if self._is_there(worker.connection, self._longest_s(job), gone):
                reply: Reply = worker.connection.recv()
                return worker, reply
        except (EOFError, OSError):
            self._end(worker)
            return worker, Reply(
                None, "the query took more than its process may; ask for less", False
            )
        except BaseException:
            self._end(worker)
            raise
        self._end(worker)
        limit = f"{self._limits.timeout_s:g} s"
        return worker, Reply(
            None, f"the question reached its limit of {limit}; ask for less", False
        )

    @staticmethod
    def _is_there(reply: Connection, longest_s: float | None, gone: threading.Event) -> bool:
        """Wait for a reply; False where it takes too long."""
        until = None if longest_s is None else time.monotonic() + longest_s
        while not reply.poll(POLL_S):
            if gone.is_set():
                raise Gone("the client left")
            if until is not None and time.monotonic() >= until:
                return False
        return True

    def _longest_s(self, job: QueryJob) -> float | None:
        if self._limits.timeout_s is None:
            return None
        times = 1 if job.question in FEW_QUERIES else MANY_QUERIES
        return times * self._limits.timeout_s + SPARE_S

    def _start(self) -> _QueryWorker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(
            target=work, args=(theirs, self._root, self._limits), daemon=True
        )
        process.start()
        theirs.close()
        return _QueryWorker(process, ours)

    @staticmethod
    def _end(worker: _QueryWorker) -> None:
        with suppress(OSError):
            worker.connection.close()
        worker.process.kill()
        worker.process.join()
