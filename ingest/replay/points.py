"""The points of a graph that stand on a run's lines, and where each time has its point."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xlahouse.ingest.events.arrays import Integers, Mask
from xlahouse.ingest.replay.lines import NOWHERE, Lines
from xlahouse.ingest.replay.meetings import Meetings


@dataclass(frozen=True)
class Points:
    """Times of lines, one line after the other, but those at which a line waits for others."""

    lines: list[Integers]  # of each line, its points' times
    first: Integers  # of each line, the place of its first point

    @property
    def count(self) -> int:
        """Number of points."""
        return sum(map(len, self.lines))

    @property
    def at_ps(self) -> Integers:
        """The points' times."""
        return np.concatenate([*self.lines, np.zeros(0, np.int64)])

    @property
    def head(self) -> Mask:
        """Whether a line begins with each point."""
        head = np.zeros(self.count, np.bool_)
        head[self.first[[len(times) > 0 for times in self.lines]]] = True
        return head

    def place(self, line: Integers, at_ps: Integers) -> Integers:
        """The place of the point at each time; NOWHERE without one."""
        found = np.full(len(line), NOWHERE)
        for number, times in enumerate(self.lines):
            rows = np.flatnonzero(line == number)
            if not len(times) or not len(rows):
                continue
            wanted = at_ps.take(rows)
            near = np.minimum(np.searchsorted(times, wanted), len(times) - 1)
            found[rows] = np.where(times.take(near) == wanted, near + self.first[number], NOWHERE)
        return found

    def before(self, line: Integers, at_ps: Integers) -> Integers:
        """The place of the last point at each time or before it; NOWHERE without one."""
        found = np.full(len(line), NOWHERE)
        for number, times in enumerate(self.lines):
            rows = np.flatnonzero(line == number)
            near = np.searchsorted(times, at_ps.take(rows), side="right") - 1
            found[rows] = np.where(near >= 0, near + self.first[number], NOWHERE)
        return found


def find_points(lines: Lines, meetings: Meetings) -> Points:
    """The points of all lines: what lies within a member's wait moves with it and has no point."""
    kept = []
    for number, times in enumerate(lines.times):
        mine = np.flatnonzero(meetings.line == number)
        start, end = (np.sort(each.take(mine)) for each in (meetings.from_ps, meetings.end_ps))
        begun = np.searchsorted(start, times, side="left")  # spans that start earlier
        over = np.searchsorted(end, times, side="right")  # spans that end by then
        kept.append(times[begun <= over])
    sizes = [len(times) for times in kept]
    return Points(kept, np.concatenate(([0], np.cumsum(sizes)))[:-1].astype(np.int64))
