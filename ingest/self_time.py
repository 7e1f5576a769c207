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
    small = line[rows].astype(np.uint16 if line.max() < 1 << 16 else np.int64)
    rows = rows[np.argsort(small, kind="stable")]
    bounds = np.flatnonzero(np.diff(line[rows])) + 1
    for of_line in np.split(rows, bounds):
        starts = start_ps[of_line]
        ends = starts + duration_ps[of_line]
        if not _is_ordered(starts, ends):
            order = np.lexsort((-ends, starts))
            of_line, starts, ends = of_line[order], starts[order], ends[order]
        if (starts[1:] < ends[:-1]).any():
            own[of_line] = _own_times(starts, ends)
    return own


def _is_ordered(starts: Integers, ends: Integers) -> bool:
    """By start, and of those that start together the longer first."""
    step = np.diff(starts)
    return bool(((step > 0) | ((step == 0) & (np.diff(ends) <= 0))).all())


def _own_times(starts: Integers, ends: Integers) -> Integers:
    """Where ops nest, an op's duration less its children's.

    Args:
        starts: of one line's ops, in order.
        ends: of the same, each later than its start.
    """
    # Of the ops before an op in order, those that have not ended by its start are open around it.
    depth = np.arange(len(starts)) - np.searchsorted(np.sort(ends), starts, side="right")
    own = ends - starts
    by_depth = np.argsort(depth, kind="stable")
    above, *levels = np.split(by_depth, np.flatnonzero(np.diff(depth[by_depth])) + 1)
    for level in levels:
        parent = above[np.searchsorted(above, level) - 1]
        if (ends[level] > ends[parent]).any():
            return _own_times_of_crossing(starts, ends)
        np.subtract.at(own, parent, ends[level] - starts[level])
        above = level
    return own


def _own_times_of_crossing(starts: Integers, ends: Integers) -> Integers:
    """Where ops cross: the op that started last and is open has the time."""
    begin, end = starts.tolist(), ends.tolist()
    own = [0] * len(begin)
    open_ops: list[int] = []  # by start; closed ones are dropped when they come to the top
    now = 0

    def spend(until: int) -> None:
        nonlocal now
        while open_ops and now < until:
            top = open_ops[-1]
            stop = min(until, end[top])
            if stop > now:
                own[top] += stop - now
                now = stop
            if end[top] <= now:
                open_ops.pop()

    for index, start in enumerate(begin):
        spend(start)
        now = start
        open_ops.append(index)
    spend(max(end))
    return np.array(own, np.int64)
