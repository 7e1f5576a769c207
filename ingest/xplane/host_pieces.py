"""Reads the events of a plane as rows of host_events, some lines at a time and in the table's order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import polars as pl
import pyarrow as pa

from xlahouse.ingest.events import frames
from xlahouse.ingest.events.ahead import made_ahead
from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.arrow_arrays import arrow_array
from xlahouse.ingest.events.op_events import number_keys
from xlahouse.ingest.events.time_move import UNMOVED, TimeMove
from xlahouse.ingest.xplane.decoded_lines import DecodedLines
from xlahouse.ingest.xplane.event_args import ArgsWriter, StatNames
from xlahouse.ingest.xplane.event_chunks import EventChunk, chunks
from xlahouse.ingest.xplane.xspace import Plane

ROWS = 1 << 17  # of a piece, and of a row group
_TEXT = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        ("host", _TEXT),
        ("thread", _TEXT),
        ("name", _TEXT),
        ("start_ps", pa.int64()),
        ("duration_ps", pa.int64()),
        ("args", pa.string()),
    ]
)


@dataclass(frozen=True)
class HostPieces:
    """Events of a plane that are host events, read when they are asked for."""

    plane: Plane  # that holds them
    host: str | None  # of the plane
    prefix: str = ""  # before the name of a line
    # line -> places on it of the events that are rows of other tables
    elsewhere: Mapping[int, Integers] = field(default_factory=dict)
    move: TimeMove = UNMOVED  # from the times that are read
    # lines that need not be decoded; they go as they are read
    decoded: DecodedLines = field(default_factory=dict)

    def moved(self, move: TimeMove) -> HostPieces:
        """The same at other times."""
        return replace(self, move=self.move.then(move))

    def forget_decoded(self) -> None:
        """Free the lines that were decoded ahead; they are decoded again."""
        self.decoded.clear()

    def tables(self) -> Iterator[pa.Table]:
        """Pieces of SCHEMA, at most ROWS long.

        Raises:
            DecodeError: a line is damaged.
        """
        plane = _by_thread(self.plane)
        lines = plane.lines.sort("line")
        reading = _Reading(
            threads=_Texts.of(self.prefix + lines["name"]),
            lines=lines["line"].to_numpy(),
            names=_Texts.of(plane.kinds["name"]),
            stat_names=StatNames.of(plane),
            host=pa.array([self.host], pa.string()),
            move=self.move,
        )
        seen = dict[int, int]()
        chosen = ((chunk, self._rows(chunk, seen)) for chunk in chunks(plane, known=self.decoded))
        for pieces in made_ahead(reading.pieces, chosen):
            yield from pieces

    def frame(self) -> pl.DataFrame:
        """All of them: frames.HOST_EVENTS."""
        pieces = [pl.DataFrame(pl.from_arrow(piece)) for piece in self.tables()]
        return frames.stack(pieces, frames.HOST_EVENTS)

    def _rows(self, chunk: EventChunk, seen: dict[int, int]) -> Integers:
        """Places of the events of a chunk that are host events.

        Args:
            chunk: the chunk.
            seen: line -> number of its events so far; updated.
        """
        kept, line = chunk.in_time.copy(), chunk.core.line
        bounds = [*np.flatnonzero(np.diff(line, prepend=-1)).tolist(), len(line)]
        for begin, end in pairwise(bounds):
            number = int(line[begin])
            if number in self.elsewhere:
                places = self.elsewhere[number] - seen.get(number, 0)
                kept[begin + places[(places >= 0) & (places < end - begin)]] = False
            seen[number] = seen.get(number, 0) + end - begin
        return np.flatnonzero(kept)


@dataclass(frozen=True)
class _Reading:
    """What all pieces of a plane share."""

    threads: _Texts  # names of the lines
    lines: Integers  # their numbers, ascending
    names: _Texts  # of kinds of events, by id
    stat_names: StatNames  # names of stats, by id
    host: pa.StringArray  # name of the host, one value
    move: TimeMove  # from the times that are read

    def pieces(self, chosen: tuple[EventChunk, Integers]) -> list[pa.Table]:
        """Chosen events of a chunk, in the table's order."""
        chunk, rows = chosen
        line = np.searchsorted(self.lines, chunk.core.line[rows])
        start = chunk.core.start_ps[rows]
        order = _order(self.threads.rank[line], start)
        if order is not None:
            rows, line, start = rows[order], line[order], start[order]
        writer = ArgsWriter.of(chunk, self.stat_names)
        return [
            self._piece(writer, *(column[begin : begin + ROWS] for column in (rows, line, start)))
            for begin in range(0, len(rows), ROWS)
        ]

    def _piece(
        self, writer: ArgsWriter, rows: Integers, line: Integers, start: Integers
    ) -> pa.Table:
        chunk = writer.chunk
        columns = [
            _texts(self.host, np.zeros(len(rows), np.int64)),
            self.threads.dictionary(line),
            self.names.dictionary(chunk.place[rows]),
            pa.array(self.move.times(start)),
            pa.array(self.move.durations(start, chunk.core.duration_ps[rows])),
            arrow_array(writer.args(rows), pa.string()),
        ]
        return pa.table(columns, schema=SCHEMA)


@dataclass(frozen=True)
class _Texts:
    """Texts by number."""

    words: pl.Series  # the different texts, sorted
    # of each number its text's place among the words, -1 for none; then -1 for no number
    code: Integers
    rank: Integers  # the same for sorting: none last

    @classmethod
    def of(cls, texts: pl.Series) -> _Texts:
        words = texts.drop_nulls().unique().sort()
        codes = texts.replace_strict(
            words, np.arange(len(words)), default=-1, return_dtype=pl.Int64
        )
        code = np.append(codes.to_numpy(), -1)
        return cls(words, code, np.where(code < 0, len(words), code))

    def dictionary(self, numbers: Integers) -> pa.DictionaryArray:
        """A dictionary array of the texts of these numbers."""
        found, places = number_keys(self.code[numbers] + 1, len(self.words) + 1)
        none = bool(len(found)) and found[0] == 0
        words = self.words.gather(found[int(none) :] - 1)
        return _texts(arrow_array(words, pa.string()), places - int(none))


def _by_thread(plane: Plane) -> Plane:
    """The plane with its lines by name."""
    order = plane.lines["name"].arg_sort()
    return replace(plane, lines=plane.lines[order], payloads=[plane.payloads[n] for n in order])


def _texts(words: pa.Array, places: Integers) -> pa.DictionaryArray:
    """A dictionary array; places below 0 are NULL."""
    absent = places < 0
    return pa.DictionaryArray.from_arrays(
        pa.array(places.astype(np.int32), mask=absent if absent.any() else None), words
    )


def _order(rank: Integers, start_ps: Integers) -> Integers | None:
    """The order by thread and start; None where rows are in it already."""
    step = np.diff(rank)
    if ((step > 0) | ((step == 0) & (np.diff(start_ps) >= 0))).all():
        return None
    return np.lexsort((start_ps, rank))
