"""Creates a warehouse's tables and views in a Spark session, over the same files."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from xlahouse.capture.errors import QueryError, WarehouseError
from xlahouse.ingest.table import Table
from xlahouse.sql.library import RUN_SETTINGS, TABLES
from xlahouse.sql.listing import read_run_settings
from xlahouse.sql.place import Place
from xlahouse.sql.types import SPARK_TYPES, Row

if TYPE_CHECKING:
    import pyarrow as pa

    from xlahouse.sql.warehouse import Warehouse

# Without the first, an index past a list's end, a division by zero or an overflow gives NULL or
# worse instead of an error; the second sets the zone that timestamps are shown in.
SPARK_SETTINGS = {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "UTC"}


class SparkFrame(Protocol):
    """The part of a Spark DataFrame that is used here."""

    def createOrReplaceTempView(self, name: str) -> None: ...
    def localCheckpoint(self, eager: bool) -> SparkFrame: ...
    def limit(self, num: int) -> SparkFrame: ...
    def toArrow(self) -> pa.Table: ...


class Reader(Protocol):
    """The part of a Spark DataFrameReader that is used here."""

    def schema(self, schema: str) -> Reader: ...
    def parquet(self, *paths: str) -> SparkFrame: ...


class Conf(Protocol):
    """The settings of a Spark session."""

    def get(self, key: str) -> str | None: ...


class Session(Protocol):
    """The part of a SparkSession that is used here."""

    @property
    def conf(self) -> Conf: ...
    @property
    def read(self) -> Reader: ...
    def sql(self, sqlQuery: str) -> SparkFrame: ...
    def table(self, tableName: str) -> SparkFrame: ...
    def createDataFrame(self, data: Sequence[Row], schema: str) -> SparkFrame: ...


def to_spark(sql: str) -> str:
    """A query in Spark's SQL.

    Raises:
        QueryError: it does not parse, or has no translation.
    """
    from sqlglot import ErrorLevel, transpile
    from sqlglot.errors import SqlglotError

    try:
        (text,) = transpile(
            sql, read="duckdb", write="spark", unsupported_level=ErrorLevel.RAISE, comments=False
        )
    except (SqlglotError, ValueError, RecursionError) as error:
        raise QueryError(f"cannot be translated to Spark's SQL: {error}", sql) from error
    return text


def register(session: Session, warehouse: Warehouse, names: set[str]) -> None:
    """Create temporary views in a SparkSession for tables and views, and for all relations below them.

    Args:
        session: a SparkSession that has the settings of SPARK_SETTINGS.
        warehouse: every executor has to be able to read its files.
        names: tables, views or bare names of views.

    Raises:
        WarehouseError: the session has other settings.
        ViewError: a view is at fault.
    """
    for key, value in SPARK_SETTINGS.items():
        if session.conf.get(key) != value:
            raise WarehouseError(f"the Spark session needs {key}={value}; the views rely on it")
    tables, views = warehouse.library.closure(names)
    for table in sorted(tables):
        rows(session, warehouse, TABLES[table]).createOrReplaceTempView(table)
    lower = {name for view in views for name in view.dependencies}
    for view in views:
        frame = session.sql(to_spark(view.sql))
        if view.name in lower:
            # Views above it see only its rows, computed once when needed: planned in full, they would
            # repeat the lower views hundreds of times.
            frame = frame.localCheckpoint(eager=False)
        frame.createOrReplaceTempView(view.name)
    for name in sorted(names & set(warehouse.library.pointers)):
        session.table(warehouse.library.pointers[name]).createOrReplaceTempView(name)


def rows(session: Session, warehouse: Warehouse, table: Table) -> SparkFrame:
    """A table of the warehouse as a data frame, in the types of SPARK_TYPES, not inferred."""
    schema = ", ".join(f"{column.name} {SPARK_TYPES[column.type]}" for column in table.columns)
    files = warehouse.files(table.name)
    if files:
        return session.read.schema(schema).parquet(*map(literal_path, files))
    found: list[Row] = []
    if table.name == RUN_SETTINGS.name:
        run_ids = [run["run_id"] for run in warehouse.runs()]
        found = read_run_settings(Place(warehouse.root), run_ids)
    return session.createDataFrame(found, schema)


def literal_path(file: str) -> str:
    """A path that Spark reads as this one file: it takes paths for patterns, and bare ones for HDFS."""
    path = file if "://" in file else f"file://{os.path.abspath(file)}"
    path = re.sub(r"^s3://", "s3a://", path)  # Hadoop's name of the scheme
    return re.sub(r"([][{}*?\\])", r"\\\1", path)
