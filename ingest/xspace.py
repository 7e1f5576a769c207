"""Decodes an XSpace into columns: a plane at a time, and of a plane the lines that are asked for."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import Any

import polars as pl

from xlahouse.capture.errors import TraceFormatError
from xlahouse.ingest import wire
from xlahouse.ingest.decode import decode
from xlahouse.ingest.stats import VALUES, Stats, stats_of, text
from xlahouse.ingest.wire import ABSOLUTE_NS, SpaceBytes

_TOGETHER = 1 << 20  # bytes of lines that are decoded at once


@dataclass(frozen=True)
class Plane:
    """A plane; its events are decoded when they are asked for. Times are ps since the profile's start.

    lines: line (position), name, timestamp_ns. metadata: metadata_id, name, display_name. stat_names:
    stat_id, name. payloads: the serialized lines, in the order of `lines`. start_ns: the profile's start,
    UNIX ns, from which lines whose times are UNIX time are counted.
    """

    name: str
    lines: pl.DataFrame
    metadata: pl.DataFrame
    metadata_stats: Stats
    plane_stats: Stats
    stat_names: pl.DataFrame
    payloads: list[memoryview]
    start_ns: int

    @property
    def is_empty(self) -> bool:
        """Whether no line has an event; nothing is decoded to find out."""
        return not any(wire.has_events(line) for line in self.payloads)

    def only(self, names: Container[str], invert: bool = False) -> Plane:
        """The plane with those lines alone whose names are (or, inverted, are not) among `names`."""
        kept = [(name in names) is not invert for name in self.lines["name"]]
        lines = self.lines.filter(pl.Series(kept, dtype=pl.Boolean))
        return replace(self, lines=lines, payloads=list(compress(self.payloads, kept)))

    @cached_property
    def _rows(self) -> pl.DataFrame:
        """event, line, timestamp_ns, and the fields of XEvent."""
        raw = pl.DataFrame(pl.from_arrow(decode("XLine", [bytes(line) for line in self.payloads])))
        lines = raw.select(
            "events", line=self.lines["line"], timestamp_ns=self.lines["timestamp_ns"]
        )
        rows = lines.explode("events").drop_nulls("events").unnest("events")
        return rows.with_row_index("event")

    @cached_property
    def events(self) -> pl.DataFrame:
        """event (row number in file order), line, metadata_id, start_ps, duration_ps."""
        return self._rows.select(
            "event",
            "line",
            "metadata_id",
            start_ps=_relative(pl.col("timestamp_ns"), self.start_ns) * 1000 + pl.col("offset_ps"),
            duration_ps="duration_ps",
        )

    @cached_property
    def event_stats(self) -> Stats:
        """Stats of the events, by event."""
        return stats_of(self._rows.select(owner="event", stats="stats"), self.stat_names)

    @cached_property
    def named_events(self) -> pl.DataFrame:
        """Events with their line's name as `thread`, and their own `name` and `display_name`."""
        return self.events.join(
            self.lines.select("line", thread="name"), on="line", how="left", maintain_order="left"
        ).join(self.metadata, on="metadata_id", how="left", maintain_order="left")

    def stat(self, name: str) -> Any:
        """A stat of the plane itself, as Python value; None where it is absent."""
        rows = self.plane_stats.frame.filter(pl.col("name") == name)
        if rows.is_empty():
            return None
        row = rows.row(0, named=True)
        values = (row["ref_text"], *(row[value] for value in VALUES[:5]))
        return next((value for value in values if value is not None), None)


def decode_planes(
    space: SpaceBytes, path: str, start_ns: int = 0
) -> Iterator[Plane | TraceFormatError]:
    """Decode planes one by one; a damaged plane comes as the error that says so.

    Args:
        space: the file.
        path: its name, for errors.
        start_ns: the profile's start, UNIX ns; lines whose times are UNIX time are counted from it.
    """
    return (decode_plane_or_error(payload, path, start_ns) for payload in space.planes)


def decode_plane_or_error(
    payload: memoryview, path: str, start_ns: int = 0
) -> Plane | TraceFormatError:
    """Decode a serialized plane, but for its events; or the error that says that it is damaged."""
    try:
        return decode_plane(payload, start_ns)
    except Exception as error:  # damage can have any shape
        return TraceFormatError(path, f"a plane is damaged and left out: {error}")


def decode_plane(
    payload: memoryview, start_ns: int = 0, known_lines: pl.DataFrame | None = None
) -> Plane:
    """Decode a serialized plane, but for its events.

    Args:
        payload: the plane.
        start_ns: the profile's start, UNIX ns.
        known_lines: its `lines`, where it was decoded before: to find them takes going through its events.

    Raises:
        Exception: it is damaged, in whichever way.
    """
    lines, rest = wire.split_plane(payload)
    row = pl.DataFrame(pl.from_arrow(decode("XPlane", [rest])))
    names = (
        row.select(pl.col("stat_metadata").explode().struct.unnest())
        .select(stat_id="key", name=text(pl.col("value").struct.field("name")))
        .unique("stat_id", keep="last")
    )
    metadata = (
        row.select(pl.col("event_metadata").explode().struct.unnest())
        .drop_nulls("key")
        .select("key", pl.col("value").struct.unnest())
        .unique("key", keep="last", maintain_order=True)
    )
    return Plane(
        name=row["name"][0].decode("utf-8", "replace"),
        lines=_lines(lines) if known_lines is None else known_lines,
        metadata=metadata.select(
            metadata_id="key", name=text(pl.col("name")), display_name=text(pl.col("display_name"))
        ),
        metadata_stats=stats_of(metadata.select(owner="key", stats="stats"), names),
        plane_stats=stats_of(row.select(owner=pl.lit(0), stats="stats"), names),
        stat_names=names,
        payloads=lines,
        start_ns=start_ns,
    )


def _lines(payloads: list[memoryview]) -> pl.DataFrame:
    heads = pl.concat([_heads(some) for some in _small_together(payloads)])
    shown = pl.when(pl.col("display_name").bin.size() > 0).then("display_name").otherwise("name")
    return heads.with_row_index("line").select("line", "timestamp_ns", name=text(shown))


def _heads(payloads: list[memoryview]) -> pl.DataFrame:
    return pl.DataFrame(pl.from_arrow(decode("XLineHead", [bytes(line) for line in payloads])))


def _small_together(payloads: list[memoryview]) -> Iterator[list[memoryview]]:
    """Lines in order, of which the decoder gets copies: large ones one by one."""
    some: list[memoryview] = []
    held = 0
    for line in payloads:
        if some and held + len(line) > _TOGETHER:
            yield some
            some, held = [], 0
        some.append(line)
        held += len(line)
    yield some


def _relative(timestamp_ns: pl.Expr, start_ns: int) -> pl.Expr:
    """A line's time since the profile's start; NULL where no number can hold it in ps."""
    absolute = timestamp_ns >= ABSOLUTE_NS
    since = pl.when(absolute).then(timestamp_ns - start_ns).otherwise(timestamp_ns)
    return pl.when(since.is_between(-ABSOLUTE_NS, ABSOLUTE_NS)).then(since)
