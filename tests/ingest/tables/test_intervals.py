"""Self time and merged intervals, against sets of picoseconds."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from xlahouse.ingest.events.spans import merge_spans
from xlahouse.ingest.nesting.self_time import self_times as times_of_lines

SPANS = st.lists(
    st.tuples(st.integers(0, 1), st.integers(0, 40), st.integers(0, 15)), min_size=0, max_size=20
)


def self_times(rows):
    line, start, duration = np.array(rows or np.empty((0, 3)), np.int64).T
    return times_of_lines(line, start, duration).tolist()


def merged(rows):
    columns = np.array(rows or np.empty((0, 3)), np.int64).T
    return list(zip(*(column.tolist() for column in merge_spans(*columns)), strict=True))


def covered(rows, device):
    return {t for d, start, duration in rows if d == device for t in range(start, start + duration)}


def test_self_time_of_nested_ops():
    # while [0,100) holds a [10,40), which holds b [20,30), and c [50,60)
    rows = [(0, 0, 100), (0, 10, 30), (0, 20, 10), (0, 50, 10)]
    assert self_times(rows) == [60, 20, 10, 10]


def test_self_time_of_neighbours_and_of_nothing():
    assert self_times([(0, 0, 10), (0, 10, 10), (0, 15, 0)]) == [10, 10, 0]


def test_equal_spans_share_nothing():
    assert sorted(self_times([(0, 0, 10), (0, 0, 10)])) == [0, 10]


def test_ops_that_cross_on_a_line():
    # a [0,20), b [10,30): from 10 on b started last; after 30 nothing. c [12,14) is innermost in both
    assert self_times([(0, 0, 20), (0, 10, 20), (0, 12, 2)]) == [10, 18, 2]
    # an inner op that outlives the one it started in, both within an outer one
    assert self_times([(0, 0, 100), (0, 10, 10), (0, 15, 20)]) == [75, 5, 20]
    # a crossing that neither the op before nor the longest one shows
    assert self_times([(0, 0, 100), (0, 10, 20), (0, 12, 2), (0, 20, 20)]) == [70, 8, 2, 20]


def innermost(rows, device):
    """By brute force: at each ps the open op that started last, the shortest of those."""
    own = [0] * len(rows)
    for t in range(60):
        holders = [
            (row[1], -row[2], index)
            for index, row in enumerate(rows)
            if row[0] == device and row[1] <= t < row[1] + row[2]
        ]
        if holders:
            own[max(holders)[2]] += 1
    return own


@given(SPANS)
def test_self_times_are_those_of_brute_force(rows):
    key = list(rows)
    own = self_times(rows)
    expected = [a + b for a, b in zip(innermost(rows, 0), innermost(rows, 1), strict=True)]
    assert sorted(zip(key, own, strict=True)) == sorted(zip(key, expected, strict=True))


@given(SPANS)
def test_self_times_add_up_to_the_time_that_a_line_is_busy(rows):
    own = self_times(rows)
    assert all(0 <= time <= row[2] for time, row in zip(own, rows, strict=True))
    for device in (0, 1):
        total = sum(time for time, row in zip(own, rows, strict=True) if row[0] == device)
        assert total == len(covered(rows, device))


def test_touching_and_overlapping_spans_become_one():
    assert merged([(0, 0, 10), (0, 10, 5), (0, 12, 20), (0, 40, 1), (1, 0, 3)]) == [
        (0, 0, 32),
        (0, 40, 1),
        (1, 0, 3),
    ]


@given(SPANS.map(lambda rows: [row for row in rows if row[2] > 0]))
def test_merged_spans_cover_the_same_time_and_stay_apart(rows):
    out = merged(rows)
    for device in (0, 1):
        mine = [row for row in out if row[0] == device]
        assert covered(mine, device) == covered(rows, device)
        assert sum(row[2] for row in mine) == len(covered(rows, device))
        ends = [start + duration for _, start, duration in mine]
        assert all(end < row[1] for end, row in zip(ends, mine[1:], strict=False))
