"""Turns DuckDB's errors into ours: one line, with the place in the query and the nearest name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

from xlahouse.capture.errors import (
    DamagedFileError,
    LowMemoryError,
    QueryError,
    WarehouseError,
    XlahouseError,
    lacks_memory,
)
from xlahouse.sql.interrupt import Cancelled, OutOfTime, QueryWatch
from xlahouse.sql.nearest import suggest

if TYPE_CHECKING:
    import duckdb

    from xlahouse.sql.place import Place

NO_SUCH_COLUMN = re.compile(r'Values list "([^"]+)" does not have a column named "([^"]+)"')
TOO_DEEP = "the query nests too deep; split it with WITH"
# DuckDB's advice of a statement that no query may be: from its first word on.
SETTING = re.compile(r'(?:,? or| Use)? "?(?:SET|PRAGMA|INSTALL|LOAD) \w+.*')
LESS = "filter or aggregate more, or allow more memory"
STATEMENTS = ("select", "from", "with", "describe", "show", "summarize", "explain", "values")


def engine_errors() -> tuple[type[Exception], ...]:
    """DuckDB's errors; a message that quotes damaged text is no UTF-8, and fails as such in Python."""
    import duckdb

    return duckdb.Error, UnicodeDecodeError


@contextmanager
def blame(sql: str) -> Iterator[None]:
    """Raise DuckDB's errors as ours.

    Raises:
        QueryError: the query is at fault, was cancelled, or is over its limit.
        WarehouseError: a file that the warehouse lists vanished or is damaged.
        KeyboardInterrupt: DuckDB noticed the interrupt first.
    """
    import duckdb

    try:
        yield
    except Cancelled:
        raise QueryError("the query was cancelled", sql) from None
    except OutOfTime as error:
        raise QueryError(f"{error}; ask for fewer runs or rows, or allow more time", sql) from None
    except MemoryError:
        raise QueryError(f"not enough memory; {LESS}", sql) from None
    except RuntimeError as error:
        if is_interrupt(error):
            raise KeyboardInterrupt from error
        if "start new thread" in str(error):
            raise QueryError(f"not enough memory; {LESS}", sql) from None
        raise
    except (duckdb.IOException, duckdb.PermissionException) as error:
        # No query that gets this far names a file, so the file is the warehouse's.
        raise blame_file(error) from error
    except OSError as error:
        raise explain_error(error, sql) from error
    except engine_errors() as error:
        raise explain_error(error, sql) from error


def is_interrupt(error: RuntimeError) -> bool:
    """Whether an error is DuckDB's for Ctrl-C, which it notices before Python does."""
    return type(error) is RuntimeError and str(error) == "Query interrupted"


def blame_file(error: Exception, file: str = "") -> XlahouseError:
    """The error for a file that the warehouse lists and cannot give.

    Args:
        error: of reading it.
        file: its name, which the error may lack.
    """
    if lacks_memory(error):
        return LowMemoryError()
    text = headline(error)
    if file not in text:
        text = f"{file} is damaged: {text}"
    if "No space left on device" in text:
        return WarehouseError(f"{text}; free some space and try again: the warehouse is as it was")
    missing = re.match(r'No files found that match the pattern "([^"]+)"', text)
    if missing:
        text = f"{missing[1]} is missing"
    return WarehouseError(
        f"{text}; if an ingest replaced the run just now, query again, else ingest the run again"
    )


def blame_row(error: Exception, place: Place, run_ids: Iterable[str]) -> None:
    """Raise an error of reading the rows of runs as that of the first damaged row, if there is one.

    Raises:
        DamagedFileError: names the row's file.
    """
    from xlahouse.ingest.store.run_index import row_path
    from xlahouse.sql.damage import damaged_rows

    for run_id, line in damaged_rows(place.root, run_ids).items():
        raise DamagedFileError(line, place.url(row_path(run_id)), headline(error)) from error


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
    if message.startswith("Max expression depth limit"):
        message = TOO_DEEP
    if type(error).__name__ == "OutOfMemoryException":
        message = f"not enough memory: {message}; {LESS}"
    message += _hint(message, text)
    line, column = _caret(text, sql)
    return QueryError(message, sql, line, column)


