"""Writes views as CREATE statements: DuckDB's as written, Spark's and BigQuery's through sqlglot."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from xlahouse.capture.errors import ViewError
from xlahouse.sql.library import Library, View, parse_view
from xlahouse.sql.types import quote

if TYPE_CHECKING:
    from sqlglot import exp

DIALECTS = ("duckdb", "spark", "bigquery")


def write_ddl(library: Library, names: set[str], dialect: str) -> Iterator[str]:
    """Statements that create views and those below them, in order; the tables have to exist.

    Each view and column carries its documentation.

    Raises:
        ViewError: a view has no translation.
    """
    tables, views = library.closure(names)
    if tables:
        yield f"-- over the tables {', '.join(sorted(tables))}"
    for view in views:
        yield _create(view, dialect)
    for name in sorted(names & set(library.pointers)):
        yield f"create or replace view {name} as select * from {library.pointers[name]};"


def _create(view: View, dialect: str) -> str:
    if dialect == "duckdb":
        return f"create or replace view {view.name} as\n{view.sql.rstrip()};"
    columns = ",\n".join(
        f"  {column.name} {_described(column.meaning, dialect)}" for column in view.columns
    )
    text = f"{view.grain}. {view.description}".strip()
    about = f"options (description = {_text(text, dialect)})"
    if dialect == "spark":
        about = f"comment {_text(text, dialect)}"
    return f"create or replace view {view.name} (\n{columns}\n)\n{about} as\n{translate(view, dialect)};"


def _described(meaning: str, dialect: str) -> str:
    said = _text(meaning, dialect)
    return f"comment {said}" if dialect == "spark" else f"options (description = {said})"


def _text(text: str, dialect: str) -> str:
    """A text as the dialect writes it; both escape with a backslash."""
    plain = " ".join(text.split()).replace("\\", "\\\\")
    return "'" + plain.replace("'", "\\'") + "'" if dialect != "duckdb" else quote(plain)


def translate(view: View, dialect: str) -> str:
    """A view's SELECT in another dialect.

    Raises:
        ViewError: sqlglot has no translation.
    """
    from sqlglot import ErrorLevel
    from sqlglot.errors import SqlglotError

    tree = parse_view(view)
    if dialect == "bigquery":
        _order_nulls(tree)
    try:
        text: str = tree.sql(
            dialect, pretty=True, comments=False, unsupported_level=ErrorLevel.RAISE
        )
    except (SqlglotError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise ViewError(view.name, f"cannot be translated to {dialect}: {reason}") from error
    return text


def _order_nulls(tree: exp.Query) -> None:
    """`order by a nulls last` as `order by a is null, a`: BigQuery's windows know no NULLS LAST."""
    from sqlglot import exp

    for order in list(tree.find_all(exp.Order)):
        if isinstance(order.parent, exp.Select | exp.Union):
            continue
        spelt = []
        for ordered in order.expressions:
            down = bool(ordered.args.get("desc"))
            if not down and not ordered.args.get("nulls_first"):
                missing = exp.Is(this=ordered.this.copy(), expression=exp.Null())
                spelt.append(exp.Ordered(this=exp.Paren(this=missing), nulls_first=True))
            # BigQuery puts NULL first ascending and last descending, unless the query states otherwise.
            spelt.append(exp.Ordered(this=ordered.this.copy(), desc=down, nulls_first=not down))
        order.set("expressions", spelt)
