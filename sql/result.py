"""The rows of a query, in the form that the caller asks for, read as they are needed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, TypeVar

from xlahouse.capture.errors import QueryError
from xlahouse.sql.blame import blame
from xlahouse.sql.drawing import HTML_ROWS, draw_html, draw_plan, without_files
from xlahouse.sql.guard import QueryPlan
from xlahouse.sql.interrupt import QueryWatch
from xlahouse.sql.types import NamedRow, Row, Value

if TYPE_CHECKING:
    import duckdb
    import pandas  # type: ignore[import-untyped]
    import polars
    import pyarrow as pa

Outcome = TypeVar("Outcome")
BATCH_ROWS = 65_536
# Types whose values DuckDB gives as Arrow does; loading Arrow takes longer than most queries.
_LEAF = r"(?:U?(?:BIG|SMALL|TINY)INT|U?INTEGER|HUGEINT|DOUBLE|VARCHAR|BOOLEAN)"
ALIKE = re.compile(rf'(?:{_LEAF}|STRUCT\((?:"?\w+"? {_LEAF}(?:, )?)+\))(?:\[\])*')
INSTANT = "TIMESTAMP WITH TIME ZONE"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Types that Arrow cannot represent: it would give other values, or bytes.
TEXT_ONLY = {"UHUGEINT", "BIT", "BIGNUM", "TIME WITH TIME ZONE"}


class Result:
    """The rows of one query; a column with the name of an earlier one gets a number: `op`, `op_1`.

    `batches()` streams and can be read once; the other forms keep the rows and can be asked for
    again and again.
    """

    def __init__(
        self,
        relation: duckdb.DuckDBPyRelation,
        sql: str,
        watch: QueryWatch,
        again: Callable[[Exception], duckdb.DuckDBPyRelation | None] = lambda error: None,
    ) -> None:
        self._again = again
        self._watch = watch
        self.columns: list[str] = _numbered(relation.columns)
        self.sql = sql
        relation = _as_text(relation)
        self._relation = relation
        self._reader: pa.RecordBatchReader | None = None
        self._table: pa.Table | None = None

    @classmethod
    def of_table(cls, table: pa.Table, sql: str) -> Result:
        """A result whose rows are there already."""
        import duckdb

        connection = duckdb.connect(":memory:")
        found = cls(connection.from_arrow(table), sql, QueryWatch(connection))
        found._table = table.rename_columns(found.columns)
        return found

    @property
    def types(self) -> list[str]:
        """DuckDB's name of each column's type."""
        return [str(kind) for kind in self._relation.types]

    def cancel(self) -> None:
        """End the query, from any thread; a caller that waits for its rows gets a QueryError."""
        self._watch.cancel()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Arrow batches of at most BATCH_ROWS rows, computed while they are read.

        Raises:
            QueryError: a value is at fault, such as a text that should be a number.
            WarehouseError: a file of the warehouse vanished or is damaged.
        """
        if self._table is not None:
            yield from self._table.to_batches()
            return
        with blame(self.sql):
            batch = self._attempt(self._next)
            while batch is not None:
                self._watch.count(batch.num_rows)
                yield batch.rename_columns(self.columns)
                batch = self._watch.run(self._next)

    def head(self, count: int) -> list[list[Value]]:
        """The first rows, as `rows` has them; of a result that was not read yet, only these are computed.

        Raises:
            QueryError: a value is at fault, such as a text that should be a number.
            WarehouseError: a file of the warehouse vanished or is damaged.
        """
        quick = self._head_without_arrow(count)
        if quick is not None:
            return quick
        found: list[list[Value]] = []
        for batch in self.batches():
            columns = [[plain(value) for value in values(column)] for column in batch.columns]
            found += map(list, zip(*columns, strict=True))
            if len(found) >= count:
                break
        return found[:count]

    def _head_without_arrow(self, count: int) -> list[list[Value]] | None:
        """The first rows by DuckDB's own values; None where they could differ from Arrow's."""
        kinds = self.types
        fits = all(kind == INSTANT or ALIKE.fullmatch(kind) for kind in kinds)
        if self._table is not None or self._reader is not None or not fits:
            return None
        # DuckDB needs one more package for an instant with its zone; as microseconds it needs none.
        columns = [
            f"case when not isfinite(#{place}) then {2**63 - 1} else epoch_us(#{place}) end"
            if kind == INSTANT
            else f"#{place}"
            for place, kind in enumerate(kinds, start=1)
        ]

        def first_rows() -> list[Row]:
            first = self._relation.limit(count)
            if INSTANT in kinds:
                first = first.project(", ".join(columns))
            return first.fetchall()

        with blame(self.sql):
            rows = [list(row) for row in self._attempt(first_rows)]
        instants = [place for place, kind in enumerate(kinds) if kind == INSTANT]
        try:
            for row in rows:
                for place in instants:
                    if row[place] is not None:
                        row[place] = EPOCH + timedelta(microseconds=row[place])
        except OverflowError:  # a year that Python has not
            return None
        return rows

    @property
    def schema(self) -> pa.Schema:
        """Names and Arrow types; the query starts."""
        found = self._open().schema if self._table is None else self._table.schema
        return found.empty_table().rename_columns(self.columns).schema

    def arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        if self._table is None:
            with blame(self.sql):
                found = self._attempt(lambda: self._start().read_all())
                self._watch.count(found.num_rows)
                self._table = found.rename_columns(self.columns)
        return self._table

    def _open(self) -> pa.RecordBatchReader:
        with blame(self.sql):
            return self._attempt(self._start)

    def _start(self) -> pa.RecordBatchReader:
        if self._reader is None:
            self._reader = self._relation.to_arrow_reader(BATCH_ROWS)
        return self._reader

    def _next(self) -> pa.RecordBatch | None:
        return next(self._start(), None)

    def _attempt(self, work: Callable[[], Outcome]) -> Outcome:
        """The outcome of the work, done again where files lacked columns, or were damaged."""
        while True:
            try:
                return self._watch.run(work)
            except Exception as error:
                relation = self._again(error)
                if relation is None:
                    raise
            self._relation, self._reader = _as_text(relation), None

    def pl(self) -> polars.DataFrame:
        """All rows as a Polars frame."""
        import polars

        frame = polars.from_arrow(self.arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def df(self) -> pandas.DataFrame:
        """All rows as a pandas frame.

        Raises:
            QueryError: pandas is not installed; xlahouse itself does not need it.
        """
        try:
            import pandas  # noqa: F401
        except ImportError as error:
            raise QueryError(
                "pandas is not installed: pip install pandas, or use .pl()", self.sql
            ) from error
        return self.arrow().to_pandas()

    @property
    def rows(self) -> list[Row]:
        """All rows as tuples of Python values; see `values` for values without a Python type."""
        columns = [values(column) for column in self.arrow().columns]
        return [tuple(plain(value) for value in row) for row in zip(*columns, strict=True)]

    def _repr_html_(self) -> str:
        """The first rows, as a notebook shows them."""
        rows = self.head(HTML_ROWS + 1)
        return draw_html(self.columns, rows)

    def dicts(self) -> list[NamedRow]:
        """All rows as mappings from column to Python value."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def plain(value: Value) -> Value:
    """DuckDB's sum of BIGINT is a 128-bit number, which Arrow calls a decimal: back to int."""
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    return value


def values(column: pa.Array | pa.ChunkedArray) -> list[Value]:
    """An Arrow column as Python values; as DuckDB's text where Python has no type for one of them.

    Such are infinite timestamps, years beyond 9999, nanoseconds, and intervals of months.
    """
    if str(column.type) != "month_day_nano_interval":
        try:
            found: list[Value] = column.to_pylist()
        except (ValueError, OverflowError, ImportError):
            pass
        else:
            return found
    import duckdb
    import pyarrow as pa

    with duckdb.connect(":memory:") as connection:
        rows = connection.from_arrow(pa.table({"value": column})).project("value::varchar")
        return [text for (text,) in rows.fetchall()]


def _as_text(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """The relation with the columns of TEXT_ONLY as DuckDB's text."""
    kinds = [str(kind) for kind in relation.types]
    if not TEXT_ONLY & set(kinds):
        return relation
    texts = [
        f"cast(#{place} as varchar)" if kind in TEXT_ONLY else f"#{place}"
        for place, kind in enumerate(kinds, start=1)
    ]
    return relation.project(", ".join(texts))


def _numbered(names: list[str]) -> list[str]:
    taken, found = set(names), []
    seen: set[str] = set()
    for name in names:
        chosen, number = name, 0
        while chosen in seen or (number and chosen in taken):
            number += 1
            chosen = f"{name}_{number}"
        seen.add(chosen)
        found.append(chosen)
    return found


def explained(result: Result, form: QueryPlan) -> Result:
    """The plan of an EXPLAIN, without the files that DuckDB lists: one line per row, or one row of JSON."""
    import pyarrow as pa

    plan = without_files(json.loads(result.rows[0][1]))
    lines = draw_plan(plan) if form is QueryPlan.TEXT else [json.dumps(plan, indent=2)]
    return Result.of_table(pa.table({"plan": list(lines)}), result.sql)


# The columns that say what a run is.
RUN_COLUMNS = (
    "name", "run_id", "model", "parallelism", "batch_size", "prompt_tokens", "output_tokens", "device_kind",
    "device_count", "status", "captured_at",
)  # fmt: skip


class RunList(list[NamedRow]):
    """Rows of `runs`."""

    def _repr_html_(self) -> str:
        """The columns that say what a run is, in a box that scrolls."""
        if not self:
            return "<p>no runs</p>"
        columns = [name for name in RUN_COLUMNS if name in self[0]]
        return draw_html(columns, [[row[name] for name in columns] for row in self])
