"""A process that answers one question after the other, within the limits of each."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from xlahouse.capture.errors import QueryError, XlahouseError
from xlahouse.sql.interrupt import left_behind
from xlahouse.sql.limits import QueryLimits, data_bytes, memory_wall
from xlahouse.sql.serve.questions import QUESTIONS
from xlahouse.sql.warehouse import Warehouse


@dataclass(frozen=True)
class QueryJob:
    """A question with its arguments."""

    question: str  # name of a function of questions.py
    given: dict[str, Any]  # its arguments by name


@dataclass(frozen=True)
class Reply:
    """An answer, or the line that says why it has no answer."""

    answer: Any  # as the function gives it
    error: str | None  # the line; None where there is an answer
    stays: bool  # whether the process takes another question


def work(connection: Connection, root: str, limits: QueryLimits) -> None:
    """Answer until the other end closes, a query does not end, or freed memory is not given back."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's
    began = data_bytes() if limits.memory_bytes else 0
    while True:
        try:
            job: QueryJob = connection.recv()
        except (EOFError, OSError):
            return
        answer, error = _answer(job, root, limits)
        grown = (data_bytes() - began) if limits.memory_bytes else 0
        stays = not left_behind() and grown <= (limits.memory_bytes or 0)
        try:
            connection.send(Reply(answer, error, stays))
        except MemoryError:
            connection.send(Reply(None, "not enough memory for the answer; ask for less", False))
        except OSError:
            return
        if not stays:
            connection.close()
            os._exit(0)


def _answer(job: QueryJob, root: str, limits: QueryLimits) -> tuple[Any, str | None]:
    lines: list[str] = []
    try:
        with (
            memory_wall(limits.memory_bytes),
            Warehouse(
                root,
                lines.append,
                memory_limit=limits.memory,
                threads=1,
                timeout_s=limits.timeout_s,
            ) as warehouse,
        ):
            return QUESTIONS[job.question](warehouse, limits, **job.given), None
    except XlahouseError as error:
        return None, _without_path(error, root)
    except MemoryError:
        return None, "not enough memory; filter or aggregate more"
    except KeyboardInterrupt:
        return None, "the query was interrupted"
    except Exception as error:  # one question's fault must not end the server
        return None, f"{type(error).__name__}: {_without_path(error, root)}"


def _without_path(error: Exception, root: str) -> str:
    """The error in one line; where the warehouse is on this machine does not concern a client."""
    text = " ".join(str(error).split())
    if isinstance(error, QueryError):  # of the client's own text
        return text
    return text.replace(f"{root}/", "").replace(root, "the warehouse")
