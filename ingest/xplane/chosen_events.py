"""Collects chosen events of a plane, with the few stats that a reader wants, as one frame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.frames import Dtype, lanes, no_row
from xlahouse.ingest.xplane.event_chunks import EventChunk, Mask
from xlahouse.ingest.xplane.xspace import Plane

# places of events in a chunk, and the value of each
Found: TypeAlias = tuple[Integers, NDArray[np.generic] | pl.Series]


@dataclass
class ChosenEvents:
    """Events as they are taken, chunk by chunk."""

    plane: Plane  # whose events they are
    stats: Mapping[str, Dtype]  # column -> dtype of the stats that are wanted
    # of each chunk: event, line, start_ps, duration_ps, place of the kind
    rows: list[tuple[Integers, ...]] = field(default_factory=list)
    # column -> events that have it, and the value of each
    values: dict[str, list[Found]] = field(default_factory=dict)

    def add(self, chunk: EventChunk, chosen: Mask, found: Mapping[str, Found]) -> None:
        """Take events of a chunk.

        Args:
            chunk: the chunk.
            chosen: which of its events.
            found: a column of `stats` -> what EventChunk.integers or texts found.
        """
        core, rows = chunk.core, np.flatnonzero(chosen)
        columns = (core.line, core.start_ps, core.duration_ps, chunk.place)
        self.rows.append((rows + chunk.first, *(column[rows] for column in columns)))
        for column, (owners, values) in found.items():
            kept = np.flatnonzero(chosen[owners])
            if len(kept):
                pair = (owners[kept] + chunk.first, values[kept])
                self.values.setdefault(column, []).append(pair)

    def frame(self) -> pl.DataFrame:
        """event (number in the plane), line, thread, lane, name, display_name, metadata_id, start_ps,
        duration_ps and the stats of all of them, in file order; NULL where an event has none."""
        nothing = (np.zeros(0, np.int64),) * 5
        columns = zip(*(self.rows or [nothing]), strict=True)
        event, line, start, duration, place = map(np.concatenate, columns)
        kinds, lines = self.plane.kinds, self.plane.lines
        at = np.searchsorted(lines["line"].to_numpy(), line)
        times = {
            "event": event,
            "line": line.astype(np.int64),
            "start_ps": start,
            "duration_ps": duration,
        }
        events = pl.concat(
            [pl.DataFrame(times), pl.concat([kinds, no_row(kinds)])[place]], how="horizontal"
        ).with_columns(thread=lines["name"].gather(at), lane=lanes(lines, ["name"]).gather(at))
        stats = [
            self._values(column, dtype, event).alias(column) for column, dtype in self.stats.items()
        ]
        return events.hstack(stats)

    def _values(self, column: str, dtype: Dtype, events: Integers) -> pl.Series:
        """A stat of all of the events, which ascend, NULL where one has none."""
        if column not in self.values:
            return pl.Series([None], dtype=dtype).new_from_index(0, len(events))
        owners, values = zip(*self.values[column], strict=True)
        found = pl.concat([pl.Series(column, value, dtype) for value in values])
        places = np.full(len(events), len(found), np.uint32)  # place of NULL
        places[np.searchsorted(events, np.concatenate(owners))] = np.arange(len(found))
        return pl.concat([found, pl.Series(column, [None], dtype)]).gather(places)
