"""Traces a view's columns down to the columns of tables that they are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xlahouse.capture.errors import ViewError
from xlahouse.sql.library import TABLES, Library, View, parse_view

if TYPE_CHECKING:
    from sqlglot.lineage import Node

Origins = dict[str, tuple[str, ...]]  # column -> `table.column` of each origin, sorted


def origins(library: Library, name: str) -> Origins:
    """The columns of tables that each column of a view is computed from.

    A column that only decides which rows there are (in WHERE or in a join) is not an origin.

    Raises:
        ViewError: a view does not parse, or names a column that there is not.
    """
    _, views = library.closure({name})
    found: dict[str, Origins] = {}
    for view in views:
        found[view.name] = _of_view(view, found)
    return found[views[-1].name]


def _of_view(view: View, below: Mapping[str, Origins]) -> Origins:
    """A view's origins, given the origins of the views that it reads."""
    from sqlglot.errors import SqlglotError
    from sqlglot.lineage import lineage
    from sqlglot.optimizer.qualify import qualify
    from sqlglot.optimizer.scope import build_scope

    schema: dict[str, object] = {
        read: dict.fromkeys(
            below.get(read) or [column.name for column in TABLES[read].columns], "unknown"
        )
        for read in view.dependencies
    }
    try:
        tree = qualify(
            parse_view(view), dialect="duckdb", schema=schema, validate_qualify_columns=False
        )
        scope = build_scope(tree)
        return {
            name: _leaves(
                lineage(name, tree, schema, dialect="duckdb", scope=scope, copy=False), below
            )
            for name in tree.named_selects
        }
    except (SqlglotError, ValueError, RecursionError) as error:
        raise ViewError(view.name, f"its columns cannot be traced: {error}") from error


def _leaves(node: Node, below: Mapping[str, Origins]) -> tuple[str, ...]:
    from sqlglot import exp

    found: set[str] = set()
    for part in node.walk():
        if part.downstream or not isinstance(part.source, exp.Table):
            continue
        relation, column = part.source.name, part.name.rpartition(".")[2].strip('"')
        found |= set(below[relation][column] if relation in below else [f"{relation}.{column}"])
    return tuple(sorted(found))
