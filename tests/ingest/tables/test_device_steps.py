"""The split of a device's steps: by hand, and against sets of picoseconds."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from xlahouse.ingest.tables.device_steps import launch_spans, split_steps
from xlahouse.ingest.tables.placed_ops import PlacedOps

SPAN = dict.fromkeys(("device_id", "request", "step"), pl.Int64) | {
    "phase": pl.String,
    "start_ps": pl.Int64,
    "end_ps": pl.Int64,
}
BUSY = dict.fromkeys(("device_id", "request", "step"), pl.Int64) | {
    "category": pl.String,
    "start_ps": pl.Int64,
    "duration_ps": pl.Int64,
}
CLASSES = ("compute", "collective", "copy_running", "sync_wait")
INTERVALS = st.lists(
    st.tuples(
        st.sampled_from((*CLASSES, "masked", "communicating")),
        st.integers(0, 40),
        st.integers(1, 15),
    ),
    max_size=12,
)


def split(spans, busy):
    frames = (
        pl.DataFrame(rows, schema=schema, orient="row")
        for rows, schema in ((spans, SPAN), (busy, BUSY))
    )
    return split_steps(*frames).table


def merged(intervals):
    """As busy_intervals has them: those of a category apart from each other."""
    seen: dict[str, set[int]] = {}
    for category, start, duration in intervals:
        seen.setdefault(category, set()).update(range(start, start + duration))
    for category, times in seen.items():
        starts = sorted(t for t in times if t - 1 not in times)
        ends = sorted(t + 1 for t in times if t + 1 not in times)
        yield from ((category, a, b - a) for a, b in zip(starts, ends, strict=True))


def test_a_step_by_hand():
    # Window [0, 100). compute [0, 30); collective [20, 50): 10 overlap, 20 are exposed; copy [45, 60):
    # 5 in the collective, 10 exposed; a barrier [55, 70): 5 in the copy, 10 alone. Masked is compute again,
    # and so is a kernel that communicates, [25, 30).
    busy = [("compute", 0, 30), ("masked", 0, 30), ("collective", 20, 30)]
    busy += [("copy_running", 45, 15), ("sync_wait", 55, 15), ("communicating", 25, 5)]
    (row,) = split(
        [(3, 7, 0, "prefill", 0, 100)], [(3, 7, 0, *interval) for interval in busy]
    ).to_dicts()
    assert row == {
        "device_id": 3, "request": 7, "step": 0, "phase": "prefill",
        "start_ps": 0, "duration_ps": 100, "pass_start_ps": 0, "pass_end_ps": 100,
        "compute_ps": 30, "collective_ps": 30, "overlapped_ps": 10,
        "copy_ps": 15, "exposed_copy_ps": 10, "sync_wait_ps": 10, "communicating_ps": 5,
    }  # fmt: skip


def test_a_step_ends_where_the_next_one_starts_and_what_runs_past_it_counts_nowhere():
    spans = [(0, 0, 0, "decode", 0, 50), (0, 0, 1, "decode", 40, 90)]
    steps = split(spans, [(0, 0, 0, "compute", 30, 20), (0, 0, 1, "compute", 40, 50)])
    columns = ["step", "start_ps", "duration_ps", "compute_ps", "pass_end_ps"]
    assert steps.select(columns).rows() == [(0, 0, 40, 10, 50), (1, 40, 50, 50, 90)]


def test_what_is_outside_every_step_has_a_row_only_on_a_device_without_any():
    spans = [(0, 0, 0, None, 0, 10), (0, None, None, None, 20, 30), (1, None, None, "step", 5, 9)]
    steps = split(spans, [(1, None, None, "collective", 6, 2)])
    columns = ["device_id", "step", "phase", "start_ps", "collective_ps", "pass_start_ps"]
    assert steps.select(columns).rows() == [(0, 0, None, 0, 0, None), (1, None, "step", 5, 2, None)]


def test_launches_of_a_step_are_joined_and_phases_that_differ_are_mixed():
    spans = [(0, 0, 0, "warmup", 0, 10), (0, 0, 0, "prefill", 20, 35), (0, 0, 0, None, 40, 41)]
    columns = ["phase", "start_ps", "duration_ps", "pass_start_ps", "pass_end_ps"]
    assert split(spans, []).select(columns).rows() == [("mixed", 0, 41, 20, 35)]


def test_nothing_gives_no_steps():
    assert split([], []).is_empty()


@settings(max_examples=60, deadline=None)
@given(INTERVALS, st.integers(1, 60))
def test_each_instant_belongs_to_the_first_that_applies(intervals, end):
    kept = list(merged(intervals))
    (row,) = split(
        [(0, 0, 0, None, 0, end)], [(0, 0, 0, *interval) for interval in kept]
    ).to_dicts()
    times = {name: set() for name in CLASSES}
    for category, start, duration in kept:
        times.get(category, set()).update(t for t in range(start, start + duration) if t < end)
    compute, collective, copy, wait = times.values()
    assert row["compute_ps"] == len(compute)
    assert row["collective_ps"] == len(collective)
    assert row["overlapped_ps"] == len(collective & compute)
    assert row["copy_ps"] == len(copy)
    assert row["exposed_copy_ps"] == len(copy - compute - collective)
    assert row["sync_wait_ps"] == len(wait - compute - collective - copy)


def test_spans_of_launches_leave_control_ops_out():
    kinds = pl.DataFrame({"op": ["while.1", "fusion.1"], "category": ["control", "compute"]})
    launches = pl.DataFrame(
        {"launch": [0, None], "request": [4, None], "step": [2, None], "phase": ["decode", None]}
    )
    ops = PlacedOps(
        kinds=kinds,
        launches=launches,
        device_id=np.zeros(4, np.int64),
        kind=np.array([0, 1, 1, 1]),
        launch=np.array([0, 0, 0, 1]),
        start_ps=np.array([0, 10, 20, 90]),
        duration_ps=np.array([80, 5, 7, 1]),
        self_ps=np.zeros(4, np.int64),
    )
    found = launch_spans(ops).select(*SPAN).sort("start_ps").rows()
    assert found == [(0, 4, 2, "decode", 10, 27), (0, None, None, None, 90, 91)]
