"""Puts the documentation of tables and views into a database, where any client shows it."""

from __future__ import annotations

from collections.abc import Iterator

from xlahouse.capture.errors import ViewError
from xlahouse.ingest.schema import Table
from xlahouse.sql.library import View
from xlahouse.sql.types import quote


def comment_table(table: Table, kind: str) -> Iterator[str]:
    """COMMENT statements for a table, which may exist as a `view` over its files."""
    yield f"comment on {kind} {table.name} is {quote(f'one row per {table.row}')}"
    for column in table.columns:
        yield f"comment on column {table.name}.{column.name} is {quote(column.meaning)}"


def comment_view(view: View, name: str) -> Iterator[str]:
    """COMMENT statements for a view under a name; a user's own may lack what they would say."""
    try:
        yield f"comment on view {name} is {quote(f'{view.grain}. {view.description}'.strip())}"
        for column in view.columns:
            yield f"comment on column {name}.{column.name} is {quote(column.meaning)}"
    except ViewError:
        if not view.own:
            raise
