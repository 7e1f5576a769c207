"""Nests the events of a line: each instant belongs to the innermost one that is open on it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xlahouse.ingest.events.arrays import Integers


class _LineOps(NamedTuple):
    """Ops of one line by start, and of those that start together the longer first: columns of one length."""

    row: Integers  # among the ops of all lines
    start: Integers  # ps
    end: Integers  # later than the start

    @classmethod
    def of(cls, rows: Integers, start_ps: Integers, duration_ps: Integers) -> _LineOps:
        """The ops in some rows, by start if possible: then they need not be sorted."""
        start = start_ps.take(rows)
        ops = cls(rows, start, start + duration_ps.take(rows))
        step = np.diff(start)
        is_ordered = ((step > 0) | ((step == 0) & (np.diff(ops.end) <= 0))).all()
        return ops if is_ordered else ops.take(np.lexsort((-ops.end, start)))

    def take(self, places: Integers) -> _LineOps:
        """The ops at these places."""
        return _LineOps(*(column.take(places) for column in self))

    @property
    def overlap(self) -> bool:
        """Whether any begins before the one ahead of it ends."""
        return bool((self.start[1:] < self.end[:-1]).any())


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
        ops = _LineOps.of(of_line, start_ps, duration_ps)
        if ops.overlap:
            _set_own_times(own, ops)
    return own


def _set_own_times(own: Integers, ops: _LineOps) -> None:
    """Write into `own`, at each op's row, its duration less that of the ops within it.

    Ops of which nothing is left once they nest have no self time.
    """
    own[ops.row] = 0
    ops, parent = _nested(ops)
    inside = np.flatnonzero(parent >= 0)
    lengths = ops.end - ops.start
    own[ops.row] = lengths
    np.subtract.at(own, ops.row.take(parent.take(inside)), lengths.take(inside))


class Nest(NamedTuple):
    """Events that nest, by start: columns of one length."""

    row: Integers  # among the events that were given
    start: Integers  # ps
    end: Integers  # ps
    parent: Integers  # place here of the innermost event around it, before it; -1 for none


def nest(start_ps: Integers, end_ps: Integers) -> Nest:
    """The events of one line that last, cut where they cross: then they nest.

    An event that outlives the event it started in takes that one's time from its start on.

    Args:
        start_ps: start of each event, in any order.
        end_ps: end of each, no earlier.
    """
    rows = np.flatnonzero(end_ps > start_ps)
    ops, parent = _nested(_LineOps.of(rows, start_ps, end_ps - start_ps))
    return Nest(*ops, parent)


def _nested(ops: _LineOps) -> tuple[_LineOps, Integers]:
    """(ops that nest, place of the op that each is in): one that outlives the op it started in takes that
    op's time from its start on.

    Each round cuts the first crossing of every heap of ops, and mostly more.
    """
    while True:
        parent = _parents(ops.start, ops.end)
        inside = np.flatnonzero(parent >= 0)
        above = parent.take(inside)
        end_above = ops.end.take(above)
        crosses = (ops.end.take(inside) > end_above) & (ops.start.take(inside) < end_above)
        if not crosses.any():
            return ops, parent
        end = ops.end.copy()
        np.minimum.at(end, above[crosses], ops.start[inside[crosses]])
        ops = ops._replace(end=end).take(np.flatnonzero(end > ops.start))


def _parents(starts: Integers, ends: Integers) -> Integers:
    """Place of the op that each op started in, -1 for none; right as far as ops nest."""
    # Earlier ops that have not ended by an op's start are open around it.
    depth = np.arange(len(starts)) - np.searchsorted(np.sort(ends), starts, side="right")
    parent = np.full(len(starts), -1)
    by_depth = np.argsort(depth, kind="stable")
    above, *levels = np.split(by_depth, np.flatnonzero(np.diff(depth.take(by_depth))) + 1)
    for level in levels:
        parent[level] = above.take(np.searchsorted(above, level) - 1)
        above = level
    return parent
