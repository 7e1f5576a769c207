"""Binds a query to the files of its tables, again where they turn out to be others than was thought."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from xlahouse.sql.blame import explain_qualified
from xlahouse.sql.interrupt import QueryWatch

if TYPE_CHECKING:
    import duckdb


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
