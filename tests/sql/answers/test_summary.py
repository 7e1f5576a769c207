"""The summary of a run: its parts add up to numbers worked out by hand, and what is unknown has a reason."""

from __future__ import annotations

import pytest

from xlahouse.sql.answers.launched import describe
from xlahouse.sql.answers.split import split_prefill, split_time, without_waits
from xlahouse.sql.answers.summary import LEAST_SHARE, find_losses, verdict
from xlahouse.sql.answers.words import duration, percent

# Two steps of a device, 1000 ps in all: 300 compute, 250 exposed (tp 200.4, dp 49.6), 50 exposed copy,
# 40 barriers, 60 idle, 280 between steps, 20 outside.
TIMES = {
    "phase": "decode",
    "device_steps": 2,
    "devices": 1,
    "window_ps": 700,
    "period_ps": 1000,
    "compute_ps": 300,
    "exposed_ps": 250,
    "exposed_copy_ps": 50,
    "sync_wait_ps": 40,
    "idle_ps": 60,
    "between_steps_ps": 280,
    "outside_ps": 20,
}
AXES = [("tp", 200.4), ("dp", 49.6)]


def test_the_parts_add_up():
    split = split_time(TIMES, AXES)
    assert [(part.name, part.axis, part.time_ps) for part in split.parts] == [
        ("compute", None, 300),
        ("exposed", "tp", 200),
        ("exposed", "dp", 50),
        ("exposed_copy", None, 50),
        ("sync_wait", None, 40),
        ("idle", None, 60),
        ("between_steps", None, 280),
        ("outside", None, 20),
    ]
    assert sum(part.time_ps for part in split.parts) == split.time_ps == 1000
    assert (split.mean_ps, split.parts[1].mean_ps, split.parts[1].share) == (500, 100, 0.2)
    assert (split.whole, split.why) == ("period", None)


@pytest.mark.parametrize(
    ("programs", "sentence"),
    [
        # (module, executions, ps): 131 of 131.6 ms over two devices
        ([("f", 2, 131 * 10**9), ("g", 2, 6 * 10**8)],
         "a step is one execution of any of 2 programs; f takes over 99 % of their time, "
         "65.5 ms an execution"),
        ([("f", 4, 20_000_000)], "a step is one execution of f, 5 µs an execution"),
        ([("f", 1, 0), ("g", 1, None)], "a step is one execution of any of 2 programs"),
        ([], None),
    ],
)  # fmt: skip
def test_launches_that_stand_for_steps_are_named(programs, sentence):
    keys = ("module", "executions", "time_ps")
    assert describe([dict(zip(keys, row, strict=True)) for row in programs]) == sentence


def test_steps_of_several_programs_have_no_mean_step():
    """Means are of a device then: 1000 ps on two devices."""
    split = split_time(TIMES | {"phase": "step", "devices": 2}, AXES, programs=3)
    assert (split.per, split.count, split.mean_ps) == ("device", 2, 500)
    assert next(part.mean_ps for part in split.parts if part.name == "compute") == 150
    found = find_losses(split)
    assert (
        found[0].text
        == "28 % of a device's 0.5 ns in 3 programs is idle time between steps: 0.14 ns"
    )
    assert verdict(split, found).startswith("30 % of a device's 0.5 ns in 3 programs is compute; ")
    alike = split_time(TIMES | {"phase": "step", "devices": 2}, AXES)
    assert (alike.per, alike.count, alike.mean_ps) == ("step", 2, 500)


def test_waits_for_circuits_are_a_part_of_their_own():
    waits = [{"axis": "tp", "exposed_ps": 100.4, "sync_wait_ps": 30}]
    split = split_time(*without_waits(TIMES, AXES, waits))
    # 100 of tp's exposed time and 30 of the barriers'.
    changed = {
        (part.name, part.axis): part.time_ps
        for part in split.parts
        if part not in split_time(TIMES, AXES).parts
    }
    assert changed == {
        ("exposed", "tp"): 100,
        ("sync_wait", None): 10,
        ("circuits", None): 130,
    }
    assert split.time_ps == 1000
    (found, *_) = [each for each in find_losses(split) if "circuits" in each.text]
    assert (
        found.text
        == "13 % of the mean decode step's 0.5 ns is waits for optical circuits: 0.065 ns"
    )
    assert "reconfiguration_plan" in found.lever


def test_without_waits_or_where_kernels_communicate_nothing_is_apart():
    assert without_waits(TIMES, AXES, []) == (TIMES, AXES)
    unknown = TIMES | {"compute_ps": None, "exposed_ps": None}
    waits = [{"axis": "tp", "exposed_ps": 1.0, "sync_wait_ps": 2}]
    assert without_waits(unknown, AXES, waits) == (unknown, AXES)


def test_rounding_goes_to_the_largest_axis():
    split = split_time(TIMES | {"exposed_ps": 250}, [("tp", 100.5), ("dp", 75.5), ("pp", 74.0)])
    exposed = [part.time_ps for part in split.parts if part.name == "exposed"]
    assert exposed == [100, 76, 74]
    assert sum(exposed) == 250


def test_at_most_three_losses_with_their_share():
    found = find_losses(split_time(TIMES, AXES))
    assert [(finding.share, finding.view) for finding in found] == [
        (0.28, "launch_overhead"),
        (0.2, "exposed_collective"),
        (0.06, "idle_gap"),
    ]
    assert (
        found[0].text == "28 % of the mean decode step's 0.5 ns is idle time between steps: 0.14 ns"
    )
    assert "along tp" in found[1].text
    assert all(finding.lever for finding in found)


