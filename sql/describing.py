"""A database that holds every table and view without a row, with its documentation: what SHOW lists."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xlahouse.capture.errors import ViewError
from xlahouse.sql.comments import comment_table, comment_view
from xlahouse.sql.library import TABLES, Library, View

if TYPE_CHECKING:
    import duckdb


def create_all(connection: duckdb.DuckDBPyConnection, library: Library) -> None:
    """Create every view over tables that are there, in order, and bare names; all with comments.

    Raises:
        ViewError: DuckDB refuses a view.
    """
    import duckdb

    _, views = library.closure(set(library.views))
    named: list[tuple[str, View, str]] = []
    for view in views:
        named.append((view.name, view, view.sql))
        if library.pointers.get(view.base) == view.name != view.base:
            named.append((view.base, view, f"select * from {view.name}"))
    for name, view, sql in named:
        try:
            connection.execute(f"create view {name} as {sql}")
        except duckdb.Error as error:
            raise ViewError(name, str(error).splitlines()[0]) from error
        run_all(connection, comment_view(view, name))


def create_tables(connection: duckdb.DuckDBPyConnection) -> None:
    """Create every table, typed and without rows, with comments."""
    from xlahouse.sql.database import empty_table

    for table in TABLES.values():
        connection.execute(empty_table(table.name))
        run_all(connection, comment_table(table, "table"))


def run_all(connection: duckdb.DuckDBPyConnection, statements: Iterable[str]) -> None:
    """Execute statements one after the other."""
    for statement in statements:
        connection.execute(statement)
