"""Time that ops have for themselves: each instant of a line goes to the innermost op open on it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


def self_times(line: Integers, start_ps: Integers, duration_ps: Integers) -> Integers:
    """Self time of each op; over a line they add up to the time that the line is busy.

    Args:
        line: a number for each device's line, from 0.
        start_ps: start of each op, in any order; sorted ones are faster.
        duration_ps: duration of each op, at least 0.
    """
    own = duration_ps.copy()
    rows = np.flatnonzero(duration_ps > 0)
    if not len(rows):
        return own
    small = line.take(rows).astype(np.uint16 if line.max() < 1 << 16 else np.int64)
    rows = rows.take(np.argsort(small, kind="stable"))
    bounds = np.flatnonzero(np.diff(line.take(rows))) + 1
    for of_line in np.split(rows, bounds):
        starts = start_ps.take(of_line)
        ends = starts + duration_ps.take(of_line)
        if not _is_ordered(starts, ends):
            order = np.lexsort((-ends, starts))
            of_line, starts, ends = (each.take(order) for each in (of_line, starts, ends))
        if (starts[1:] < ends[:-1]).any():
            own[of_line] = _own_times(starts, ends)
    return own


def _is_ordered(starts: Integers, ends: Integers) -> bool:
    """By start, and of those that start together the longer first."""
    step = np.diff(starts)
    return bool(((step > 0) | ((step == 0) & (np.diff(ends) <= 0))).all())


def _own_times(starts: Integers, ends: Integers) -> Integers:
    """An op's duration less that of the ops within it.

    An op that outlives the one it started in has taken that one's time from its start on: cut off there,
    ops nest. Each round cuts the first crossing of every heap of ops, and mostly more.

    Args:
        starts: of one line's ops, in order.
        ends: of the same, each later than its start.
    """
    own = np.zeros_like(starts)
    rows = np.arange(len(starts))
    ends = ends.copy()
    while True:
        parent = _parents(starts, ends)
        inside = np.flatnonzero(parent >= 0)
        above = parent.take(inside)
        end_above = ends.take(above)
        crosses = (ends.take(inside) > end_above) & (starts.take(inside) < end_above)
        if not crosses.any():
            break
        np.minimum.at(ends, above[crosses], starts[inside[crosses]])
        lasting = ends > starts
        rows, starts, ends = rows[lasting], starts[lasting], ends[lasting]
    lengths = ends - starts
    own[rows] = lengths
    np.subtract.at(own, rows.take(above), lengths.take(inside))
    return own


def _parents(starts: Integers, ends: Integers) -> Integers:
    """Of each op the one that it started in, -1 for none; right as far as ops nest."""
    # Of the ops before an op in order, those that have not ended by its start are open around it.
    depth = np.arange(len(starts)) - np.searchsorted(np.sort(ends), starts, side="right")
    parent = np.full(len(starts), -1)
    by_depth = np.argsort(depth, kind="stable")
    above, *levels = np.split(by_depth, np.flatnonzero(np.diff(depth.take(by_depth))) + 1)
    for level in levels:
        parent[level] = above.take(np.searchsorted(above, level) - 1)
        above = level
    return parent
