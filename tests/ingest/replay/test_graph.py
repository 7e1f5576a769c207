"""The engine against a discrete-event simulator, and what it does with ties and circles."""

from __future__ import annotations

import heapq
import random
from dataclasses import replace

import numpy as np
import pytest

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.replay.graph import FREE, Graph, Replay


def graph_of(heads, at, lag, edges):
    source, target, edge = np.array(edges, np.int64).reshape(-1, 3).T
    return Graph(
        np.array(heads, np.bool_),
        np.array(at, np.int64),
        np.array(lag, np.int64),
        source,
        target,
        edge,
    )


def replayed(graph):
    return Replay.of(graph).times(graph.head, graph.lag_ps, graph.edge_ps).tolist()


def simulate(graph):
    """Events in a queue by time: one happens once all that it waits for has, and its lags have passed."""
    count = len(graph.at_ps)
    waits = [[] for _ in range(count)]  # of each point, (point that waits for it, lag)
    left = [0] * count
    for place in range(count):
        if not graph.head[place] and graph.lag_ps[place] != FREE:
            waits[place - 1].append((place, int(graph.lag_ps[place])))
            left[place] += 1
    for source, target, lag in zip(graph.source, graph.target, graph.edge_ps, strict=True):
        waits[source].append((int(target), int(lag)))
        left[target] += 1
    ready = [int(lag) if head else FREE for head, lag in zip(graph.head, graph.lag_ps, strict=True)]
    queue = [(ready[place], place) for place in range(count) if not left[place]]
    heapq.heapify(queue)
    happened = [0] * count
    while queue:
        now, place = heapq.heappop(queue)
        happened[place] = now
        for other, lag in waits[place]:
            ready[other] = max(ready[other], now + lag)
            left[other] -= 1
            if not left[other]:
                heapq.heappush(queue, (ready[other], other))
    return happened


def draw(seed):
    """Lines of points at random times, edges forward in time, some that never decide, and any lags."""
    rng = random.Random(seed)
    heads, at, lag = [], [], []
    for _ in range(rng.randint(1, 5)):
        now = rng.randint(0, 30)
        for place in range(rng.randint(1, 12)):
            heads.append(place == 0)
            at.append(now)
            lag.append(rng.randint(0, 40))
            now += rng.randint(1, 20)
    for _ in range(rng.randint(0, 3)):  # meetings
        heads.append(True)
        at.append(rng.randint(0, 120))
        lag.append(FREE if rng.random() < 0.7 else rng.randint(0, 50))
    edges = []
    for _ in range(rng.randint(0, 30)):
        one, other = rng.randrange(len(at)), rng.randrange(len(at))
        if at[one] != at[other]:
            source, target = sorted((one, other), key=at.__getitem__)
            edges.append((source, target, FREE if rng.random() < 0.2 else rng.randint(0, 60)))
    return graph_of(heads, at, lag, edges)


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_graphs_replay_as_they_are_simulated(first):
    compared = 0
    for seed in range(first, first + 50):
        graph = draw(seed)
        expected = simulate(graph)
        # A point that nothing reaches has no time of its own.
        known = [place for place, time in enumerate(expected) if time > FREE // 2]
        found = replayed(graph)
        assert [found[place] for place in known] == [expected[place] for place in known], seed
        compared += len(known)
    assert compared > 500


def test_no_point_of_a_random_graph_is_later_where_some_waits_are_shorter():
    earlier = 0
    for seed in range(200):
        graph, rng = draw(seed), random.Random(-seed)
        lag, edge = (
            np.array(
                [time if time == FREE else int(time * rng.random()) for time in times.tolist()]
            )
            for times in (graph.lag_ps, graph.edge_ps)
        )
        replay = Replay.of(graph)
        before = replay.times(graph.head, graph.lag_ps, graph.edge_ps)
        after = replay.times(graph.head, lag.astype(np.int64), edge.astype(np.int64))
        reached = before > FREE // 2  # a point that nothing reaches has no time of its own
        assert (after <= before)[reached].all(), seed
        earlier += (after < before)[reached].sum()
    assert earlier > 1_000


def test_only_the_replayed_times_keep_all_waits():
    for seed in range(50):
        graph = draw(seed)
        expected = np.array(simulate(graph), np.int64)
        if (expected < FREE // 2).any():
            continue  # a point that nothing reaches has no time of its own
        kept = Replay.of(graph._replace(at_ps=expected))
        assert kept.keeps(graph.lag_ps, graph.edge_ps), seed
        for place in range(len(expected)):
            moved = expected + (np.arange(len(expected)) == place)
            wrong = replace(kept, graph=graph._replace(at_ps=moved))
            assert not wrong.keeps(graph.lag_ps, graph.edge_ps), seed


def test_points_of_one_time_wait_for_each_other_in_any_order():
    # Two lines whose points all are at 5: the second's decides the first's.
    graph = graph_of([True, False, True, False], [5, 5, 5, 5], [5, 0, 9, 0], [(3, 1, 2)])
    assert replayed(graph) == [5, 11, 9, 9]


def test_a_circle_is_refused():
    graph = graph_of([True, True], [5, 5], [5, 5], [(0, 1, 0), (1, 0, 0)])
    with pytest.raises(WarehouseError, match="2 points of the run wait for each other in a circle"):
        Replay.of(graph)
