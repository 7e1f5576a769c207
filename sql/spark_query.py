"""Answers one query on Spark, with the same guard and views, if its SQL means the same there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from xlahouse.capture.errors import QueryError
from xlahouse.sql.guard import check
from xlahouse.sql.portable import QUERIES, portability
from xlahouse.sql.result import Result
from xlahouse.sql.spark import register

if TYPE_CHECKING:
    from sqlglot import exp

    from xlahouse.sql.spark import Session
    from xlahouse.sql.warehouse import Warehouse


def query_spark(
    warehouse: Warehouse,
    session: Session,
    sql: str,
    params: Mapping[str, object] | None = None,
    limit: int | None = None,
) -> Result:
    """Run one reading statement on a SparkSession; its rows are collected here.

    Args:
        warehouse: every executor has to reach its files.
        session: has the settings of spark.SPARK_SETTINGS; see `start_session`.
        sql: the query, in DuckDB's SQL.
        params: values of `$name`.
        limit: the most rows to collect.

    Raises:
        QueryError: the statement is not allowed, or not known to mean the same on Spark.
        WarehouseError: the session has other settings.
    """
    checked = check(sql)
    given = dict(params or {})
    warehouse.check_parameters(checked, given, sql)
    names = warehouse.names_in(checked, sql)
    text = _say(sql, given)
    register(session, warehouse, names)
    try:
        frame = session.sql(text)
        if limit is not None:
            frame = frame.limit(limit)
        table = frame.toArrow()
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise QueryError(f"Spark: {str(error).splitlines()[0]}", sql) from error
    return Result.of_table(table, sql)


def _say(sql: str, given: Mapping[str, object]) -> str:
    """The query in Spark's SQL, with its parameters filled in.

    Raises:
        QueryError: names the first construct that no test shows to mean the same.
    """
    from sqlglot import ErrorLevel, exp, parse_one
    from sqlglot.errors import SqlglotError

    try:
        tree = parse_one(sql, read="duckdb")
    except (SqlglotError, RecursionError) as error:
        raise QueryError(
            f"sqlglot cannot parse it, so it cannot be translated to Spark's SQL: {_first_line(error)}",
            sql,
        ) from error
    if not isinstance(tree, exp.Query):
        raise QueryError(f"{type(tree).__name__.upper()} is not translated to Spark", sql)
    for parameter in list(tree.find_all(exp.Placeholder)):
        parameter.replace(_literal(given[parameter.name]))
    for fault in [*portability(tree, QUERIES), *_without_order(tree)]:
        raise QueryError(f"{fault}; ask DuckDB (--engine duckdb)", sql)
    try:
        text: str = tree.sql("spark", unsupported_level=ErrorLevel.RAISE, comments=False)
    except (SqlglotError, ValueError, RecursionError) as error:
        raise QueryError(
            f"cannot be translated to Spark's SQL: {_first_line(error)}", sql
        ) from error
    return text


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _without_order(tree: exp.Query) -> list[str]:
    from sqlglot import exp

    return [
        "LIMIT without ORDER BY keeps different rows on each engine"
        for limit in tree.find_all(exp.Limit)
        if limit.parent is not None and not limit.parent.args.get("order")
    ]


def _literal(value: object) -> exp.Expr:
    from sqlglot import exp

    if isinstance(value, str | bool | int | float) or value is None:
        return exp.convert(value)
    raise QueryError(f"a parameter on Spark is a text or a number, not {type(value).__name__}", "")


def start_session(settings: Mapping[str, str]) -> Session:
    """A SparkSession, on `spark.master` of the settings, of spark-defaults.conf, or on this machine.

    Raises:
        QueryError: pyspark or Java is missing, or the master cannot be reached.
    """
    import os
    import shutil
    import sys

    from xlahouse.sql.spark import SPARK_SETTINGS

    try:
        from pyspark import SparkConf
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise QueryError("needs pyspark: pip install 'xlahouse[spark]'", "") from error
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise QueryError(
            "Spark needs Java 17 or newer, and PATH has no java; install one, or set JAVA_HOME", ""
        )
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf()
    conf.setIfMissing("spark.master", "local[*]")
    conf.setIfMissing("spark.app.name", "xlahouse")
    conf.setIfMissing("spark.log.level", "ERROR")
    conf.setIfMissing("spark.ui.showConsoleProgress", "false")
    conf.setIfMissing("spark.sql.execution.arrow.pyspark.enabled", "true")
    for key, value in {**settings, **SPARK_SETTINGS}.items():
        conf.set(key, value)
    try:
        session: Session = SparkSession.builder.config(conf=conf).getOrCreate()
    except Exception as error:  # an error of py4j or of pyspark
        raise QueryError(f"Spark cannot start: {_first_line(error)}", "") from error
    return session
