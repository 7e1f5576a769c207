"""Tables as pieces of Arrow, ready to be written, and the protocol of their writer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

import polars as pl
import pyarrow as pa

from xlahouse.ingest.events.arrow_arrays import arrow_array, constant
from xlahouse.ingest.table import Table

ROW_GROUP = 1 << 17  # rows of a piece, and of a row group of Parquet


class TableWriter(Protocol):
    """Takes the tables of one run, a file at a time; several threads may write at once."""

    @property
    def run_id(self) -> str:
        """The run of the rows."""

    def write(self, table: str, frame: pl.DataFrame, part: int = 0, in_order: bool = False) -> None:
        """Write a frame without run_id as one file of a table, sorted as the table asks."""

    def write_pieces(self, table: str, pieces: Iterable[pa.Table], part: int = 0) -> None:
        """Write pieces with run_id as one file of a table."""

    def take(self, other: TableWriter) -> None:
        """Make the files that a copy of it wrote in another process its own; nothing if it is itself."""


def pieces_of(
    frame: pl.DataFrame, table: Table, run_id: str, in_order: bool = False
) -> Iterator[pa.Table]:
    """Exactly the table's columns, typed as its schema says and sorted as it asks; missing ones NULL."""
    present = set(frame.columns)
    schema = table.schema
    columns = [name for name in table.sort if name in present]
    if not in_order and columns:
        frame = _with_ranks(frame, columns).sort(columns, nulls_last=True)
    for start in range(0, frame.height, ROW_GROUP):
        piece = frame.slice(start, ROW_GROUP)
        given = dict(zip(piece.columns, piece.get_columns(), strict=True))
        arrays = []
        for column in schema:
            if column.name == "run_id":
                arrays.append(constant(run_id, piece.height))
            elif column.name in given:
                arrays.append(arrow_array(given[column.name], column.type))
            else:
                arrays.append(pa.nulls(piece.height, column.type))
        yield pa.table(arrays, names=schema.names)


def _with_ranks(frame: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
    """Cast the texts that a large frame is sorted by to enumerations, which sort and compress quickly."""
    if frame.height < ROW_GROUP:
        return frame
    for name in columns:
        if frame.schema[name] == pl.String:
            words = frame[name].unique().drop_nulls().sort()
            frame = frame.with_columns(pl.col(name).cast(pl.Enum(words)))
    return frame
