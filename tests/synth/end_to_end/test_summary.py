"""Synthetic runs, ingested: a summary's bars equal their closed forms, and their parts add up exactly."""

from __future__ import annotations

from collections import defaultdict
from functools import partial

import pytest

from tests.each import check_each
from tests.synth.describe import PREFILL, WARMUP
from tests.synth.times import step_split, step_window
from xlahouse.sql.answers.summary import summarize_run

pytestmark = pytest.mark.xdist_group("synthetic")
SAMPLE = ("dp_tp", "warmed_up")
BUSY = ("compute", "exposed_copy", "sync_wait", "idle")


def parts_of(split):
    """Name -> time of a split's parts, exposed communication over all axes."""
    found = defaultdict(int)
    for part in split.parts:
        found[part.name] += part.time_ps
    return {name: time_ps for name, time_ps in found.items() if time_ps}


def prefill_parts(run):
    """From the marker: dispatch and the device's place in the step, then its window; with the windows."""
    found, count = defaultdict(int), 0
    for position in run.positions:
        parts = step_split(run, PREFILL, position)
        first, _ = step_window(run, PREFILL, position)
        for each in run.passes:
            if each.phase == PREFILL and each.label != WARMUP and run.saw(position, each.index):
                count += 1
                found["host"] += run.dispatch_ps + first
                for name in (*BUSY, "exposed"):
                    found[name] += parts[f"{name}_ps"]
    return {name: time_ps for name, time_ps in found.items() if time_ps}, count


def check_run(ingested):
    run = ingested.run
    found = summarize_run(ingested.warehouse, ingested.run_id)
    phases = {row["phase"]: row for row in ingested.expected["comm_compute"]}
    row = next(phases[name] for name in ("decode", "step", "prefill") if name in phases)
    names = (*BUSY, "exposed", "between_steps")
    assert parts_of(found.split) == {n: row[f"{n}_ps"] for n in names if row[f"{n}_ps"]}
    assert (
        sum(part.time_ps for part in found.split.parts) == row["period_ps"] == found.split.time_ps
    )
    # Without markers a step is an execution of the prefill's or of the decode's program: no mean step.
    count = len(run.positions) if row["phase"] == "step" else row["device_steps"]
    assert found.split.mean_ps == row["period_ps"] / count
    axes = defaultdict(float)
    for each in ingested.expected["exposed_collective"]:
        if each["phase"] == row["phase"]:
            axes[each["axis"]] += each["exposed_ps"]
    drawn = {part.axis: part.time_ps for part in found.split.parts if part.name == "exposed"}
    assert drawn == pytest.approx(dict(axes), abs=len(axes) + 1)
    if not run.markers:
        assert found.prefill is None
        assert found.why_no_prefill
        return
    expected, count = prefill_parts(run)
    assert parts_of(found.prefill) == expected
    assert found.prefill.time_ps == sum(expected.values())
    assert found.prefill.device_steps == count


def check_runs(runs):
    check_each("runs", {name: partial(check_run, run) for name, run in runs.items()})


@pytest.mark.parametrize("synthetic_runs", ["few"], indirect=True)
def test_the_bars_add_up(synthetic_runs):
    check_runs({name: run for name, run in synthetic_runs.items() if name in SAMPLE})


@pytest.mark.verify
@pytest.mark.parametrize("synthetic_runs", ["all"], indirect=True)
def test_the_bars_of_all_runs_add_up(synthetic_runs):
    check_runs(synthetic_runs)
