"""Counts the events of each line of a plane, so that coverage is known before they are written."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.frames import bad_time_issues, counted_coverage
from xlahouse.ingest.events.issues import Issue
from xlahouse.ingest.xplane.event_chunks import EventChunk
from xlahouse.ingest.xplane.xspace import Plane


@dataclass
class LineCounts:
    """How many events of each line of a plane have possible times, and how many do not."""

    plane: Plane  # whose lines they are
    kept: Integers  # of each line, events with possible times
    refused: Integers  # of each line, events with impossible times

    @classmethod
    def of(cls, plane: Plane) -> LineCounts:
        """Of a plane, before its events are counted."""
        size = int(plane.lines["line"].max() or 0) + 1  # type: ignore[arg-type]
        return cls(plane, *(np.zeros(size, np.int64) for _ in range(2)))

    def add(self, chunk: EventChunk) -> None:
        """Count the events of some lines."""
        line, good = chunk.core.line, chunk.in_time
        self.kept += np.bincount(line[good], minlength=len(self.kept))
        self.refused += np.bincount(line[~good], minlength=len(self.refused))

    @property
    def firsts(self) -> Integers:
        """Number of each line's first event in the plane."""
        count = self.kept + self.refused
        firsts: Integers = np.cumsum(count) - count
        return firsts

    def coverage(self, source: str, kept: dict[str, Integers]) -> pl.DataFrame:
        """Coverage of the plane. kept: table -> how many events of each line became rows of it."""
        counts = [
            (name, table, number)
            for table, count in [*kept.items(), (None, self.refused)]
            for name, number in self.by_name(count).items()
        ]
        return counted_coverage(source, self.plane.name, counts)

    def by_name(self, count: Integers) -> dict[str, int]:
        """Name of a line -> count; lines with 0 are left out. count: of each line."""
        found: dict[str, int] = {}
        for line, name in self.plane.lines.select("line", "name").rows():
            if count[line]:
                found[name] = found.get(name, 0) + int(count[line])
        return found

    def issues(self, source: str) -> list[Issue]:
        """The finding about the refused events."""
        return bad_time_issues(int(self.refused.sum()), source)
