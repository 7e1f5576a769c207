"""Finds a device's busy and idle times in each step, once, so that peers' idle times need fewer sorts."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers, Mask
from xlahouse.ingest.events.spans import KeyedSpans, filled, merge_spans, starts_of_runs

DEVICE_STEP = ["device_id", "request", "step"]
_NULL = -(1 << 63)  # an unknown step, in comparisons of steps


class InsideWindows(NamedTuple):
    """The parts of intervals that are in the window of their step, each at least 1 ps long."""

    spans: KeyedSpans  # by number of the step
    interval: Integers  # row of the interval that each is a part of


def inside_windows(steps: pl.DataFrame, intervals: pl.DataFrame) -> InsideWindows:
    """The intervals that reach into the window of their step, in their order.

    Args:
        steps: number, device_id, request, step, start_ps, end_ps.
        intervals: device_id, request, step, start_ps, duration_ps.
    """
    # Intervals of a step are mostly consecutive: the step is looked up once for each run of them.
    first = starts_of_runs(*(filled(intervals[name], _NULL) for name in DEVICE_STEP))
    window = steps.select(*DEVICE_STEP, "number", from_ps="start_ps", to_ps="end_ps")
    runs = intervals.select(DEVICE_STEP)[first].join(
        window, on=DEVICE_STEP, how="left", nulls_equal=True, maintain_order="left"
    )
    number, opens, closes = (
        filled(runs[name].cast(pl.Int64), 0) for name in ("number", "from_ps", "to_ps")
    )
    run = np.repeat(np.arange(len(first)), np.diff(first, append=intervals.height))
    start, duration = (intervals[name].to_numpy() for name in ("start_ps", "duration_ps"))
    # Without a window `closes` is 0: the interval then ends before it starts.
    end = np.minimum(start + duration, closes.take(run))
    start = np.maximum(start, opens.take(run))
    inside = end > start
    if inside.all():
        return InsideWindows(
            KeyedSpans(number.take(run), start, end - start), np.arange(len(start))
        )
    rows = np.flatnonzero(inside)
    start, end, run = (each.take(rows) for each in (start, end, run))
    return InsideWindows(KeyedSpans(number.take(run), start, end - start), rows)


class _Kind(IntEnum):
    """Kinds of points in a window; points at one time are in this order."""

    START = 0  # of the window
    BUSY = 1  # start of a busy stretch
    END = 2  # of the window
    EDGE = 3  # a launch opens or closes


class _Points(NamedTuple):
    """Points of windows, by window, time and kind: columns of one length."""

    window: Integers  # number of the step
    at_ps: Integers  # on the run's clock
    length_ps: Integers  # of the busy stretch that begins here; 0 at other kinds
    kind: Integers  # _Kind
    opened: Integers  # 1 where a launch opens, -1 where one closes, else 0

    def take(self, rows: Integers) -> _Points:
        """The points in these rows."""
        return _Points(*(column.take(rows) for column in self))

    @property
    def begins_gap(self) -> Mask:
        """Whether idle time may begin behind a point: behind a stretch, or a window's start."""
        begins: Mask = self.kind <= _Kind.BUSY
        return begins


class _Gaps(NamedTuple):
    """The idle time that each point ends, and the gap between two stretches that it is a piece of."""

    idle_ps: Integers  # from the point before; 0 where the device is busy until here
    start_ps: Integers  # of the gap
    end_ps: Integers  # of the gap

    def take(self, rows: Integers) -> _Gaps:
        """The gaps in these rows."""
        return _Gaps(*(column.take(rows) for column in self))


def busy_stretches(steps: pl.DataFrame, busy: KeyedSpans, launches: pl.DataFrame) -> pl.DataFrame:
    """The busy_stretches table without run_id, by device and start.

    Args:
        steps: number, device_id, request, step, start_ps, end_ps, in the order of their numbers.
        busy: merged intervals within the windows, by number of the step and start.
        launches: device_id, request, step, start_ps, duration_ps, of these devices.
    """
    points = _points(steps, busy, launches)
    gaps = _gaps(points)
    kept = np.flatnonzero(_is_row(points, gaps))
    is_open = np.cumsum(points.opened) > points.opened  # a launch, since a point before this one
    return _rows(steps, points.take(kept), gaps.take(kept), is_open.take(kept))