def explain_qualified(
    error: Exception, sql: str, cursor: duckdb.DuckDBPyConnection
) -> QueryError | None:
    """DuckDB's error for `v.axiss`, which names no candidates, with the columns of the relation `v`."""
    import duckdb

    missing = NO_SUCH_COLUMN.search(str(error))
    if missing is None:
        return None
    from sqlglot import exp, parse_one
    from sqlglot.errors import SqlglotError

    alias, name = missing.groups()
    hint = ""
    try:
        for table in parse_one(sql, read="duckdb").find_all(exp.Table):
            if table.alias_or_name.lower() == alias.lower():
                hint = suggest(name, cursor.sql(f"from {table.name}").columns)
                hint = hint or f"; DESCRIBE {table.name} lists them"
    # a query in FROM, or one that sqlglot cannot parse
    except (SqlglotError, RecursionError, duckdb.Error):
        hint = ""
    line, column = _caret(str(error), sql)
    return QueryError(f"{alias} has no column {name}{hint}", sql, line, column)


def _hint(message: str, text: str) -> str:
    """Names that may have been meant, from the candidates below DuckDB's first line."""
    missing = re.search(r'column "([^"]+)"|column named "([^"]+)"', message)
    bindings = re.search(r"Candidate bindings: (.*)", text)
    if missing and bindings:
        candidates = re.findall(r'"([^"]+)"', bindings[1])
        name = missing[1] or missing[2]
        if name == "name":
            return "; the name of a run is in runs: join runs using (run_id), or --run NAME"
        hint = suggest(name, candidates)
        return hint or f"; there are {', '.join(candidates)}"
    if meant := re.search(r'\nDid you mean "([^"]+)"', text):
        return f"; did you mean {meant[1]}?"
    if tables := re.search(r"\nCandidate tables?: (.*)", text):
        return f"; the query reads {tables[1].replace('memory.', '').replace(chr(34), '')}"
    start = re.match(r'syntax error at or near "(\w+)"', message)
    return suggest(start[1], STATEMENTS) if start and f"LINE 1: {start[1]}" in text else ""


def headline(error: Exception) -> str:
    """The first line, without names of DuckDB's classes and advice to set something."""
    first = SETTING.sub("", str(error).partition("\n")[0])
    return re.sub(r"^(?:[A-Z][A-Za-z ]*(?:Error|Exception): )+", "", first).rstrip("!")


def _caret(text: str, sql: str) -> tuple[int | None, int | None]:
    """Line and column from DuckDB's `LINE 2: …` and the caret below it.

    The statement that failed may contain the query further down, so the line's text decides.
    """
    lines = text.splitlines()
    for shown, below in pairwise(lines):
        match = re.match(r"LINE (\d+): ", shown)
        if match is None or "^" not in below:
            continue
        line, at = int(match[1]), below.index("^") - match.end()
        excerpt = shown[match.end() :]
        begins = 3 if excerpt.startswith("...") else 0
        part = excerpt[begins:].removesuffix("...")
        sources = sql.splitlines()
        fits = [number for number, source in enumerate(sources, start=1) if part in source]
        if line not in fits:
            if len(fits) != 1:
                return None, None
            line = fits[0]
        start = sources[line - 1].find(part) - begins if begins else 0
        return line, at + start + 1
    return None, None


def bound(
    watch: QueryWatch,
    statement: duckdb.Statement,
    sql: str,
    given: dict[str, object],
    mended: Callable[[Exception], bool],
) -> duckdb.DuckDBPyRelation:
    """The query, bound and not yet run.

    Args:
        watch: of the query, with the cursor that it is bound to.
        statement: the query.
        sql: its text, for errors.
        given: values of its parameters.
        mended: whether what an error is about is mended, so that the query is to be bound again.
    """
    while True:
        try:
            return watch.run(lambda: _relation(watch.connection, statement, sql, given))
        except Exception as error:
            if not mended(error):
                raise


def _relation(
    cursor: duckdb.DuckDBPyConnection,
    statement: duckdb.Statement,
    sql: str,
    given: dict[str, object],
) -> duckdb.DuckDBPyRelation:
    """The query, bound and not yet run. sql: its text, for errors."""
    import duckdb

    try:
        return cursor.sql(statement, params=given or None)
    except (duckdb.BinderException, duckdb.CatalogException) as error:
        failed = error
    if "LINE " not in str(failed):
        try:
            cursor.execute(statement, given or None)  # fails alike, and says where
        except (duckdb.BinderException, duckdb.CatalogException) as error:
            failed = error
    raise explain_qualified(failed, sql, cursor) or failed
