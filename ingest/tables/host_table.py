"""Writes host events: events read before, and events read piece by piece while writing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa

from xlahouse.ingest.events import frames
from xlahouse.ingest.events.arrow_arrays import constant
from xlahouse.ingest.events.frames import PlaneEvents
from xlahouse.ingest.events.spans import joined_span, span_of
from xlahouse.ingest.nesting.host_gaps import WantedGaps, joined
from xlahouse.ingest.schema import BY_NAME
from xlahouse.ingest.tables.pieces import TableWriter, pieces_of
from xlahouse.ingest.xplane.host_pieces import SCHEMA

TABLE = BY_NAME["host_events"]
# The table's columns, with the types of pieces.
WHOLE = pa.schema([SCHEMA.field("name").with_name("run_id"), *SCHEMA])


@dataclass(frozen=True)
class WrittenEvents:
    """What is kept of host events once they are written."""

    span: tuple[int, int] | None  # from the first one's start to the last one's end, ps
    in_gaps: pl.DataFrame  # host_gaps.EVENTS


def write_host_events(
    planes: Sequence[PlaneEvents], wanted: Mapping[int, WantedGaps], writer: TableWriter, part: int
) -> WrittenEvents:
    """Write the host events of some planes as one file.

    Args:
        planes: the planes.
        wanted: of each file, the events to keep.
        writer: where to.
        part: number of the file.
    """
    seen = _Seen(wanted)
    writer.write_pieces(TABLE.name, seen.passing(_pieces(planes, writer.run_id, seen)), part)
    return WrittenEvents(seen.span, joined(seen.kept))


@dataclass
class _Seen:
    """Remembers the span of the events that pass, and those that are wanted."""

    wanted: Mapping[int, WantedGaps]  # file -> its wanted events
    kept: list[pl.DataFrame] = field(default_factory=list)  # the wanted events so far
    span: tuple[int, int] | None = None  # from the first one's start to the last one's end, ps

    def passing(self, pieces: Iterator[pa.Table]) -> Iterator[pa.Table]:
        for piece in pieces:
            times = pl.DataFrame(pl.from_arrow(piece.select(["start_ps", "duration_ps"])))
            self.span = joined_span([self.span, span_of(times.drop_nulls())])
            yield piece

    def keep(self, piece: pa.Table, file: int) -> None:
        """Remember the events of a file's piece that are wanted."""
        if file in self.wanted:
            self.kept.append(self.wanted[file].events(piece))


def _pieces(planes: Sequence[PlaneEvents], run_id: str, seen: _Seen) -> Iterator[pa.Table]:
    for plane in planes:
        if plane.file in seen.wanted and not plane.host_events.is_empty():
            seen.keep(plane.host_events.to_arrow(), plane.file)
    read = frames.stack([plane.host_events for plane in planes], frames.HOST_EVENTS)
    later = [(plane.host_pieces, plane.file) for plane in planes if plane.host_pieces is not None]
    if not later:
        yield from pieces_of(read, TABLE, run_id)
        return
    for piece in pieces_of(read, TABLE, run_id):
        yield _as_read_later(piece)
    for pieces, file in later:
        for piece in pieces.tables():
            seen.keep(piece, file)
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
