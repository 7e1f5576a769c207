"""Decodes events as arrays and leaves their stats, few of which are ever read, as bytes.

Most events of a device are ops, and an op's facts are at its kind, not at its events: the
stats of events are most of a trace's bytes, and mostly a second clock's times.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from xlahouse.ingest.events import frames
from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.arrow_arrays import bytes_at
from xlahouse.ingest.xplane.decode import decode, numbers
from xlahouse.ingest.xplane.stats import STATS, Stats
from xlahouse.ingest.xplane.wire import ABSOLUTE_NS
from xlahouse.ingest.xplane.xspace import Plane, small_together

_ID_TAG = 1 << 3  # XStat.metadata_id, a varint
UNREADABLE = -1  # a stat whose id is not first in its bytes


@dataclass(frozen=True)
class CoreEvents:
    """Events of a plane's lines, in file order."""

    line: Integers  # position in Plane.lines
    metadata_id: Integers  # kind of each event
    start_ps: Integers  # since the profile's start; -1: absent, or too large for a number
    duration_ps: Integers  # of each event
    stats: pa.BinaryArray  # stats of all events, serialized
    stat_ends: Integers  # where each event's stats end among them

    def stats_of_ids(self, wanted: Integers) -> tuple[list[bytes], Integers]:
        """(serialized stats of these ids, or whose id is not first in them; their events' places)."""
        rows = stats_of_ids(self.stats, wanted)
        return bytes_at(self.stats, rows), np.searchsorted(self.stat_ends, rows, side="right")


@dataclass(frozen=True)
class SlimEvents:
    """The same without the stats that no reader asked for."""

    line: Integers  # position in Plane.lines
    metadata_id: Integers  # kind of each event
    start_ps: Integers  # as of CoreEvents
    duration_ps: Integers  # of each event
    stats: Stats  # the owner is an event's place


def decode_core(plane: Plane) -> CoreEvents:
    """Events of all lines of a plane.

    Raises:
        DecodeError: a line is damaged.
    """
    batch = decode("XLineCore", plane.payloads)
    events = batch.column("events")
    counts = np.diff(numbers(events.offsets))
    line = np.repeat(plane.lines["line"].to_numpy().astype(np.int64), counts)
    stamps = plane.lines["timestamp_ns"].to_numpy()
    fields = events.values
    stats = fields.field("stats")
    since = np.where(stamps >= ABSOLUTE_NS, stamps - plane.start_ns, stamps)
    held = np.repeat(np.abs(since) <= ABSOLUTE_NS, counts)
    offset = numbers(fields.field("offset_ps"))
    held[_aggregated(plane, counts, offset)] = False
    start = np.repeat(since, counts) * 1000 + offset
    return CoreEvents(
        line=line,
        metadata_id=numbers(fields.field("metadata_id")),
        start_ps=np.where(held, start, -1),
        duration_ps=numbers(fields.field("duration_ps")),
        stats=stats.values,
        stat_ends=numbers(stats.offsets)[1:],
    )


def _aggregated(plane: Plane, counts: Integers, offset: Integers) -> Integers:
    """Places of events that stand for several of their kind and have no time of their own.

    Args:
        plane: the plane.
        counts: events of each of its lines.
        offset: of all of them, 0 for an event without; few have it, so only their lines are decoded again.
    """
    absent = np.flatnonzero(offset == 0)
    if not len(absent):
        return absent
    ends = np.cumsum(counts)
    of_line = np.unique(np.searchsorted(ends, absent, side="right"))
    lines = decode("XLineOften", [plane.payloads[number] for number in of_line])
    often = numbers(lines.column("events").values.field("num_occurrences"))
    places = np.concatenate([np.arange(ends[n] - counts[n], ends[n]) for n in of_line])
    found: Integers = places[(often > 0) & (offset[places] == 0)]
    return found


def decode_by_line(plane: Plane, names: Collection[str]) -> SlimEvents:
    """Events of all lines of a plane, a large line at a time: a line's stats are much of a plane's memory,
    and go before the next line is decoded.

    Args:
        plane: the plane.
        names: of their stats, which are kept.

    Raises:
        DecodeError: a line is damaged.
    """
    wanted = np.array([n for n, name in plane.stat_names.iter_rows() if name in names], np.int64)
    parts, stats, owners, before = [_no_events()], [], [np.zeros(0, np.int64)], 0
    for some in small_together(plane.payloads):
        part = replace(plane, lines=plane.lines[some], payloads=plane.payloads[some])
        core = decode_core(part)
        found, places = core.stats_of_ids(wanted)
        stats += found
        owners.append(places + before)
        before += len(core.line)
        parts.append((core.line, core.metadata_id, core.start_ps, core.duration_ps))
    kept = frames.empty(STATS)
    if stats:
        rows = pl.DataFrame(pl.from_arrow(decode("XStat", stats)))
        kept = rows.hstack([pl.Series("owner", np.concatenate(owners), pl.Int64)])
    line, metadata_id, start, duration = (np.concatenate(each) for each in zip(*parts, strict=True))
    return SlimEvents(line, metadata_id, start, duration, Stats(kept, plane.stat_names))


def _no_events() -> tuple[Integers, Integers, Integers, Integers]:
    nothing = np.zeros(0, np.int64)
    return nothing, nothing, nothing, nothing


def stats_of_ids(stats: pa.BinaryArray, wanted: Integers) -> Integers:
    """Places of the stats whose metadata_id is wanted, or is not first in them.

    Args:
        stats: serialized XStats, an Arrow binary array.
        wanted: the ids.
    """
    _, offsets, data = stats.buffers()
    if not len(stats) or data is None:
        return np.zeros(0, np.int64)
    kind = np.int64 if pa.types.is_large_binary(stats.type) else np.int32
    bounds = np.frombuffer(offsets, kind)[stats.offset : stats.offset + len(stats) + 1]
    raw = np.frombuffer(data, np.uint8)
    if int(np.diff(bounds).min()) > 1:  # long enough for a tag and an id
        tags, first = raw[bounds[:-1]], raw[bounds[:-1] + 1]
        counts = np.bincount(first, minlength=256)
        one_byte = (tags == _ID_TAG).all() and not counts[0x80:].any()
        if one_byte and not counts[wanted[(wanted >= 0) & (wanted < 0x80)]].any():
            return np.zeros(0, np.int64)
    found = _stat_ids(raw, bounds.astype(np.int64))
    return np.flatnonzero(np.isin(found, wanted) | (found == UNREADABLE))


def _stat_ids(raw: NDArray[np.uint8], bounds: Integers) -> Integers:
    """metadata_id of serialized XStats, UNREADABLE where it is not first (or is 0)."""
    at, ends = bounds[:-1], bounds[1:]
    last = len(raw) - 1
    found = raw[np.minimum(at + 1, last)].astype(np.int64)
    good = (ends - at > 1) & (raw[np.minimum(at, last)] == _ID_TAG)
    wide = good & (found >= 0x80)
    if wide.any():  # a second byte; ids beyond two are left to the decoder
        second = raw[np.minimum(at + 2, last)].astype(np.int64)
        good &= ~wide | ((ends - at > 2) & (second < 0x80))
        found = np.where(wide, (found & 0x7F) | (second << 7), found)
    return np.where(good, found, UNREADABLE)