@pytest.mark.parametrize(
    ("changed", "begins"),
    [
        (
            {},
            "30 % of the mean decode step's 0.5 ns is compute; the largest loss is idle time between "
            "steps, 28 %.",
        ),
        (
            {"compute_ps": 10, "exposed_copy_ps": 340},
            "34 % of the mean decode step's 0.5 ns is exposed copies: start transfers earlier",
        ),
    ],
)
def test_the_verdict_names_the_largest_part(changed, begins):
    split = split_time(TIMES | changed, AXES)
    assert verdict(split, find_losses(split)).startswith(begins)


def test_without_losses_the_verdict_is_about_compute():
    split = split_time(
        TIMES
        | {"compute_ps": 980, "between_steps_ps": 0}
        | dict.fromkeys(("exposed_ps", "exposed_copy_ps", "sync_wait_ps", "idle_ps"), 0),
        [],
    )
    assert find_losses(split) == ()
    assert f"no loss is above {100 * LEAST_SHARE:.0f} %" in verdict(split, ())


def test_kernels_that_communicate_leave_one_part_that_is_not_divided():
    split = split_time(TIMES | {"compute_ps": None, "exposed_ps": None}, [])
    assert (split.parts[0].name, split.parts[0].time_ps) == ("unsplit", 550)
    assert sum(part.time_ps for part in split.parts) == 1000
    assert "does not divide" in split.why


def test_without_periods_the_window_is_divided():
    unknown = dict.fromkeys(("period_ps", "between_steps_ps", "outside_ps"))
    split = split_time(TIMES | unknown, AXES)
    assert (split.whole, split.time_ps) == ("window", 700)
    assert sum(part.time_ps for part in split.parts) == 700
    assert "clocks" in split.why


# Two prefills of a device: 100 ps of the host, then windows of 300 ps in all.
PREFILL = {
    "device_steps": 2,
    "devices": 1,
    "period_ps": 400,
    "host_ps": 100,
    "compute_ps": 160,
    "exposed_ps": 80,
    "exposed_copy_ps": 30,
    "sync_wait_ps": 20,
    "idle_ps": 10,
}


def test_a_prefill_is_the_host_and_then_the_window():
    split = split_prefill(PREFILL, [("tp", 60.0), ("dp", 20.0)])
    assert [(part.name, part.axis, part.time_ps) for part in split.parts] == [
        ("host", None, 100),
        ("compute", None, 160),
        ("exposed", "tp", 60),
        ("exposed", "dp", 20),
        ("exposed_copy", None, 30),
        ("sync_wait", None, 20),
        ("idle", None, 10),
    ]
    assert sum(part.time_ps for part in split.parts) == split.time_ps == 400
    assert (split.mean_ps, split.whole, split.why) == (200, "marker", None)


def test_axes_of_other_prefills_do_not_divide_these():
    split = split_prefill(PREFILL, [("tp", 90.0), ("dp", 20.0)])
    exposed = [(part.axis, part.time_ps) for part in split.parts if part.name == "exposed"]
    assert exposed == [(None, 80)]
    assert "some prefills of the run do not count" in split.why


def test_prefills_whose_kernels_communicate_leave_one_part():
    split = split_prefill(PREFILL | {"compute_ps": None, "exposed_ps": None}, [])
    assert [(part.name, part.time_ps) for part in split.parts][:2] == [
        ("host", 100),
        ("unsplit", 240),
    ]
    assert split.time_ps == 400


def test_no_prefill_is_no_bar():
    assert split_prefill(PREFILL | {"device_steps": 0}, []) is None


def test_a_prefill_fills_up_the_findings():
    step = split_time(TIMES | {"exposed_ps": 0, "compute_ps": 610, "idle_ps": 0}, [])
    found = find_losses(step, split_prefill(PREFILL, [("tp", 80.0)]), lambda of, part: part.name)
    assert [finding.why for finding in found] == ["between_steps", "host", "exposed"]
    assert found[1].text == (
        "25 % of the mean prefill's 0.2 ns from its marker is time before the device's first op: "
        "0.05 ns; host"
    )
    assert (found[1].page, found[1].panel) == ("scheduling", "host-gaps")


def test_a_large_loss_of_prefills_comes_before_a_small_one_of_steps():
    # 280 and 200 ps of the steps; 100 ps of the prefills before 60 and 50 of the steps.
    found = find_losses(
        split_time(TIMES, AXES), split_prefill(PREFILL, [("tp", 80.0)]), lambda of, part: part.name
    )
    assert [(finding.why, round(finding.share, 2)) for finding in found] == [
        ("between_steps", 0.28),
        ("exposed", 0.2),
        ("host", 0.25),
    ]


@pytest.mark.parametrize(
    ("time_ps", "text"),
    [(1, "0.001 ns"), (999_400, "999 ns"), (999_600, "1 µs"), (5e9, "5 ms"), (2.345e12, "2.35 s")],
)
def test_durations(time_ps, text):
    assert duration(time_ps) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0, "0 %"), (0.001, "under 1 %"), (0.416, "42 %"), (0.999, "over 99 %"), (1, "100 %")],
)
def test_shares_are_not_rounded_to_nothing_or_all(share, text):
    assert percent(share) == text
