"""Writes host events: events read before, and events read piece by piece while writing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from xlahouse.ingest.events import frames
from xlahouse.ingest.events.arrow_arrays import constant
from xlahouse.ingest.events.frames import PlaneEvents
from xlahouse.ingest.events.spans import joined_span, span_of
from xlahouse.ingest.schema import BY_NAME
from xlahouse.ingest.tables.pieces import TableWriter, pieces_of
from xlahouse.ingest.xplane.host_pieces import SCHEMA

TABLE = BY_NAME["host_events"]
# The table's columns, with the types of pieces.
WHOLE = pa.schema([SCHEMA.field("name").with_name("run_id"), *SCHEMA])


def write_host_events(
    planes: Sequence[PlaneEvents], writer: TableWriter, part: int
) -> tuple[int, int] | None:
    """Write the host events of some planes as one file.

    Args:
        planes: the planes.
        writer: where to.
        part: number of the file.

    Returns:
        from the first one's start to the last one's end, ps; None where there are none.
    """
    seen = _Seen()
    writer.write_pieces(TABLE.name, seen.passing(_pieces(planes, writer.run_id)), part)
    return seen.span


@dataclass
class _Seen:
    """Remembers the span of the events that pass."""

    span: tuple[int, int] | None = None  # from the first one's start to the last one's end, ps

    def passing(self, pieces: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for piece in pieces:
            times = pl.DataFrame(pl.from_arrow(piece.select(["start_ps", "duration_ps"])))
            self.span = joined_span([self.span, span_of(times.drop_nulls())])
            yield piece


def _pieces(planes: Sequence[PlaneEvents], run_id: str) -> Iterator[pa.Table]:
    read = frames.stack([plane.host_events for plane in planes], frames.HOST_EVENTS)
    later = [plane.host_pieces for plane in planes if plane.host_pieces is not None]
    if not later:
        yield from pieces_of(read, TABLE, run_id)
        return
    for piece in pieces_of(read, TABLE, run_id):
        yield _as_read_later(piece)
    for pieces in later:
        for piece in pieces.tables():
            yield _with_run(piece, run_id)


def _as_read_later(piece: pa.Table) -> pa.Table:
    """A piece with texts as dictionaries, like events that are read piece by piece."""
    plain = piece.cast(TABLE.schema)
    columns = [
        column.dictionary_encode() if field.type != plain.schema.field(field.name).type else column
        for field, column in zip(WHOLE, plain.columns, strict=True)
    ]
    return pa.table(columns, schema=WHOLE)


def _with_run(piece: pa.Table, run_id: str) -> pa.Table:
    """The table's columns, from a piece without run_id."""
    run = constant(run_id, piece.num_rows)
    return piece.append_column("run_id", run).select(WHOLE.names)
