"""Puts the documentation of tables and views into a database, where any client shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xlahouse.ingest.table import Table
from xlahouse.sql.library import GRAIN, View, column_comments
from xlahouse.sql.types import quote, quote_name


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
