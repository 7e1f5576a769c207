"""Turns DuckDB's errors into ours: one line, the place in the query, the nearest name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

from xlahouse.capture.errors import QueryError, WarehouseError
from xlahouse.sql.interrupt import Cancelled
from xlahouse.sql.nearest import suggest


@contextmanager
def blame(sql: str) -> Iterator[None]:
    """Whatever DuckDB raises inside comes out as ours.

    Raises:
        QueryError: the query is at fault, or was cancelled.
        WarehouseError: a file that the warehouse lists vanished or is damaged.
        KeyboardInterrupt: DuckDB noticed the interrupt first.
    """
    import duckdb

    try:
        yield
    except Cancelled:
        raise QueryError("the query was cancelled", sql) from None
    except RuntimeError as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        raise
    except (duckdb.IOException, duckdb.PermissionException) as error:
        # No query that gets this far names a file, so the file is the warehouse's.
        raise blame_file(error) from error
    except (duckdb.Error, OSError) as error:
        raise explain_error(error, sql) from error


def is_interrupt(error: RuntimeError) -> bool:
    """Whether an error is DuckDB's word for Ctrl-C, which it notices before Python does."""
    return type(error) is RuntimeError and str(error) == "Query interrupted"


def blame_file(error: Exception) -> WarehouseError:
    """The error for a file that the warehouse lists and cannot give."""
    text = headline(error)
    missing = re.match(r'No files found that match the pattern "([^"]+)"', text)
    if missing:
        text = f"{missing[1]} is missing"
    return WarehouseError(
        f"{text}; if an ingest replaced the run just now, query again, else ingest the run again"
    )


def place(sql: str, offset: int | None) -> tuple[int | None, int | None]:
    """1-based line and column of a byte offset."""
    if offset is None:
        return None, None
    before = sql.encode()[:offset].decode(errors="replace")
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def explain_error(error: Exception, sql: str) -> QueryError:
    """DuckDB's error as a QueryError."""
    text = str(error)
    message = headline(error)
    if type(error).__name__ == "OutOfMemoryException":
        message = f"not enough memory: {message}; filter or aggregate more, or give more memory"
    missing = re.search(r'column "([^"]+)"|column named "([^"]+)"', message)
    bindings = re.search(r"Candidate bindings: (.*)", text)
    if missing and bindings:
        candidates = re.findall(r'"([^"]+)"', bindings[1])
        name = missing[1] or missing[2]
        hint = suggest(name, candidates)
        message += hint or f"; there are {', '.join(candidates)}"
    line, column = _caret(text, sql)
    return QueryError(message, sql, line, column)


def headline(error: Exception) -> str:
    """The first line, without the name of DuckDB's class."""
    first = str(error).partition("\n")[0]
    return re.sub(r"^[A-Z][A-Za-z ]*(?:Error|Exception): ", "", first).rstrip("!")


def _caret(text: str, sql: str) -> tuple[int | None, int | None]:
    """Line and column from DuckDB's `LINE 2: …` and the caret below it."""
    lines = text.splitlines()
    for shown, below in pairwise(lines):
        match = re.match(r"LINE (\d+): ", shown)
        if match is None or "^" not in below:
            continue
        line, at = int(match[1]), below.index("^") - match.end()
        excerpt = shown[match.end() :]
        if excerpt.startswith("..."):
            source = sql.splitlines()[line - 1] if line <= len(sql.splitlines()) else ""
            at += max(source.find(excerpt[3:].removesuffix("...")), 0) - 3
        return line, at + 1
    return None, None
