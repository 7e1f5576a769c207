"""Busy stretches and the idle times before them: by hand, and against sets of picoseconds."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.device_steps import both_tables

STEP = dict.fromkeys(("device_id", "request", "step"), pl.Int64)
SPAN = STEP | {"phase": pl.String, "start_ps": pl.Int64, "end_ps": pl.Int64}
BUSY = STEP | {"category": pl.String, "start_ps": pl.Int64, "duration_ps": pl.Int64}
LAUNCH = STEP | {"start_ps": pl.Int64, "duration_ps": pl.Int64}
COLUMNS = ("start_ps", "duration_ps", "idle_ps", "gap_before_ps", "gap_after_ps", "in_launch")
KINDS = ("compute", "collective", "copy_running", "sync_wait", "masked")
TIMES = st.tuples(st.integers(0, 40), st.integers(1, 15))


def stretches(spans, busy, launches=()):
    frames = (
        pl.DataFrame(list(rows), schema=schema, orient="row")
        for rows, schema in ((spans, SPAN), (busy, BUSY), (launches, LAUNCH))
    )
    return both_tables(*frames)[1]


def of_one_step(window, busy, launches=()):
    """The rows of step 0 of request 7 on device 3, without its key."""
    key = (3, 7, 0)
    rows = stretches(
        [(*key, "decode", *window)],
        [(*key, *interval) for interval in busy],
        [(*key, *launch) for launch in launches],
    )
    assert rows.select(*STEP).unique().rows() in ([key], [])
    return rows.select(COLUMNS).rows()


def test_categories_are_merged_and_gaps_stand_before_stretches():
    # Compute [0, 10) and a collective [10, 20) touch; then [25, 30) within a launch [0, 100).
    busy = [("compute", 0, 10), ("collective", 10, 10), ("copy_running", 25, 5)]
    assert of_one_step((0, 30), busy, [(0, 100)]) == [
        (0, 20, 0, 0, 0, None),
        (25, 5, 5, 0, 0, True),
    ]


def test_a_window_may_begin_and_end_idle():
    assert of_one_step((0, 30), [("sync_wait", 10, 10)]) == [
        (0, 0, 0, 0, 0, None),
        (10, 10, 10, 0, 0, False),
        (30, 0, 10, 0, 0, False),
    ]


def test_launches_cut_gaps():
    # The gap [10, 30) is out of launches from 14 to 26: pieces of 4, 12 and 4.
    busy = [("compute", 0, 10), ("compute", 30, 5)]
    assert of_one_step((0, 35), busy, [(0, 14), (26, 9)]) == [
        (0, 10, 0, 0, 0, None),
        (14, 0, 4, 0, 16, True),
        (26, 0, 12, 4, 4, False),
        (30, 5, 4, 16, 0, True),
    ]


def test_launches_that_begin_and_end_with_stretches_cut_nothing():
    busy = [("compute", 0, 10), ("compute", 30, 5)]
    assert of_one_step((0, 35), busy, [(0, 10), (30, 5)]) == [
        (0, 10, 0, 0, 0, None),
        (30, 5, 20, 0, 0, False),
    ]


def test_each_row_tells_the_gap_that_follows_it():
    # In step 0 the gap [10, 30) is cut at 14 and 26, then busy until the end; step 1 begins idle.
    spans = [(1, 0, 0, "decode", 0, 35), (1, 0, 1, "decode", 40, 50)]
    busy = [(1, 0, 0, "compute", 0, 10), (1, 0, 0, "compute", 30, 5), (1, 0, 1, "compute", 43, 2)]
    rows = stretches(spans, busy, [(1, 0, 0, 0, 14), (1, 0, 0, 26, 9)])
    assert rows.select("step", "start_ps", "next_gap_ps", "next_in_launch").rows() == [
        (0, 0, 20, True),
        (0, 14, 20, False),
        (0, 26, 20, True),
        (0, 30, 0, None),
        (1, 40, 3, False),
        (1, 43, 5, False),
        (1, 50, 0, None),
    ]


def test_masked_work_is_no_stretch_of_its_own():
    assert of_one_step((0, 10), [("masked", 2, 3)]) == [
        (0, 0, 0, 0, 0, None),
        (10, 0, 10, 0, 0, False),
    ]


def test_each_step_and_device_has_its_own():
    # Device 1 has steps [0, 10) and [20, 30), device 2 one from 5 to 15.
    spans = [(1, 0, 0, "decode", 0, 10), (1, 0, 1, "decode", 20, 30), (2, 0, 0, "decode", 5, 15)]
    busy = [(1, 0, 0, "compute", 0, 10), (1, 0, 1, "compute", 22, 8), (2, 0, 0, "compute", 5, 10)]
    rows = stretches(spans, busy, [(1, 0, 1, 0, 21), (9, 0, 0, 0, 50)])
    assert rows.select("device_id", "step", *COLUMNS).rows() == [
        (1, 0, 0, 10, 0, 0, 0, None),
        (1, 1, 20, 0, 0, 0, 0, None),
        (1, 1, 21, 0, 1, 0, 1, True),
        (1, 1, 22, 8, 1, 1, 0, False),
        (2, 0, 5, 10, 0, 0, 0, None),
    ]


def test_nothing_ran():
    assert stretches([], []).is_empty()


@given(
    st.integers(0, 20),
    st.integers(1, 40),
    st.lists(st.tuples(st.sampled_from(KINDS), TIMES), max_size=8),
    st.lists(TIMES, max_size=3),
)
@settings(deadline=None)
def test_against_sets_of_picoseconds(begin, length, busy, launches):
    window = range(begin, begin + length)
    rows = of_one_step((begin, begin + length), [(kind, *times) for kind, times in busy], launches)
    at_work = {
        t for kind, (start, lasts) in busy if kind != "masked" for t in range(start, start + lasts)
    } & set(window)
    opened = {t for start, lasts in launches for t in range(start, start + lasts)}
    seen: list[tuple[int, bool, bool | None]] = []  # each instant: busy, and in a launch if not
    for start, duration, idle, before, after, in_launch in rows:
        seen += [(t, False, in_launch) for t in range(start - idle, start)]
        seen += [(t, True, None) for t in range(start, start + duration)]
        if idle:
            gap = range(start - idle - before, start + after)
            assert not at_work & set(gap)
            assert gap.start == begin or gap.start - 1 in at_work
            assert gap.stop == begin + length or gap.stop in at_work
    assert seen == [(t, t in at_work, None if t in at_work else t in opened) for t in window]
