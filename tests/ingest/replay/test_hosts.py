"""What devices and hosts wait for of each other: launches, enqueues, markers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ingest.replay.building import launch, measured, op, spans, step_of
from xlahouse.ingest.replay.schedule import Costs, Schedule
from xlahouse.ingest.replay.step_times import step_times


def host_bound(first="t", second="t"):
    """Two steps: the second is enqueued 15 after the first has ended, and starts 5 later."""
    ops = [op(0, 10, 20), op(0, 40, 50)]
    launches = [
        launch(0, 10, 20, 5, enqueue_thread=first),
        launch(0, 40, 50, 35, step=1, enqueue_thread=second),
    ]
    steps = [step_of(0, ops[:1], 0), step_of(0, ops[1:], 1)]
    return Schedule.of(measured(ops, launches=launches, steps=steps))


def test_a_launch_waits_for_its_enqueue_and_the_host_for_the_step_before():
    schedule = host_bound()
    times = schedule.replay(Costs(op_scale=np.full(2, 0.5)))
    assert spans(schedule, times, "launches") == [(0, 0, 10, 15), (0, 1, 35, 40)]
    assert times.enqueue_ps.tolist() == [5, 30]


@pytest.mark.parametrize("threads", [("t", "t"), ("worker 1", "worker 2")])
def test_without_the_host_a_step_starts_where_the_one_before_ends(threads):
    schedule = host_bound(*threads)
    times = schedule.replay(Costs(host_ratio=0))
    assert spans(schedule, times, "launches") == [(0, 0, 5, 15), (0, 1, 15, 25)]
    # The first step's period is from its enqueue at 5 to its end; then from end to end.
    assert step_times(schedule)["period_ps"].to_list() == [15, 30]
    assert step_times(schedule, times)["period_ps"].to_list() == [10, 10]


def test_markers_move_with_the_host():
    """A prefill's marker from 2 to 26 and a decode step's from 31 to 58, around launches as in host_bound."""
    ops = [op(0, 10, 20), op(0, 40, 50)]
    launches = [launch(0, 10, 20, 5), launch(0, 40, 50, 35, step=1)]
    steps = [step_of(0, ops[:1], 0), step_of(0, ops[1:], 1)]
    markers = [
        {"host": "h", "source": "marker", "start_ps": start, "duration_ps": end - start}
        for start, end in ((2, 26), (31, 58))
    ]
    schedule = Schedule.of(measured(ops, launches=launches, steps=steps, phases=markers))
    # Ops take 5: the host still reads the token 6 after the launch's end, and goes on as it did.
    times = schedule.replay(Costs(op_scale=np.full(2, 0.5)))
    assert [each.tolist() for each in times.marker_ps] == [[2, 26], [21, 48]]
    assert times.enqueue_ps.tolist() == [5, 30]
    # Without the host the first op starts where the marker does, and a step where the one before ends.
    times = schedule.replay(Costs(host_ratio=0))
    assert [each.tolist() for each in times.marker_ps] == [[2, 12], [12, 22]]
    assert spans(schedule, times, "launches") == [(0, 0, 2, 12), (0, 1, 12, 22)]


def test_an_op_on_another_line_starts_after_its_launch_and_the_launch_ends_after_it():
    """The second launch stands on line one from 40 to 51, and its op on line two from 43 to 50."""
    ops = [
        op(0, 10, 15, "a", line="one", launch=0),
        op(0, 15, 20, "b", line="one", launch=0),
        op(0, 43, 50, "c", line="two", launch=1),
        op(0, 42, 51, "call.1", "control", line="two", launch=1),
    ]
    launches = [launch(0, 10, 20, 5), launch(0, 40, 51, 35, step=1)]
    steps = [step_of(0, ops[:2], 0), step_of(0, ops[2:3], 1)]
    run = measured(ops, launches=launches, steps=steps, cores={0: "cpu"})
    schedule = Schedule.of(run)
    times = schedule.replay(Costs(host_ratio=0))
    assert spans(schedule, times, "launches") == [(0, 0, 5, 15), (0, 1, 15, 26)]
    assert (0, "c", 18, 25) in spans(schedule, times)
    # Half as long an op ends 4 sooner, rounded: so does its launch.
    times = schedule.replay(Costs(op_scale=np.array([1.0, 1.0, 0.5, 1.0])))
    assert spans(schedule, times, "launches")[1] == (0, 1, 40, 48)


def test_workers_of_a_pool_take_turns_and_other_threads_have_a_turn_of_their_own():
    """Device 0 by threads a and b, device 1 by b, device 2 by c alone: one driver, and another."""
    by = ((0, 0, "a"), (0, 1, "b"), (1, 0, "b"), (2, 0, "c"), (2, 1, "c"))
    rows = [(d, 100 * step + 10 * d, step, thread) for d, step, thread in by]
    launches = [
        launch(d, at + 1, at + 5, at, step=step, enqueue_thread=thread)
        for d, at, step, thread in rows
    ]
    ops = [op(d, at + 1, at + 5) for d, at, _, _ in rows]
    steps = [step_of(d, [each], step) for each, (d, _, step, _) in zip(ops, rows, strict=True)]
    host = Schedule.of(measured(ops, launches=launches, steps=steps)).host
    # The first driver enqueues at 0, 10 and 100, the other at 20 and 120.
    assert host.at_ps.tolist() == [0, 10, 100, 20, 120]
    assert host.head.tolist() == [True, False, False, True, False]
