"""Splits the time of each step among its ops, so that ops, and any groups of them, add up to the step."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.spans import KeyedSpans, filled, starts_of_runs
from xlahouse.ingest.tables.busy import RULES
from xlahouse.ingest.tables.device_steps import CLASSES, SplitSteps
from xlahouse.ingest.tables.placed_ops import PlacedOps
from xlahouse.ingest.tables.stretches import DEVICE_STEP

OUTSIDE = -1  # of an op without a step's window: its time is in no step


def attributed_times(ops: PlacedOps, transfers: pl.DataFrame, split: SplitSteps) -> Integers:
    """The time of its step that belongs to each op; OUTSIDE for one without a step.

    An instant belongs to the first class that applies, as in device_steps, and in equal parts to the
    class's ops that then run; a remainder of picoseconds goes to the one that started first. The time
    in flight of an async collective is its start op's, and its done op has none. Control ops have
    none, nor does the line that shows async copies in flight a second time.

    Args:
        ops: of some devices.
        transfers: their collectives, as find_transfers gives them.
        split: their steps.
    """
    line = _Line.of(ops, split.windows)
    took = np.where(line.window < split.windows.height, 0, OUTSIDE)
    on_core = ops.of_kinds(~pl.col("on_async_line"))
    duration = _claimed(ops, transfers)
    before: KeyedSpans | None = None
    for name in CLASSES:
        rows = np.flatnonzero(on_core & ops.of_kinds(RULES[name]) & (duration > 0))
        start = ops.start_ps.take(rows)
        begin, end = line.between(rows, start, start + duration.take(rows))
        if before is not None:
            free = _Free.of(line, before)
            begin, end = free.at(begin), free.at(end)
        left = np.flatnonzero(end > begin)
        took[rows.take(left)] = shares(begin.take(left), end.take(left))
        before = split.unions[name]
    return took


def _claimed(ops: PlacedOps, transfers: pl.DataFrame) -> Integers:
    """How long each op may claim time from its start on: its duration, or its time in flight."""
    pairs = transfers.filter(pl.col("is_async")) if transfers.height else transfers
    if pairs.is_empty():
        return ops.duration_ps
    claimed = ops.duration_ps.copy()
    start, done, flight = (pairs[name].to_numpy() for name in ("row", "done_row", "duration_ps"))
    claimed[start] = np.maximum(claimed[start], flight)
    claimed[done] = 0
    return claimed


class _Line(NamedTuple):
    """All windows laid one after the other: times in different steps and devices are apart on it."""

    window: Integers  # row of the window of each op; the last row, an empty window, for none
    open_ps: Integers  # of each window
    close_ps: Integers
    moved_ps: Integers  # what is added to a time in the window to make it a place on the line

    @classmethod
    def of(cls, ops: PlacedOps, windows: pl.DataFrame) -> _Line:
        """The line, with the window of each op."""
        first = starts_of_runs(ops.device_id, ops.launch)
        step = ops.launches.select("request", "step")[ops.launch.take(first)]
        key = pl.DataFrame({"device_id": ops.device_id.take(first)}).hstack(step)
        number = windows.select(*DEVICE_STEP, "number")
        runs = key.join(
            number, on=DEVICE_STEP, how="left", nulls_equal=True, maintain_order="left"
        )["number"]
        window = filled(runs.cast(pl.Int64), windows.height)
        opens, closes = (windows[name].to_numpy() for name in ("start_ps", "end_ps"))
        place = np.concatenate(([0], np.cumsum(closes - opens)))
        opens, closes = np.append(opens, 0), np.append(closes, 0)
        counts = np.diff(first, append=len(ops.launch))
        return cls(np.repeat(window, counts), opens, closes, place - opens)

    def between(self, rows: Integers, start: Integers, end: Integers) -> tuple[Integers, Integers]:
        """The places of the parts of ops in their windows; without a part, the end is not later."""
        window = self.window.take(rows)
        moved = self.moved_ps.take(window)
        begin = np.maximum(start, self.open_ps.take(window)) + moved
        return begin, np.minimum(end, self.close_ps.take(window)) + moved


class _Free(NamedTuple):
    """A line without the spans that are taken: places on it count free time only."""

    starts: Integers  # of the taken spans, ascending
    ends: Integers
    taken: Integers  # time in the spans before each

    @classmethod
    def of(cls, line: _Line, spans: KeyedSpans) -> _Free:
        """The line without merged spans, by number of the window and start."""
        starts = spans.start_ps + line.moved_ps.take(spans.key)
        taken = np.concatenate(([0], np.cumsum(spans.duration_ps)))
        return cls(starts, starts + spans.duration_ps, taken)

    def at(self, places: Integers) -> Integers:
        """The free time before each place."""
        if not len(self.starts):
            return places
        after = np.searchsorted(self.starts, places, side="right")
        over = np.maximum(self.ends.take(np.maximum(after - 1, 0)) - places, 0)
        free: Integers = places - self.taken.take(after) + np.where(after > 0, over, 0)
        return free


def shares(start: Integers, end: Integers) -> Integers:
    """How much of the intervals' union belongs to each: an instant in equal parts to those it is in.

    Args:
        start: of each interval, ascending.
        end: of each, later than its start.
    """
    took = end - start
    apart = start[1:] >= np.maximum.accumulate(end)[:-1]
    if apart.all():
        return took
    alone = np.concatenate(([True], apart)) & np.concatenate((apart, [True]))
    rows = np.flatnonzero(~alone)
    took[rows] = _split_evenly(start.take(rows), end.take(rows))
    return took


def _split_evenly(start: Integers, end: Integers) -> Integers:
    """As shares, of intervals that overlap; a remainder goes to the one that started first."""
    bounds = np.unique(np.concatenate((start, end)))
    first, last = np.searchsorted(bounds, start), np.searchsorted(bounds, end)
    changes = np.bincount(first, minlength=len(bounds)) - np.bincount(last, minlength=len(bounds))
    each, rest = np.divmod(np.diff(bounds), np.maximum(np.cumsum(changes)[:-1], 1))
    until = np.concatenate(([0], np.cumsum(each)))
    took: Integers = until.take(last) - until.take(first)
    pieces = np.flatnonzero(rest)
    earliest = np.searchsorted(np.maximum.accumulate(end), bounds.take(pieces), side="right")
    np.add.at(took, earliest, rest.take(pieces))
    return took
