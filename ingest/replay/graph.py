"""Points in time that wait for each other, and the earliest times that their waits allow.

Points stand on lines, each after the one before it; edges join points of different lines. Between two
points that an edge touches, times are a running sum: only these points, the joints, are visited one by
one, each once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.events.arrays import Integers, Mask

FREE = -(1 << 61)  # a lag, or an edge's, that never decides: earlier than any time


class Graph(NamedTuple):
    """Points by line and measured time, and edges between points: columns."""

    head: Mask  # of each point, whether a line begins with it
    # of each point, its measured time; any that orders it, where it was not measured
    at_ps: Integers
    # of each point, least time after the one before it; of a head, after time zero
    lag_ps: Integers
    source: Integers  # of each edge, place of the point that is waited for
    target: Integers  # of each edge, place of the point that waits
    edge_ps: Integers  # of each edge, least time from source to target


@dataclass(frozen=True)
class Replay:
    """A graph that is prepared to be replayed with many costs."""

    graph: Graph  # the graph itself
    joint: Integers  # place of each joint among the points, ascending
    behind: Integers  # of each point, the last joint at it or before it on its line, by its place in `joint`
    alone: Mask  # of each joint, whether no point of its line decides it
    # of each wait between joints, which one waits, by the order of visits; ascending
    waits: Integers
    source: Integers  # of each wait, the joint that is waited for, by the order of visits
    edge: Integers  # of each wait, its edge; -1 for the line
    visit: Integers  # of each joint, its place in the order of visits

    @classmethod
    def of(cls, graph: Graph) -> Replay:
        """Prepare a graph.

        Raises:
            WarehouseError: points wait for each other in a circle.
        """
        is_joint = graph.head | (graph.lag_ps == FREE)
        is_joint[graph.source] = True
        is_joint[graph.target] = True
        joint = np.flatnonzero(is_joint)
        behind = np.cumsum(is_joint) - 1
        alone = (graph.head | (graph.lag_ps == FREE)).take(joint)
        follows = np.flatnonzero(~alone)
        source = np.concatenate((follows - 1, behind.take(graph.source)))
        target = np.concatenate((follows, behind.take(graph.target)))
        edge = np.concatenate((np.full(len(follows), -1), np.arange(len(graph.source))))
        order = _order(graph.at_ps.take(joint), source, target)
        visit = np.empty_like(order)
        visit[order] = np.arange(len(order))
        by_turn = np.argsort(visit.take(target), kind="stable")
        return cls(
            graph,
            joint,
            behind,
            alone,
            visit.take(target).take(by_turn),
            visit.take(source).take(by_turn),
            edge.take(by_turn),
            visit,
        )

    def times(self, head: Mask, lag_ps: Integers, edge_ps: Integers) -> Integers:
        """The earliest time of every point.

        Args:
            head: as of the graph.
            lag_ps: as of the graph, FREE where it was.
            edge_ps: as of the graph; FREE: it is not waited for.
        """
        floor = np.where(head, lag_ps, FREE).take(self.joint)
        counted = np.where(head | (lag_ps == FREE), 0, lag_ps)
        total = np.cumsum(counted)
        along = np.zeros(len(self.joint), np.int64)
        along[1:] = np.diff(total.take(self.joint))
        order = np.empty_like(self.visit)
        order[self.visit] = np.arange(len(self.visit))
        of_line = along.take(order).take(self.waits)
        weight = np.where(self.edge < 0, of_line, edge_ps.take(self.edge) if len(edge_ps) else 0)
        first = np.searchsorted(self.waits, np.arange(len(order) + 1))
        reached = _longest(floor.take(order), first, self.source, weight)
        at_joint = reached.take(self.visit)
        times: Integers = (at_joint - total.take(self.joint)).take(self.behind) + total
        return times

    def keeps(self, lag_ps: Integers, edge_ps: Integers) -> bool:
        """Whether the graph's measured times are the earliest that its waits allow.

        No points wait in a circle, so these times are the only ones of which each is what its waits allow:
        none need be visited after another.

        Args:
            lag_ps: in place of the graph's.
            edge_ps: in place of the graph's.
        """
        graph = self.graph
        at = graph.at_ps
        earliest = np.where(graph.head, lag_ps, FREE)
        follows = np.flatnonzero(~graph.head & (lag_ps != FREE))
        earliest[follows] = at.take(follows - 1) + lag_ps.take(follows)
        np.maximum.at(earliest, graph.target, at.take(graph.source) + edge_ps)
        return bool((earliest == at).all())


def _longest(floor: Integers, first: Integers, source: Integers, weight: Integers) -> Integers:
    """Times of the joints in the order of visits: plain lists, as NumPy's scalars are ten times slower."""
    times = floor.tolist()
    of_source, of_weight = source.tolist(), weight.tolist()
    bounds = first.tolist()
    start = 0
    for place, end in enumerate(bounds[1:]):
        if end > start:
            best = times[place]
            for wait in range(start, end):
                reached = times[of_source[wait]] + of_weight[wait]
                if reached > best:
                    best = reached
            times[place] = best
            start = end
    return np.array(times, np.int64)


def _order(at_ps: Integers, source: Integers, target: Integers) -> Integers:
    """An order of joints in which each comes after those that it waits for."""
    order = np.argsort(at_ps, kind="stable")
    turn = np.empty_like(order)
    turn[order] = np.arange(len(order))
    if (turn.take(source) < turn.take(target)).all():
        return order
    return _by_waits(turn, source, target)


def _by_waits(turn: Integers, source: Integers, target: Integers) -> Integers:
    """The same where measured times alone do not order the joints: some of one time wait for each other."""
    by_source = np.argsort(source, kind="stable")
    waiting = target.take(by_source).tolist()
    first = np.searchsorted(source.take(by_source), np.arange(len(turn) + 1)).tolist()
    left = np.bincount(target, minlength=len(turn)).tolist()
    ready = [joint for joint in np.argsort(turn, kind="stable").tolist() if not left[joint]]
    for joint in ready:  # grows meanwhile
        for wait in range(first[joint], first[joint + 1]):
            other = waiting[wait]
            left[other] -= 1
            if not left[other]:
                ready.append(other)
    if len(ready) < len(turn):
        raise WarehouseError(
            f"{len(turn) - len(ready)} points of the run wait for each other in a circle: its devices "
            "enter the same collectives in different orders at one time; it cannot be replayed"
        )
    return np.array(ready, np.int64)
