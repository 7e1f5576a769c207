"""The description of a table: its columns, their types in Arrow, and how its files are sorted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict

if TYPE_CHECKING:
    import pyarrow as pa

RunRow: TypeAlias = dict[str, Any]  # a row of `runs` by column, as Arrow gives it


class FileEntry(TypedDict):
    """An entry of the column `files` of `runs`."""

    table: str  # name of the table
    path: str  # relative to the warehouse
    rows: int  # number of its rows


def crcs_of(row: RunRow) -> dict[str, int | None]:
    """Path -> CRC-32 of each of a run's files; None where an older ingest or an object store has it."""
    paths = [file["path"] for file in row.get("files") or ()]
    sums = row.get("file_crcs") or [None] * len(paths)
    return dict(zip(paths, sums, strict=True))


@lru_cache(maxsize=1)
def types() -> dict[str, pa.DataType]:
    """A column's type -> Arrow's. Arrow loads here, or a query's first row would wait for it."""
    import pyarrow as pa

    return {
        "str": pa.string(),
        "bool": pa.bool_(),
        "int": pa.int64(),
        "uint": pa.uint64(),
        "float": pa.float64(),
        "time": pa.timestamp("us", tz="UTC"),
        "ints": pa.list_(pa.int64()),
        "mesh": pa.list_(pa.struct([("axis", pa.string()), ("size", pa.int64())])),
        "source_files": pa.list_(
            pa.struct([("path", pa.string()), ("bytes", pa.int64()), ("sha256", pa.string())])
        ),
        "files": pa.list_(
            pa.struct([("table", pa.string()), ("path", pa.string()), ("rows", pa.int64())])
        ),
    }


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str  # in Parquet and SQL
    type: str  # a key of types()
    meaning: str  # one sentence, with the unit and when it is NULL


@dataclass(frozen=True)
class Table:
    """One table."""

    name: str  # in the warehouse and SQL
    row: str  # meaning of a row
    columns: tuple[Column, ...]  # in the order of the file
    sort: tuple[str, ...] = ()  # columns by which its files are sorted

    @cached_property
    def schema(self) -> pa.Schema:
        """The Arrow schema, the same for an empty, an all-NULL and a full table."""
        import pyarrow as pa

        return pa.schema([(column.name, types()[column.type]) for column in self.columns])


def columns_of(text: str) -> tuple[Column, ...]:
    """Lines of `name type meaning` -> columns."""
    lines = [line.split(None, 2) for line in text.splitlines() if line]
    return tuple(Column(name, kind, meaning) for name, kind, meaning in lines)
