"""Idle time by cause and by length of gap, and what a pipeline costs, from steps that fit in a head."""

from __future__ import annotations

import pytest

from tests.reports.example import US, Store
from tests.reports.sections import filled, rows_of
from tests.reports.vega_lite import assert_valid, data
from xlahouse.reports.charts.palette import CAUSE_COLOURS
from xlahouse.reports.panels.time import bubbles, idle_gaps, pipeline

TP4 = "a" * 12
DEVICES = [
    {"run_id": "r", "device_id": device, "traced": True, "core": "tensorcore"} for device in (0, 1)
]
CAUSES = ("device", "host", "imbalance", "pipeline", "unattributed", "between_steps")


def step_rows(device, number, idle, phase="decode", window=100, **pipe):
    """The six rows of a step; `idle`: cause -> ps, 0 where not given."""
    key = {"run_id": "r", "device_id": device, "request": 0, "step": number, "phase": phase}
    return [
        {
            **key,
            "cause": cause,
            "idle_ps": idle.get(cause, 0),
            "window_ps": window,
            "period_ps": 2 * window,
        }
        | (pipe if cause == "pipeline" else {"ideal_ratio": pipe.get("ideal_ratio", 0.0)})
        for cause in CAUSES
    ]


def store_of(*groups, **tables):
    rows = [row for group in groups for row in group]
    return Store({"runs": [{"run_id": "r"}], "devices": DEVICES, "bubble_v2": rows, **tables})


def test_idle_time_adds_up_by_cause():
    store = store_of(
        step_rows(0, 1, {"host": 10, "between_steps": 40}),
        step_rows(0, 2, {"host": 20, "device": 5}),
        step_rows(1, 1, {"imbalance": 30}),
        step_rows(1, 2, {}),
        step_rows(0, 0, {"host": 99}, phase="warmup"),
    )
    rows = rows_of(store, bubbles.PANEL, "r")
    some = rows.filter(rows["idle_ps"] > 0)
    assert some.select("phase", "device_id", "cause", "steps", "idle_ps", "ratio").rows() == [
        ("decode", 0, "between steps", 2, 40, 0.1),
        ("decode", 0, "device", 2, 5, 0.0125),
        ("decode", 0, "host", 2, 30, 0.075),
        ("decode", 1, "imbalance", 2, 30, 0.075),
    ]
    section = filled(store, bubbles.PANEL, "r")
    assert_valid(section)
    by_phase, by_device = section.figures
    # Of 800 ps of wall time.
    assert {(row["cause"], row["ratio"]) for row in data(by_phase.spec)} == {
        ("between steps", 40 / 800),
        ("device", 5 / 800),
        ("host", 30 / 800),
        ("imbalance", 30 / 800),
    }
    assert {(row["device_id"], row["cause"], row["step_ps"]) for row in data(by_device.spec)} == {
        (0, "device", 2.5),
        (0, "host", 15),
        (0, "between steps", 20),
        (1, "imbalance", 15),
    }
    scale = by_phase.spec["encoding"]["color"]["scale"]
    shown = ("device", "host", "imbalance", "between steps")
    assert sorted(scale["range"]) == sorted(CAUSE_COLOURS[cause] for cause in shown)
    assert section.coverage.startswith("4 device steps outside warm-up.")


def test_a_cause_that_one_step_cannot_tell_is_not_known():
    store = store_of(
        step_rows(0, 1, {"host": 10, "imbalance": None}), step_rows(0, 2, {"imbalance": 7})
    )
    rows = rows_of(store, bubbles.PANEL, "r")
    assert rows.filter(rows["cause"] == "imbalance")["idle_ps"].to_list() == [None]
    section = filled(store, bubbles.PANEL, "r")
    assert {row["cause"] for row in data(section.figures[0].spec)} == {"host"}
    assert section.notes[0].startswith("Not known for some devices: the causes imbalance;")


def test_devices_that_are_never_idle_say_so():
    section = filled(store_of(step_rows(0, 1, {})), bubbles.PANEL, "r")
    assert section.figures == []
    assert section.notes == ["No device was idle, within steps or between them."]


