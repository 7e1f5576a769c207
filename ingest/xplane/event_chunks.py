"""Events of a plane some lines at a time: all events as arrays, chosen ones as frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.arrow_arrays import bytes_at
from xlahouse.ingest.events.frames import LATEST_PS, Dtype, no_row
from xlahouse.ingest.xplane.core_events import CoreEvents
from xlahouse.ingest.xplane.decode import decode
from xlahouse.ingest.xplane.decoded_lines import DecodedLines, decoded_lines
from xlahouse.ingest.xplane.stat_bytes import (
    MOST_IDS,
    ODD,
    REFERENCE,
    SIGNED,
    UNSIGNED,
    StatBytes,
    read_stats,
)
from xlahouse.ingest.xplane.stats import Stats
from xlahouse.ingest.xplane.xspace import Plane

Mask = NDArray[np.bool_]
Numbers: TypeAlias = NDArray[np.int64] | NDArray[np.uint64]


@dataclass(frozen=True)
class EventChunk:
    """Events of some lines of a plane, in file order."""

    plane: Plane  # with these lines alone
    first: int  # number of the first event in the plane
    core: CoreEvents  # times, and stats as bytes
    metadata: pl.DataFrame  # of the whole plane, by id

    @cached_property
    def stats(self) -> StatBytes:
        """Their stats."""
        return read_stats(self.core.stats)

    @cached_property
    def owners(self) -> Integers:
        """Of each stat its event's place in the chunk."""
        counts = np.diff(self.core.stat_ends, prepend=0)
        return np.repeat(np.arange(len(counts)), counts)

    @cached_property
    def in_time(self) -> Mask:
        """Whether both times of an event are possible."""
        core = self.core
        return _possible(core.start_ps) & _possible(core.duration_ps)

    @cached_property
    def place(self) -> Integers:
        """Row of each event's metadata; one beyond the last where the plane lacks it."""
        return places_of(self.core.metadata_id, self.metadata["metadata_id"].to_numpy())

    def check_stats(self) -> None:
        """Read the stats that only the decoder can read.

        Raises:
            DecodeError: one of them is damaged.
        """
        self.stats_at(self._odd)

    def of_kinds(self, chosen: Mask) -> Mask:
        """Events in time whose kind is chosen. chosen: as kinds_where gives it."""
        found: Mask = chosen[self.place] & self.in_time
        return found

    def frame(self, rows: Integers) -> pl.DataFrame:
        """Chosen events: owner (place in the chunk), event (number in the plane), line, thread, name,
        start_ps, duration_ps."""
        core, lines = self.core, self.plane.lines
        line = core.line[rows]
        names = pl.concat([self.metadata, no_row(self.metadata)])["name"]
        return pl.DataFrame(
            {
                "owner": rows,
                "event": rows + self.first,
                "line": line,
                "thread": lines["name"].gather(np.searchsorted(lines["line"].to_numpy(), line)),
                "name": names.gather(self.place[rows]),
                "start_ps": core.start_ps[rows],
                "duration_ps": core.duration_ps[rows],
            }
        )

    def integers(self, name: str, dtype: Dtype = pl.Int64) -> tuple[Integers, Numbers]:
        """(places of the events that have a numeric stat of this name; its value on each, the first if it
        repeats). dtype: Int64 or UInt64."""
        stats, found = self.stats, self._stats_named(name)
        kinds = stats.kinds[found]
        number = (kinds == SIGNED) | (kinds == UNSIGNED)
        values = stats.integers(found[number])
        wrapped = dtype == pl.Int64 and ((values < 0) & (kinds[number] == UNSIGNED)).any()
        if wrapped or not number.all():
            frame = self.stats_at(found).numbers(name, dtype).drop_nulls()
            return frame["owner"].to_numpy(), frame[name].to_numpy()
        owners = self.owners[found]
        first = np.diff(owners, prepend=-1) != 0
        return owners[first], values[first].view(np.uint64 if dtype == pl.UInt64 else np.int64)

    def links(self, name: str) -> tuple[Integers, Integers]:
        """The same for ids that link events: any 64 bits, written as signed or unsigned numbers, which
        are two readings of the same bits; signed here."""
        rows, ids = self.integers(name, pl.UInt64)
        return rows, ids.view(np.int64)

    def texts(self, name: str) -> tuple[Integers, pl.Series]:
        """(places of the events that have a text of this name, itself or by reference; the text of each,
        the first if it repeats)."""
        stats, found = self.stats, self._stats_named(name)
        if not (stats.kinds[found] == REFERENCE).all():
            frame = self.stats_at(found).texts(name).drop_nulls()
            return frame["owner"].to_numpy(), frame[name]
        owners = self.owners[found]
        first = np.diff(owners, prepend=-1) != 0
        ids, texts = self._texts_by_id
        place = places_of(stats.integers(found[first]), ids)
        known = place < len(ids)
        return owners[first][known], texts.gather(place[known])

    def stats_at(self, places: Integers) -> Stats:
        """Chosen stats, by event's place in the chunk, as the decoder gives them."""
        batch = decode("XStat", bytes_at(self.core.stats, places))
        frame = pl.DataFrame(pl.from_arrow(batch))
        rows = frame.with_columns(owner=pl.Series(self.owners[places]))
        return Stats(rows, self.plane.stat_names)

    @cached_property
    def _counts(self) -> Integers:
        """Number of stats of each id, so that a name without stats costs no search."""
        return np.bincount(self.stats.ids, minlength=1)

    @cached_property
    def _odd(self) -> Integers:
        return np.flatnonzero(self.stats.kinds == ODD)

    @cached_property
    def _texts_by_id(self) -> tuple[Integers, pl.Series]:
        """(ids, ascending; the text that a reference to each stands for)."""
        names = self.plane.stat_names.sort("stat_id")
        return names["stat_id"].to_numpy(), names["name"]

    @cached_property
    def _ids_of_name(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number, name in self.plane.stat_names.select("stat_id", "name").iter_rows():
            if 0 <= number < MOST_IDS:
                found.setdefault(name, []).append(number)
        return found

    def _stats_named(self, name: str) -> Integers:
        """Places of the stats of a name, and of the odd ones, which may have any name."""
        ids, counts = self.stats.ids, self._counts
        numbers = [n for n in self._ids_of_name.get(name, ()) if n < len(counts) and counts[n]]
        if len(numbers) == 1 and not len(self._odd):
            return np.flatnonzero(ids == numbers[0])
        parts = [np.flatnonzero(ids == number) for number in numbers]
        return np.unique(np.concatenate([self._odd, *parts]))


def kinds_where(plane: Plane, chosen: pl.Expr) -> Mask:
    """Which kinds of events an expression over Plane.metadata is true for, in the order of their ids.

    The last is False, for kinds that the plane lacks.
    """
    ordered = plane.kinds
    mask: Mask = np.append(ordered.select(chosen.fill_null(False)).to_series().to_numpy(), False)
    return mask


def chunks(
    plane: Plane, keep: DecodedLines | None = None, known: DecodedLines | None = None
) -> Iterator[EventChunk]:
    """All events of a plane, line after line; lines are decoded while those before them are used.

    Args:
        plane: the plane.
        keep: receives large lines once they are decoded; None: keep none.
        known: decoded lines; each is removed as it is returned.

    Raises:
        DecodeError: a line is damaged.
    """
    metadata = plane.kinds
    first = 0
    for part, cores in decoded_lines(plane, keep, known):
        for core in cores:
            yield EventChunk(part, first, core, metadata)
            first += len(core.line)


def places_of(wanted: Integers | NDArray[np.int32], ids: Integers) -> Integers:
    """Place of each wanted id among different ones, ascending; one beyond the last where it is absent."""
    size = len(ids)
    if size and ids[0] >= 0 and ids[-1] < 4 * size + (1 << 16):  # as profilers number them
        table: Integers = np.full(int(ids[-1]) + 2, size)
        table[ids] = np.arange(size)
        if len(wanted) and wanted.min() < 0:
            wanted = np.where(wanted < 0, ids[-1] + 1, wanted)
        found: Integers = table.take(wanted, mode="clip")
        return found
    place = np.searchsorted(ids, wanted)
    known = place < size
    known[known] = ids[place[known]] == wanted[known]
    return np.where(known, place, size)


def _possible(times: Integers) -> Mask:
    return (times >= 0) & (times <= LATEST_PS)
