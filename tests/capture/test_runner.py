"""Plans as a whole: which experiments run, which are skipped, and what one failure does to the rest."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.capture.test_manifest import MANIFEST
from tests.conftest import DEMO_PLAN
from tests.layers import first_few
from xlahouse.capture.errors import CaptureError, ManifestError
from xlahouse.capture.manifest import manifest_path, write_manifest
from xlahouse.capture.plan import read_plan
from xlahouse.capture.run import runner
from xlahouse.capture.run.runner import CaptureEvent, choose_experiments, resolve_device, run_plan

TP4, DP2_TP2 = read_plan(DEMO_PLAN).experiments


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """The capture extra counts as installed, and no TPU is asked for."""
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "libtpu" else name
    )
    monkeypatch.delenv("PJRT_DEVICE", raising=False)


def finish(experiment, traces, timestamp="1", device="CPU", xplane=b"x"):
    """Leave a capture as a finished experiment does."""
    trace = traces / experiment.cell / f"trace_{timestamp}.trace"
    session = trace / "plugins/profile/s"
    session.mkdir(parents=True)
    (session / "h.xplane.pb").write_bytes(xplane)
    manifest = msgspec.structs.replace(
        MANIFEST, plan_entry=msgspec.to_builtins(experiment), flags={"PJRT_DEVICE": device}
    )
    write_manifest(manifest, manifest_path(trace))
    return trace


@pytest.fixture
def captured(monkeypatch):
    """Experiments that would have run; each leaves a capture, or fails if its name is in `fails`."""
    ran = {"names": [], "fails": ()}

    def run(self, experiment, traces, listen, stamp=None):
        ran["names"].append(experiment.name)
        if experiment.name in ran["fails"]:
            raise CaptureError(f"experiment {experiment.name}: broken")
        return finish(experiment, traces, f"9{len(ran['names'])}")

    monkeypatch.setattr(runner.CaptureProcess, "run", run)
    return ran


def test_runs_every_experiment_then_skips_them(tmp_path, captured):
    events = []
    first = run_plan(DEMO_PLAN, tmp_path, on_event=events.append)
    again = run_plan(DEMO_PLAN, tmp_path, on_event=events.append)
    assert captured["names"] == ["tp4", "dp2.tp2"]
    assert first == again
    assert [(event.experiment, event.kind) for event in events] == [
        ("tp4", "started"),
        ("tp4", "captured"),
        ("dp2.tp2", "started"),
        ("dp2.tp2", "captured"),
        ("tp4", "skipped"),
        ("dp2.tp2", "skipped"),
    ]
    assert events[-1] == CaptureEvent("dp2.tp2", "skipped", str(first[1]))


def test_fresh_captures_again(tmp_path, captured):
    old = finish(TP4, tmp_path)
    assert run_plan(DEMO_PLAN, tmp_path, experiments=("tp4",), fresh=True) != [old]
    assert captured["names"] == ["tp4"]


def test_the_newest_of_several_captures_counts(tmp_path, captured):
    finish(TP4, tmp_path, "20260101")
    newest = finish(TP4, tmp_path, "20260102")
    assert run_plan(DEMO_PLAN, tmp_path, experiments=("tp4",)) == [newest]


@pytest.mark.parametrize(
    ("change", "spoil"),
    [
        ({"device": "TPU"}, None),
        ({"xplane": b""}, None),
        ({}, "unlink"),
        ({}, "cut"),
    ],
)
def test_what_is_not_the_same_finished_capture_is_captured_again(tmp_path, captured, change, spoil):
    path = manifest_path(finish(TP4, tmp_path, **change))
    if spoil == "unlink":
        path.unlink()
    elif spoil == "cut":
        path.write_bytes(path.read_bytes()[:100])
    run_plan(DEMO_PLAN, tmp_path, experiments=("tp4",))
    assert captured["names"] == ["tp4"]


def test_a_changed_plan_entry_is_captured_again(tmp_path, captured):
    finish(msgspec.structs.replace(TP4, seed=1), tmp_path)
    run_plan(DEMO_PLAN, tmp_path, experiments=("tp4",))
    assert captured["names"] == ["tp4"]


def test_after_a_failure_the_next_experiment_still_runs(tmp_path, captured):
    captured["fails"], events = ("tp4",), []
    with pytest.raises(CaptureError) as caught:
        run_plan(DEMO_PLAN, tmp_path, on_event=events.append)
    assert str(caught.value) == "experiment tp4: broken"
    assert [(event.experiment, event.kind) for event in events] == [
        ("tp4", "started"),
        ("tp4", "failed"),
        ("dp2.tp2", "started"),
        ("dp2.tp2", "captured"),
    ]


def test_experiments_of_one_mesh_follow_each_other_and_traces_keep_the_order(tmp_path, captured):
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "defaults: {model: {name: q, preset: qwen3-demo}, prompt_tokens: 4, output_tokens: 2}\n"
        "experiments:\n"
        "  - {name: a, mesh: {tp: 4}, batch_size: 4}\n"
        "  - {name: b, mesh: {dp: 4}, batch_size: 4}\n"
        "  - {name: c, mesh: {tp: 4}, batch_size: 8}\n"
        "  - {name: d, mesh: {tp: 4}, batch_size: 2}\n"
    )
    traces = run_plan(plan, tmp_path / "t")
    assert captured["names"] == ["d", "a", "c", "b"]
    parents = [trace.parent.relative_to(tmp_path / "t") for trace in traces]
    assert parents == [each.cell for each in read_plan(plan).experiments]


def test_choice_by_name_and_device_count():
    assert choose_experiments(DEMO_PLAN, ("dp2.tp2",)) == [DP2_TP2]
    assert choose_experiments(DEMO_PLAN, (), 4) == [TP4, DP2_TP2]
    assert choose_experiments(DEMO_PLAN, (), 8) == [TP4, DP2_TP2]
    with pytest.raises(ManifestError, match=r"no experiment 'tp8'; it has tp4, dp2\.tp2"):
        choose_experiments(DEMO_PLAN, ("tp8",))
    with pytest.raises(ManifestError, match="experiment tp4: its mesh has 4 devices, more than 2"):
        choose_experiments(DEMO_PLAN, (), 2)


def test_choice_by_pattern_and_the_nearest_of_many():
    study = DEMO_PLAN.with_name("study.yaml")
    chosen = choose_experiments(study, ("qwen3-v4-16-*", "qwen3-v5e-8-tp8-r0"))
    assert {each.slice for each in chosen} == {"v4-16", "v5e-8"}
    assert len(chosen) == 3 * 3 + 1
    with pytest.raises(ManifestError) as caught:
        choose_experiments(study, ("qwen3-v4-16-tp9-r0",))
    count = len(choose_experiments(study))
    start = f"{study}: no experiment 'qwen3-v4-16-tp9-r0'; of its {count} the nearest are qwen3-v4-16-tp8-r0"
    assert str(caught.value).startswith(start)


def test_without_torch_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CaptureError, match=r"needs torch, .*pip install 'xlahouse\[capture\]'"):
        run_plan(DEMO_PLAN, tmp_path)


def test_device_is_the_environments_else_what_there_is(monkeypatch):
    assert resolve_device("tpu") == "tpu"
    assert resolve_device("auto") == "cpu"  # without libtpu
    monkeypatch.setenv("PJRT_DEVICE", "TPU")
    assert resolve_device("auto") == "tpu"
    with pytest.raises(CaptureError, match="no device 'gpu'; choose auto, cpu or tpu"):
        resolve_device("gpu")


@pytest.mark.parametrize("victim", first_few(["parent", "child"], 1))
def test_a_run_that_is_killed_resumes_without_repeating_or_losing_a_cell(tmp_path, victim):
    """SIGKILL in the middle of the second of two experiments, then the same command again."""
    traces, stop, fifo = tmp_path / "traces", tmp_path / "stop", tmp_path / "fifo"
    stop.write_text(victim)
    os.mkfifo(fifo)
    ended = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    command = [sys.executable, "-m", "tests.capture.killed_run", str(traces), str(stop)]
    places = {"cwd": Path(__file__).parents[2], "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **places) as killed:
        for line in killed.stdout:
            if line.startswith("progress dp2.tp2 in the middle"):
                killed.kill()
    os.set_blocking(ended, True)
    assert os.read(ended, 1) == b""  # no stand-in for a capture is left
    os.close(ended)
    assert killed.returncode == (-signal.SIGKILL if victim == "parent" else 1)
    (first,) = traces.rglob("trace_*.trace")
    assert first.parent == traces / TP4.cell
    assert list(traces.rglob("*.partial")) == []

    stop.unlink()
    again = subprocess.run(command, **places, check=True)
    told = [line.split(" ", 2) for line in again.stdout.splitlines()]
    assert told[0] == ["skipped", "tp4", str(first)]
    assert [words[:2] for words in told[1:]] == [["started", "dp2.tp2"], ["captured", "dp2.tp2"]]
    assert sorted(traces.rglob("trace_*.trace")) == sorted([first, Path(told[2][2])])
