"""Decodes an XSpace into columns: a plane at a time, and its events on demand."""

from __future__ import annotations

import math
from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from xlahouse.capture.errors import LimitError, TraceFormatError
from xlahouse.ingest.events.arrow_arrays import series_of
from xlahouse.ingest.events.frames import same
from xlahouse.ingest.events.trace_bytes import TraceBytes
from xlahouse.ingest.xplane import wire
from xlahouse.ingest.xplane.decode import decode, numbers
from xlahouse.ingest.xplane.stats import Stats, StatValue, as_text, of_owners, stats_of
from xlahouse.ingest.xplane.wire import ABSOLUTE_NS, SpaceBytes

_EVENT_FIELDS = ("metadata_id", "offset_ps", "duration_ps", "num_occurrences")
_TOGETHER = 1 << 20  # bytes of lines that are decoded at once
_NO_EVENTS = pl.DataFrame(
    schema={
        "event": pl.Int64,
        "line": pl.UInt32,
        "metadata_id": pl.Int64,
        "start_ps": pl.Int64,
        "duration_ps": pl.Int64,
        "thread": pl.String,
        "name": pl.String,
        "display_name": pl.String,
    }
)


@dataclass(frozen=True)
class Plane:
    """A plane; its events are decoded on demand. Times are ps since the profile's start."""

    name: str  # such as /device:TPU:0
    lines: pl.DataFrame  # line (position), name, timestamp_ns
    metadata: pl.DataFrame  # metadata_id, name, display_name
    kinds: pl.DataFrame  # the same by metadata_id
    metadata_stats: Stats  # of kinds of events, by metadata_id
    plane_stats: Stats  # of the plane itself
    stat_names: pl.DataFrame  # stat_id, name
    payloads: list[TraceBytes]  # the serialized lines, in the order of `lines`
    start_ns: int  # the profile's start, UNIX ns; times of lines in UNIX time are counted from it

    @property
    def is_empty(self) -> bool:
        """Whether no line has an event; nothing is decoded to find out."""
        return not any(wire.has_events(line) for line in self.payloads)

    def only(self, names: Container[str], invert: bool = False) -> Plane:
        """The plane with only the lines whose names are (or, inverted, are not) among `names`."""
        kept = [(name in names) is not invert for name in self.lines["name"].to_list()]
        first = kept.index(True) if any(kept) else 0
        count = sum(kept)
        if all(kept[first : first + count]):  # a slice is not a query
            lines = self.lines.slice(first, count)
        else:
            lines = self.lines[np.flatnonzero(kept)]
        return replace(self, lines=lines, payloads=list(compress(self.payloads, kept)))

    @cached_property
    def _events(self) -> pa.ListArray:
        """The XEvents of each line."""
        return decode("XLine", self.payloads).column("events")

    @cached_property
    def events(self) -> pl.DataFrame:
        """event (number in file order), line, metadata_id, start_ps, duration_ps.

        start_ps is NULL where it is too large, and where the event stands for several of its kind.
        """
        counts = np.diff(self._events.offsets.to_numpy())
        if not counts.any():
            return _NO_EVENTS[["event", "line", "metadata_id", "start_ps", "duration_ps"]]
        fields = self._events.values
        kind, offset, duration, often = (numbers(fields.field(name)) for name in _EVENT_FIELDS)
        since, known = _relative(self.lines["timestamp_ns"].to_numpy(), self.start_ns)
        start = pl.Series("start_ps", np.repeat(since, counts) * 1000 + offset)
        timed = ((offset != 0) | (often <= 0)) & np.repeat(known, counts)
        if not timed.all():
            start = start.zip_with(pl.Series(timed), same("", None, pl.Int64, len(start)))
        return pl.DataFrame(
            [
                pl.Series("event", np.arange(len(kind))),
                pl.Series("line", np.repeat(self.lines["line"].to_numpy(), counts)),
                pl.Series("metadata_id", kind),
                start,
                pl.Series("duration_ps", duration),
            ]
        )

    @cached_property
    def event_stats(self) -> Stats:
        """Stats of the events, by event."""
        stats = self._events.values.field("stats")
        return stats_of(np.arange(len(stats)), stats, self.stat_names)

    @cached_property
    def named_events(self) -> pl.DataFrame:
        """Events with their line's name as `thread`, and their own `name` and `display_name`."""
        if self.events.is_empty():
            return _NO_EVENTS
        place = np.searchsorted(self.lines["line"].to_numpy(), self.events["line"].to_numpy())
        thread = self.lines["name"][pl.Series(place.astype(np.uint32))].alias("thread")
        wanted = self.events["metadata_id"].to_numpy()
        kinds = self.kinds
        words = [of_owners(kinds[["metadata_id", name]], wanted) for name in kinds.columns[1:]]
        return self.events.hstack([thread, *words])

    def text(self, name: str) -> str | None:
        """A stat of the plane itself, as text; None where it is absent."""
        value = self.stat(name)
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        return None if value is None else str(value)

    def stat(self, name: str) -> StatValue:
        """A stat of the plane itself, as a Python value; None where it is absent."""
        return self.plane_stats.value(name)

    def amount(self, name: str) -> float | None:
        """A stat of the plane itself that is a number above 0; None where it is absent or anything else."""
        value = self.stat(name)
        try:
            number = 0.0 if value is None else float(value)
        except ValueError:
            return None
        return number if 0 < number < math.inf else None


