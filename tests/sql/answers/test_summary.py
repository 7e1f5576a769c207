"""The summary of a run: its parts add up to numbers worked out by hand, and what is unknown has a reason."""

from __future__ import annotations

import json

import pytest

from tests.command import run_command
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import WarehouseError
from xlahouse.sql import Warehouse
from xlahouse.sql.answers.summary import LEAST_SHARE, find_losses, split_time, summarize, verdict
from xlahouse.sql.answers.wording import summary_lines

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
        ({}, "30 % of the mean decode step's 0.5 ns is compute; the largest loss: 28 % of"),
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


RUN = {"run_id": "ab12", "name": "base\x1b[2J", "status": "complete", "output_tokens": 1}
DEVICE = {"run_id": "ab12", "device_id": 0, "traced": True, "core": "tensorcore"}


# Step 1 computes for 100 and copies for 300; step 2 starts 100 later and computes for 100.
SPANS = ((1, "compute", 0, 100), (1, "copy", 100, 300), (2, "compute", 500, 100))
OPS = [
    {"run_id": "ab12", "device_id": 0, "request": 0, "step": step, "category": category}
    | {"start_ps": start, "duration_ps": length}
    for step, category, start, length in SPANS
]
BUSY = [op | {"category": op["category"].replace("copy", "copy_running")} for op in OPS]


@pytest.fixture
def root(tmp_path):
    bare = {"run_id": "cd34", "name": "bare", "status": "no_device_events"}
    issue = {"run_id": "ab12", "severity": "warning", "code": "x", "message": "y", "count": 3}
    tables = {"runs": [RUN, bare], "devices": [DEVICE], "issues": [issue]}
    tables |= {"ops": [op | {"phase": "decode"} for op in OPS], "busy_intervals": BUSY}
    return write_warehouse(tmp_path / "w", tables)


def test_a_run_from_its_views(root):
    with Warehouse(root) as warehouse:
        found = summarize(warehouse, "ab12")
    parts = {part.name: part.time_ps for part in found.split.parts}
    assert (parts["compute"], parts["exposed_copy"], parts["between_steps"]) == (200, 300, 100)
    assert sum(parts.values()) == found.split.time_ps == 600
    assert found.verdict.startswith("50 % of the mean decode step's 0.3 ns is exposed copies")
    assert found.ttft.value_s is None
    assert found.ttft.why
    assert found.tpot.why
    assert [(one.code, one.count) for one in found.data] == [("x", 3)]


def test_a_run_without_devices_has_reasons_and_no_numbers(root):
    with Warehouse(root) as warehouse:
        found = summarize(warehouse, "bare")
        with pytest.raises(WarehouseError, match="no run 'nosuch'"):
            summarize(warehouse, "nosuch")
    assert (found.split, found.findings) == (None, ())
    assert found.verdict == "No verdict: no device events in the trace."
    assert "no device events in the trace" in "\n".join(summary_lines(found))


def test_the_verb(root, monkeypatch, capsys):
    assert run_command(monkeypatch, "summary", "ab12", "-w", root) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("base\\x1b[2J: 50 % of ")
    assert any(line.startswith("  exposed_copy ") and "50.00%" in line for line in lines)
    assert run_command(monkeypatch, "summary", "ab12", "-w", root, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(part["time_ps"] for part in found["split"]["parts"]) == 600
    assert found["ttft"]["value_s"] is None
