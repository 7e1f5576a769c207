"""What the profiler costs a decode step, and when a capture measures its host."""

from __future__ import annotations

import msgspec
import pytest

from tests.conftest import DEMO_PLAN
from xlahouse.capture.models.decode import DecodeTimes, late_ratio
from xlahouse.capture.plan import read_plan
from xlahouse.capture.run.overhead import (
    ProfilerCost,
    cost,
    dispatch_depth,
    host_warnings,
    profiler_warnings,
)


def test_cost_is_the_median_and_the_quartiles_over_pairs_of_steps():
    # Pairs: 1.1/1.0, 2.4/2.0, 3.0/3.0, 1.05/1.0, 1.4/1.0 -> 0, 0.05, 0.10, 0.20, 0.40 in order.
    found = cost([[1.1, 2.4], [3.0, 1.05, 1.4]], [[1.0, 2.0], [3.0, 1.0, 1.0]])
    assert found.ratio == pytest.approx(0.10)
    assert found.quartiles == pytest.approx([0.05, 0.20])
    assert found.pairs == 5


@pytest.mark.parametrize("steps", [[], [[]]])  # not measured; one output token: no decode step
def test_without_pairs_nothing_is_known(steps):
    reason = "no decode step ran both with the profiler and without it"
    assert cost(steps, steps) == ProfilerCost(None, [], 0, reason)


def test_one_pair_has_no_quartiles():
    assert cost([[3.0]], [[2.0]]) == ProfilerCost(0.5, [], 1)


def test_a_profiler_that_slows_steps_beyond_chance_is_warned_of():
    assert profiler_warnings(ProfilerCost(0.12, [0.06, 0.2], 14), virtual=False) == [
        "the profiler slows a decode step by 12%, more than 5%: times of this capture are too long"
    ]


@pytest.mark.parametrize(
    "noise",
    [
        ProfilerCost(0.12, [-0.1, 0.3], 14),
        ProfilerCost(0.04, [0.01, 0.2], 14),
        ProfilerCost(None, [], 0),
    ],
)
def test_what_may_be_chance_is_not(noise):
    assert profiler_warnings(noise, virtual=False) == []


def test_virtual_devices_share_their_cores_with_all_else():
    assert profiler_warnings(ProfilerCost(0.12, [0.06, 0.2], 14), virtual=True) == []


def test_a_capture_whose_devices_wait_for_the_host_says_that_tpot_is_the_hosts():
    assert host_warnings(0.06, virtual=False) == [
        "the devices waited for the host before 6% of the decode steps, more than 5%: TPOT is the "
        "host's; raise steps_ahead"
    ]
    assert host_warnings(0.05, virtual=False) == []
    assert host_warnings(None, virtual=False) == []  # one output token: no decode step
    assert host_warnings(1.0, virtual=True) == []


def test_the_share_of_late_steps_is_over_all_requests():
    requests = [DecodeTimes(sending=[0.1] * 3, late=1), DecodeTimes(sending=[0.1] * 5, late=3)]
    assert late_ratio(requests) == 0.5
    assert late_ratio([DecodeTimes(steps=[1.0])]) is None


def test_steps_are_sent_ahead_on_a_tpu_and_on_virtual_devices_only_if_the_plan_says_so():
    experiment = read_plan(DEMO_PLAN).experiments[0]
    assert [dispatch_depth(experiment, virtual) for virtual in (False, True)] == [2, 0]
    chosen = msgspec.structs.replace(experiment, steps_ahead=1)
    assert [dispatch_depth(chosen, virtual) for virtual in (False, True)] == [1, 1]