def decode_planes(
    space: SpaceBytes, path: str, start_ns: int = 0
) -> Iterator[Plane | TraceFormatError]:
    """Decode planes one by one; a damaged plane is returned as its error.

    Args:
        space: the file.
        path: its name, for errors.
        start_ns: the profile's start, UNIX ns; lines whose times are UNIX time are counted from it.
    """
    return (decode_plane_or_error(payload, path, start_ns) for payload in space.planes)


def decode_plane_or_error(
    payload: TraceBytes, path: str, start_ns: int = 0
) -> Plane | TraceFormatError:
    """Decode a serialized plane, except its events; or the error of a damaged one."""
    try:
        return decode_plane(payload, start_ns)
    except LimitError as error:
        return LimitError(path, f"plane {wire.plane_name(payload)!r}: {error.reason}")
    except Exception as error:  # damage can have any shape
        return TraceFormatError(path, f"a plane is damaged: {error}")


def decode_plane(
    payload: TraceBytes, start_ns: int = 0, known_lines: pl.DataFrame | None = None
) -> Plane:
    """Decode a serialized plane, except its events.

    Args:
        payload: the plane.
        start_ns: the profile's start, UNIX ns.
        known_lines: its `lines`, where it was decoded before: finding them takes a walk over its events.

    Raises:
        Exception: it is damaged, in any way.
    """
    lines, rest = wire.split_plane(payload)
    row = decode("XPlane", [rest])
    stat_ids, of_stats = _entries(row.column("stat_metadata"))
    names = pl.DataFrame({"stat_id": stat_ids, "name": _texts(of_stats["name"])})
    ids, of_events = _entries(row.column("event_metadata"))
    texts = {name: _texts(of_events[name]) for name in ("name", "display_name")}
    metadata = pl.DataFrame({"metadata_id": ids, **texts})
    return Plane(
        name=row.column("name")[0].as_py().decode("utf-8", "replace"),
        lines=_lines(lines) if known_lines is None else known_lines,
        metadata=metadata,
        kinds=metadata if (np.diff(ids) > 0).all() else metadata.sort("metadata_id"),
        metadata_stats=stats_of(ids, of_events["stats"], names),
        plane_stats=stats_of(np.zeros(1, np.int64), row.column("stats"), names),
        stat_names=names,
        payloads=lines,
        start_ns=start_ns,
    )


def _entries(column: pa.ListArray) -> tuple[NDArray[np.int64], dict[str, pa.Array]]:
    """(keys; fields of their values) of a map; where a key repeats, its last value counts."""
    entries = column.values
    keys = entries.field("key").to_numpy()
    distinct, from_end = np.unique(keys[::-1], return_index=True)
    if len(distinct) < len(keys):  # only then, since `take` loads all of Arrow's functions
        entries = entries.take(pa.array(np.sort(len(keys) - 1 - from_end)))
        keys = entries.field("key").to_numpy()
    values = entries.field("value")
    names = [field.name for field in values.type]
    return keys, dict(zip(names, values.flatten(), strict=True))


def _texts(raw: pa.Array) -> pl.Series:
    return as_text(series_of(raw))


def _lines(payloads: list[TraceBytes]) -> pl.DataFrame:
    heads = pl.concat([_heads(payloads[some]) for some in small_together(payloads)])
    names = zip(heads["display_name"].to_list(), heads["name"].to_list(), strict=True)
    shown = pl.Series("name", [display or name for display, name in names], pl.Binary)
    found = pl.DataFrame([heads["timestamp_ns"], as_text(shown).alias("name")])
    return found.with_row_index("line")


def _heads(payloads: list[TraceBytes]) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(decode("XLineHead", payloads)))


def small_together(payloads: list[TraceBytes]) -> Iterator[slice]:
    """Places of lines in order: small ones together, which the decoder gets as a copy, large ones one by
    one."""
    first = held = 0
    for place, line in enumerate(payloads):
        if place > first and held + len(line) > _TOGETHER:
            yield slice(first, place)
            first, held = place, 0
        held += len(line)
    yield slice(first, len(payloads))


def _relative(
    timestamp_ns: NDArray[np.int64], start_ns: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(lines' times since the profile's start; which of them are not too large for a number of ps)."""
    since = np.where(timestamp_ns >= ABSOLUTE_NS, timestamp_ns - start_ns, timestamp_ns)
    return since, (since >= -ABSOLUTE_NS) & (since <= ABSOLUTE_NS)