def _points(steps: pl.DataFrame, busy: KeyedSpans, launches: pl.DataFrame) -> _Points:
    """Starts and ends of the windows, stretches, and edges of the times with a launch open."""
    windows = steps["number"].to_numpy().astype(np.int64)
    opened = merge_spans(*inside_windows(steps, launches).spans)
    begin, end = (steps[name].to_numpy() for name in ("start_ps", "end_ps"))
    parts = (
        _points_of(_Kind.START, windows, begin),
        _points_of(_Kind.BUSY, busy.key, busy.start_ps)._replace(length_ps=busy.duration_ps),
        _points_of(_Kind.END, windows, end),
        _points_of(_Kind.EDGE, opened.key, opened.start_ps, opened=1),
        _points_of(_Kind.EDGE, opened.key, opened.start_ps + opened.duration_ps, opened=-1),
    )
    points = _Points(*map(np.concatenate, zip(*parts, strict=True)))
    return points.take(np.lexsort((points.kind, points.at_ps, points.window)))


def _points_of(kind: _Kind, window: Integers, at_ps: Integers, opened: int = 0) -> _Points:
    """Points of one kind, without a length."""
    count = len(window)
    return _Points(
        window, at_ps, np.zeros(count, np.int64), np.full(count, kind), np.full(count, opened)
    )


def _gaps(points: _Points) -> _Gaps:
    """Of each point the idle time before it, and the gap around that."""
    place = np.arange(len(points.kind))
    behind = (points.at_ps + points.length_ps).take(
        np.maximum.accumulate(np.where(points.begins_gap, place, 0))
    )
    # Where a gap may begin, the idle time before belongs to the gap of the point before.
    before = np.concatenate(([0], behind[:-1]))
    start = np.where(points.begins_gap, before, behind)
    idle = points.at_ps - np.maximum(start, np.concatenate(([0], points.at_ps[:-1])))
    idle[(points.kind == _Kind.START) | (idle < 0)] = 0
    ends_gap = (points.kind == _Kind.BUSY) | (points.kind == _Kind.END)
    following = np.where(ends_gap, place, len(place) - 1)
    end = points.at_ps.take(np.minimum.accumulate(following[::-1])[::-1])
    return _Gaps(idle, start, end)


def _is_row(points: _Points, gaps: _Gaps) -> Mask:
    """Whether a point is a row of the table: a busy stretch, the end of an idle time, or the start of
    a window that does not begin with a stretch."""
    is_busy, at = points.kind == _Kind.BUSY, points.at_ps
    followed = np.concatenate((is_busy[1:] & (at[1:] == at[:-1]), [False]))
    starts = (points.kind == _Kind.START) & ~followed
    kept: Mask = (gaps.idle_ps > 0) | is_busy | starts
    return kept


def _rows(steps: pl.DataFrame, points: _Points, gaps: _Gaps, is_open: Mask) -> pl.DataFrame:
    """The table. is_open: whether a launch was open before each point."""
    is_idle = gaps.idle_ps > 0
    before = np.where(is_idle, points.at_ps - gaps.idle_ps - gaps.start_ps, 0)
    after = np.where(is_idle, gaps.end_ps - points.at_ps, 0)
    # A window's first row has no idle time before it, so no other window's value is read.
    following = np.zeros_like(gaps.idle_ps)
    following[:-1] = (gaps.idle_ps + before + after)[1:]
    in_launch = pl.DataFrame({"idle": is_idle, "open": is_open}).select(
        pl.when("idle").then("open")
    )["open"]
    rows = pl.DataFrame(
        {
            "start_ps": points.at_ps,
            "duration_ps": points.length_ps,
            "idle_ps": gaps.idle_ps,
            "gap_before_ps": before,
            "gap_after_ps": after,
            "in_launch": in_launch,
            "next_gap_ps": following,
            "next_in_launch": in_launch.shift(-1),
        }
    )
    key: pl.DataFrame = steps.select(DEVICE_STEP)[points.window]
    return pl.concat([key, rows], how="horizontal")
