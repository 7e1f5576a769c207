"""Asks DuckDB and Spark for every view of a warehouse, and says where their answers differ."""

from __future__ import annotations

import importlib.util
import math
import shutil
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from xlahouse.sql import Warehouse
from xlahouse.sql.library import TABLES
from xlahouse.sql.spark import rows, to_spark

# Sums of doubles depend on the order of their parts, which no engine promises.
TOLERANCE = 1e-12


def why_not() -> str | None:
    """Why Spark cannot run here; None where it can."""
    if importlib.util.find_spec("pyspark") is None:
        return "needs pyspark: install xlahouse[spark]"
    if shutil.which("java") is None:
        return "Spark needs java, version 17 or newer, and PATH has no java"
    return None


def require_spark() -> None:
    """Skip, with the reason, where Spark cannot run."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)


class Answers:
    """Every view of a warehouse as DuckDB and as Spark give it, each computed when asked for.

    On Spark a view is kept once it was computed, and views on top of it read what was kept and know
    no more of it than its rows: planned in full, the upper views repeat the lower ones hundreds of times.
    """

    def __init__(self, session: Any, warehouse: Warehouse) -> None:
        self._session, self._warehouse = session.newSession(), warehouse
        self._known: dict[str, pa.Table] = {}

    def duckdb(self, view: str) -> pa.Table:
        """The view's rows by DuckDB."""
        result = self._warehouse.query(f"select * from {view}")
        assert "HUGEINT" not in " ".join(result.types), f"{view}: a sum has to be cast"
        return result.arrow()

    def spark(self, view: str) -> pa.Table:
        """The view's rows by Spark."""
        tables, views = self._warehouse.library.closure({view})
        for table in tables - set(self._known):
            frame = rows(self._session, self._warehouse, TABLES[table]).cache()
            frame.createOrReplaceTempView(table)
            self._known[table] = None
        for each in views:
            if each.name not in self._known:
                frame = self._session.sql(to_spark(each.sql)).localCheckpoint()
                frame.createOrReplaceTempView(each.name)
                self._known[each.name] = frame.toArrow()
        return self._known[view]


def differences(duckdb: pa.Table, spark: pa.Table) -> list[str]:
    """How two answers differ in columns, types or rows, whatever the order; empty where not."""
    types = [{field.name: _type(field.type) for field in table.schema} for table in (duckdb, spark)]
    if types[0] != types[1] or duckdb.column_names != spark.column_names:
        return [f"columns {types[0]} on DuckDB, {types[1]} on Spark"]
    ours, theirs = sorted_rows(duckdb), sorted_rows(spark)
    if len(ours) != len(theirs):
        return [f"{len(ours)} rows on DuckDB, {len(theirs)} on Spark"]
    pairs = zip(ours, theirs, strict=True)
    return [f"{a} on DuckDB, {b} on Spark" for a, b in pairs if not _same_row(a, b)]


def _type(kind: pa.DataType) -> str:
    """A type's name; lists by what they hold, and Spark's 20 digits are an unsigned integer."""
    if pa.types.is_list(kind):
        return f"list of {_type(kind.value_type)}"
    if pa.types.is_struct(kind):
        return str({field.name: _type(field.type) for field in kind})
    if pa.types.is_timestamp(kind):
        return f"timestamp of {kind.unit}"
    return "uint64" if kind == pa.decimal128(20, 0) else str(kind)


def sorted_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows in an order that depends on floats last of all, since those may differ a little."""
    floats = [pa.types.is_floating(field.type) for field in table.schema]
    columns = [[_plain(value) for value in column.to_pylist()] for column in table.columns]

    def order(row: tuple[Any, ...]) -> tuple[str, ...]:
        cells = list(zip(row, floats, strict=True))
        exact = [repr(value) for value, is_float in cells if not is_float]
        return (*exact, *(f"{value:.9e}" if value is not None else "" for value, f in cells if f))

    return sorted(zip(*columns, strict=True), key=order)


def _plain(value: Any) -> Any:
    return int(value) if isinstance(value, Decimal) else value


def _same_row(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
    return all(_same(a, b) for a, b in zip(ours, theirs, strict=True))


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.isclose(a, b, rel_tol=TOLERANCE)
    return bool(a == b)