def test_the_example_is_idle_between_its_steps_only(two_runs):
    # Steps of 100 us every 200 us: 11 gaps of 100 us on each of 4 devices, 2 of them before a prefill. A
    # request is open 15 us after its last step and 5 before its first; [115,195) is between requests.
    rows = rows_of(two_runs, bubbles.PANEL, TP4)
    between = rows.filter(rows["cause"] == "between steps").select("phase", "device_id", "idle_ps")
    assert between.rows() == [
        (phase, device, idle * US)
        for phase, idle in (("prefill", 2 * 20), ("decode", 9 * 100))
        for device in range(4)
    ]
    gaps = rows_of(two_runs, idle_gaps.PANEL, TP4)
    # A gap between requests is one of 15 and one of 5; 1e8 ps opens the bin from 100 us to 1 ms.
    assert gaps.select("from_ps", "to_ps", "cause", "gaps", "idle_ps", "ratio").rows() == [
        (1 * US, 10 * US, "between steps", 8, 40 * US, pytest.approx(40 / 3760)),
        (10 * US, 100 * US, "between steps", 8, 120 * US, pytest.approx(120 / 3760)),
        (100 * US, 1000 * US, "between steps", 36, 3600 * US, pytest.approx(3600 / 3760)),
    ]


def test_gaps_are_binned_by_powers_of_ten():
    lengths = (("host", 200_000), ("host", 999_999), ("device", 300_000), ("host", 8_500_000))
    gaps = [
        {"run_id": "r", "device_id": 0, "phase": "decode", "cause": cause, "duration_ps": ps}
        for cause, ps in lengths
    ]
    warm = {**gaps[0], "phase": "warmup", "duration_ps": 10**12}
    store = store_of(idle_gap_v2=[*gaps, warm])
    rows = rows_of(store, idle_gaps.PANEL, "r")
    # 10 us = 9,999,999 + 1 ps in all.
    assert rows.select("from_ps", "cause", "gaps", "idle_ps", "longest_ps", "ratio").rows() == [
        (100_000, "device", 1, 300_000, 300_000, pytest.approx(300_000 / 9_999_999)),
        (100_000, "host", 2, 1_199_999, 999_999, pytest.approx(1_199_999 / 9_999_999)),
        (1_000_000, "host", 1, 8_500_000, 8_500_000, pytest.approx(8_500_000 / 9_999_999)),
    ]
    section = filled(store, idle_gaps.PANEL, "r")
    assert_valid(section)
    names = [row["length"].replace("\u00a0", " ") for row in data(section.figures[0].spec)]
    assert set(names) == {"100 ns to 1.00 µs", "1.00 µs to 10.0 µs"}


def test_a_pipelines_parts_stand_beside_the_ideal():
    # 2 stages, 3 microbatches: 1/4. Two steps: (10+20+0 + 0+20+30) / (100+100 + 30).
    parts = {"masked_source": "tick", "ideal_ratio": 0.25}
    store = store_of(
        step_rows(
            0, 1, {"pipeline": 10}, masked_ps=20, fill_drain_ps=0, pipeline_ratio=0.3, **parts
        ),
        step_rows(0, 2, {}, masked_ps=20, fill_drain_ps=30, pipeline_ratio=0.5, **parts),
    )
    rows = rows_of(store, pipeline.PANEL, "r")
    picked = rows.select(
        "steps", "idle_ps", "masked_ps", "fill_drain_ps", "pipeline_ratio", "ideal_ratio"
    )
    assert picked.rows() == [(2, 10, 40, 30, pytest.approx(80 / 230), 0.25)]
    section = filled(store, pipeline.PANEL, "r")
    assert_valid(section)
    (figure,) = section.figures
    assert {row["part"]: row["ratio"] for row in data(figure.spec)} == {
        "empty microbatches": pytest.approx(40 / 230),
        "idle, other stages busy": pytest.approx(10 / 230),
        "filling and draining": pytest.approx(30 / 230),
    }
    assert data(figure.spec, 1) == [{"device_id": 0, "ideal_ratio": 0.25}]
    assert section.notes == []


def test_what_is_not_known_of_a_pipeline_is_left_out_and_told():
    parts = {"masked_ps": 20, "masked_source": "tick", "ideal_ratio": 0.25}
    others = {"masked_ps": None, "masked_source": "no_tick_markers", "ideal_ratio": 0.25}
    store = store_of(step_rows(0, 1, {"pipeline": None}, **parts))
    section = filled(store, pipeline.PANEL, "r")
    assert [row["part"] for row in data(section.figures[0].spec)] == ["empty microbatches"]
    assert section.coverage.startswith("The whole bubble is known for 0 of 1 device step.")
    assert section.notes[0].startswith("Not known: idle, other stages busy, filling and draining;")
    section = filled(store_of(step_rows(0, 1, {}, **others)), pipeline.PANEL, "r")
    assert section.notes[0].startswith("Where ticks are not marked,")
    assert section.notes[1].startswith("Not known: empty microbatches, filling and draining;")


def test_a_run_without_a_pipeline_says_so(two_runs):
    section = filled(two_runs, pipeline.PANEL, TP4)
    assert section.empty.startswith("The run's mesh has no pipeline")
