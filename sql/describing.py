"""Fills a database with every table and view, without rows but documented, for SHOW to list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from xlahouse.capture.errors import ViewError
from xlahouse.ingest.table import Table
from xlahouse.sql.library import GRAIN, TABLES, Library, View, column_comments
from xlahouse.sql.types import quote, quote_name

if TYPE_CHECKING:
    import duckdb

COLUMNS_SQL = """
    select table_name, list(column_name order by column_index) from duckdb_columns()
    where not internal group by all
"""


def create_all(connection: duckdb.DuckDBPyConnection, library: Library) -> None:
    """Create every view over tables that are there, and bare names; all with comments.

    Raises:
        ViewError: DuckDB refuses a view.
    """
    _, views = library.closure(set(library.views))
    named: list[tuple[str, View, str]] = []
    for view in views:
        named.append((view.name, view, view.sql))
        if library.pointers.get(view.base) == view.name != view.base:
            named.append((view.base, view, f"select * from {view.name}"))
    with _at_once(connection):
        _create_views(connection, named)
        columns = dict(connection.execute(COLUMNS_SQL).fetchall())
        for name, view, _ in named:
            run_all(connection, comment_view(view, name, columns[name]))


def _create_views(
    connection: duckdb.DuckDBPyConnection, named: Sequence[tuple[str, View, str]]
) -> None:
    # A view binds everything it rests on, down to the tables; over tables of the same names and
    # columns it binds only itself.
    for name, _, sql in named:
        _create(connection, name, f"create table {name} as {sql}\nwith no data")
    for name, _, sql in reversed(named):  # the relations it reads are still tables
        _create(connection, name, f"drop table {name}", f"create view {name} as {sql}")


def _create(connection: duckdb.DuckDBPyConnection, name: str, *statements: str) -> None:
    import duckdb

    try:
        run_all(connection, statements)
    except duckdb.Error as error:
        raise ViewError(name, str(error).splitlines()[0]) from error


def create_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Create every table, typed and without rows, with comments."""
    from xlahouse.sql.database import empty_table

    with _at_once(connection):
        for table in TABLES.values():
            connection.execute(empty_table(table.name))
            run_all(connection, comment_table(table, "table"))


@contextmanager
def _at_once(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """One transaction: thousands of comments, each in its own, take longer than all views together."""
    connection.begin()
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


def run_all(connection: duckdb.DuckDBPyConnection, statements: Iterable[str]) -> None:
    """Execute statements one after the other."""
    for statement in statements:
        connection.execute(statement)


def comment_table(table: Table, kind: str) -> Iterator[str]:
    """COMMENT statements for a table, which may exist as a `view` over its files."""
    yield f"comment on {kind} {table.name} is {quote(f'one row per {table.row}')}"
    for column in table.columns:
        yield f"comment on column {table.name}.{column.name} is {quote(column.meaning)}"


def comment_view(view: View, name: str, columns: Sequence[str]) -> Iterator[str]:
    """COMMENT statements for a view under a name; a user's own view may lack comments.

    columns: their names, as the database has them.
    """
    if view.own and not GRAIN.match(view.sql.partition("\n")[0]):
        return
    yield f"comment on view {name} is {quote(f'{view.grain}. {view.description}'.strip())}"
    comments = column_comments(view)
    if view.own and len(comments) != len(columns):
        return
    for column, comment in zip(columns, comments, strict=True):
        yield f"comment on column {name}.{quote_name(column)} is {quote(comment)}"
