"""What a query gives: rows in whichever form the caller wants, read as they are needed."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from xlahouse.capture.errors import QueryError
from xlahouse.sql.blame import blame

if TYPE_CHECKING:
    import duckdb
    import pandas  # type: ignore[import-untyped]
    import polars
    import pyarrow as pa

BATCH_ROWS = 65_536


class Result:
    """The rows of one query.

    `batches()` streams and can be read once; the other forms keep the rows and can be asked for
    again and again.
    """

    def __init__(
        self,
        relation: duckdb.DuckDBPyRelation,
        sql: str,
        connection: duckdb.DuckDBPyConnection,
    ) -> None:
        self.columns: list[str] = list(relation.columns)
        self._relation, self._sql, self._connection = relation, sql, connection
        self._reader: pa.RecordBatchReader | None = None
        self._table: pa.Table | None = None

    @property
    def types(self) -> list[str]:
        """DuckDB's name of each column's type."""
        return [str(kind) for kind in self._relation.types]

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Arrow batches of at most BATCH_ROWS rows, computed while they are read.

        Raises:
            QueryError: a value is at fault, such as a text that should be a number.
            WarehouseError: a file of the warehouse vanished or is damaged.
        """
        if self._table is not None:
            yield from self._table.to_batches()
            return
        with blame(self._sql):
            yield from self._open()

    @property
    def schema(self) -> pa.Schema:
        """Names and Arrow types; the query starts."""
        return self._open().schema if self._table is None else self._table.schema

    def arrow(self) -> pa.Table:
        """All rows as an Arrow table."""
        if self._table is None:
            with blame(self._sql):
                self._table = self._open().read_all()
        return self._table

    def _open(self) -> pa.RecordBatchReader:
        if self._reader is None:
            with blame(self._sql):
                self._reader = self._relation.to_arrow_reader(BATCH_ROWS)
        return self._reader

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
                "pandas is not installed: pip install pandas, or use .pl()", self._sql
            ) from error
        return self.arrow().to_pandas()

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """All rows as tuples of Python values."""
        columns = [column.to_pylist() for column in self.arrow().columns]
        return [tuple(plain(value) for value in row) for row in zip(*columns, strict=True)]

    def dicts(self) -> list[dict[str, Any]]:
        """All rows as mappings from column to Python value."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


def plain(value: Any) -> Any:
    """DuckDB's sum of BIGINT is a 128-bit number, which Arrow calls a decimal: back to int."""
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    return value
