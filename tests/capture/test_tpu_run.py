"""Whole runs on TPU VMs, and the verbs of `xlahouse tpu`, against a fake gcloud."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.capture.zone import PLAN, ZONE, calls, create, play, run
from tests.command import run_command
from xlahouse.capture.errors import CaptureError
from xlahouse.capture.tpu import run as tpu_run
from xlahouse.capture.tpu.package import source_folder


@pytest.mark.verify
def test_a_run_brings_every_hosts_traces_home_without_half_ones(zone):
    play(zone, hosts=2)
    create(zone)
    folders = run(zone)
    assert len(folders) == 3
    for folder in folders:
        planes = sorted(path.name for path in folder.rglob("*.xplane.pb"))
        assert planes == ["host0.xplane.pb", "host1.xplane.pb"]
    traces = zone.folder / "traces"
    assert not list(traces.rglob("*.partial"))
    assert not list(traces.glob(".fetch-*"))
    assert "  it goes on" in zone.lines
    plan, wheel = zone.root / "host1" / ".xlahouse" / "plan.yaml", "xlahouse-0.1.0-py3-none-any.whl"
    assert plan.read_text() == PLAN
    install = next(words for words in calls(zone) if any("pip install" in word for word in words))
    assert any(f"{wheel}[capture,tpu]" in word for word in install)


@pytest.mark.verify
def test_a_file_of_arrivals_goes_beside_the_plan_on_every_host(zone):
    serving = "\n  - {name: s, mesh: {tp: 4}, serving: {file: load.jsonl}}\n"
    (zone.folder / "plan.yaml").write_text(PLAN.rstrip() + serving)
    line = '{"at_s": 0, "prompt_tokens": 1, "output_tokens": 1}\n'
    (zone.folder / "load.jsonl").write_text(line)
    play(zone, hosts=2)
    create(zone)
    (folder,) = run(zone, experiments=("s",))
    assert folder.is_dir()
    for host in ("host0", "host1"):
        assert (zone.root / host / ".xlahouse" / "load.jsonl").read_text() == line


@pytest.mark.verify
def test_a_second_run_captures_nothing_again(zone):
    create(zone)
    first = run(zone)
    before = len(calls(zone))
    assert run(zone) == first
    assert len(calls(zone)) == before


@pytest.mark.verify
def test_a_vm_that_is_taken_away_costs_one_experiment_and_says_so(zone):
    play(zone, captures_a_life=[1])
    create(zone)
    with pytest.raises(
        CaptureError, match=r"vm was preempted with 2 of 3 experiments to go; .*--recreate"
    ):
        run(zone)
    assert len(list((zone.folder / "traces").rglob("metadata_*.json"))) == 1


@pytest.mark.verify
def test_a_run_goes_on_on_a_new_vm_of_the_same_kind(zone):
    play(zone, captures_a_life=[1, 1])
    create(zone)
    assert len(run(zone, recreate=2)) == 3
    creations = [words for words in calls(zone) if words[:2] == ["queued-resources", "create"]]
    assert len(creations) == 3
    assert {*creations[1], "--network=default"} == {*creations[0], "--network=default"}
    captured = [words for words in calls(zone) if any(" --experiment " in word for word in words)]
    names = [
        word.split(" --experiment ")[1].split()[0]
        for w in captured
        for word in w
        if " --experiment " in word
    ]
    assert names == ["a", "b", "b", "c", "c"]


@pytest.fixture
def batches(zone):
    """A plan of three batches on one mesh, and one experiment on another."""
    (zone.folder / "plan.yaml").write_text(
        "defaults: {model: {name: m, preset: qwen3-demo}, prompt_tokens: 8, output_tokens: 2}\n"
        "experiments:\n"
        "  - {name: a, mesh: {tp: 4}, batch_size: 4}\n"
        "  - {name: z, mesh: {dp: 4}, batch_size: 4}\n"
        "  - {name: b, mesh: {tp: 4}, batch_size: 8}\n"
        "  - {name: c, mesh: {tp: 4}, batch_size: 8, output_tokens: 3}\n"
    )
    return zone


def commands_of(zone):
    """The experiments of each capture command, and `fetch` with the cell for each fetch of traces."""
    found = []
    for words in calls(zone):
        (script,) = [word for word in words if word.startswith("--command=")] or [""]
        names = re.findall(r" --experiment (\S+)", script)
        cell = re.search(r"-czf - (m/\S+)", script)
        if names or cell:
            found.append(" ".join(names) or f"fetch {cell[1]}")
    return found


@pytest.mark.verify
def test_experiments_of_one_mesh_are_one_command_and_each_is_fetched_when_it_is_there(batches):
    create(batches)
    assert len(run(batches)) == 4
    large = "fetch m/tp4/batch_8_seq_8"
    assert commands_of(batches) == [
        *("a b c", "fetch m/tp4/batch_4_seq_8", large, large),
        *("z", "fetch m/dp4/batch_4_seq_8"),
    ]


@pytest.mark.verify
def test_an_experiment_that_fails_costs_none_of_its_command(batches, monkeypatch):
    monkeypatch.setenv("BROKEN", "b")
    create(batches)
    with pytest.raises(CaptureError, match=r"^experiment b: gcloud tpu-vm ssh failed: .*Worker 0"):
        run(batches)
    assert len(list((batches.folder / "traces").rglob("metadata_*.json"))) == 3
    assert "a: captured" in "\n".join(batches.lines)


@pytest.mark.verify
def test_a_vm_that_is_taken_away_within_a_command_costs_one_experiment(batches, monkeypatch):
    """What was captured before it is here already."""
    os.mkfifo(batches.root / "go")

    class Lines(list):
        def append(self, line):
            super().append(line)
            if line == "  it is about to be taken away":
                (batches.root / "go").write_text("go")

    batches.lines = Lines()
    monkeypatch.setenv("TAKEN_IN", "b")
    create(batches)
    assert len(run(batches, recreate=1)) == 4
    captures = [line for line in commands_of(batches) if not line.startswith("fetch")]
    assert captures == ["a b c", "z", "b c"]


@pytest.mark.verify
def test_programs_that_were_compiled_go_to_the_next_vm(zone):
    """Each experiment finds what all before it compiled, also on a VM that is created again."""
    play(zone, captures_a_life=[2], hosts=2)
    create(zone)
    run(zone, recreate=1)
    found = [line for line in zone.lines if line.startswith("  found")]
    per_host = ["  found []", "  found ['a']", "  found ['a', 'b']"]
    assert found == [line for line in per_host for _ in range(2)]
    programs = zone.folder / "traces" / ".programs"
    assert sorted(path.name for path in programs.rglob("*") if path.is_file()) == ["a", "b", "c"]


def test_a_dry_run_and_a_run_show_the_same_commands(zone, monkeypatch, capsys):
    """A plan of the older form, where it lies; only the stamps of captures differ."""
    plan = zone.folder / "configs" / "experiments.yaml"
    plan.parent.mkdir()
    plan.write_text(
        "experiments:\n"
        "  - model: Qwen-32B\n    parallelism: {strategy: tensor, tp_size: 4}\n"
        "    batch_size: 8\n    sequence_length: 512\n    num_tokens: 128\n    enable_profiling: true\n"
        "  - model: Qwen-32B\n    parallelism: {strategy: none}\n    batch_size: 8\n"
        "    sequence_length: 512\n    num_tokens: 128\n    enable_profiling: true\n"
    )
    monkeypatch.chdir(zone.folder)
    wheel = str(next(zone.folder.glob("*.whl")))
    words = ("run", "vm", "configs/experiments.yaml", "--zone", ZONE, "--install", wheel)
    create(zone, "v6e-4")
    assert command(monkeypatch, *words, "--dry-run") == 0
    dry = [line for line in capsys.readouterr().out.splitlines() if line]
    assert not list((zone.folder / "traces").glob("*/"))
    assert command(monkeypatch, *words) == 0
    shown = capsys.readouterr().err.splitlines()

    def said(lines):
        joined = re.sub(r"--stamp \S+", "", "\n".join(lines))
        return re.findall(r"(?ms)^gcloud .*?--quiet$", joined)

    assert said(shown) == said(dry) != []
    assert sum("xlahouse capture experiments.yaml" in line for line in said(dry)) == 2
    assert any("pip install --torch-backend=cpu" in line for line in said(dry))


@pytest.mark.verify
def test_an_experiment_that_fails_costs_itself(zone, monkeypatch):
    monkeypatch.setenv("BROKEN", "b")
    create(zone)
    with pytest.raises(CaptureError, match=r"experiment b: gcloud tpu-vm ssh failed: .*Worker 0"):
        run(zone)
    assert "  RESOURCE_EXHAUSTED: Attempting to allocate 32.00G" in zone.lines
    assert len(list((zone.folder / "traces").rglob("metadata_*.json"))) == 2


def test_nothing_runs_on_a_vm_that_is_not_there_or_not_ready(zone):
    with pytest.raises(CaptureError, match=f"no TPU VM vm in {ZONE}"):
        run(zone)
    play(zone, ["ACTIVE", "PROVISIONING"])
    create(zone)
    with pytest.raises(CaptureError, match="vm is PROVISIONING; wait"):
        run(zone)


@pytest.mark.verify
def test_a_cut_archive_is_said_and_leaves_nothing(zone):
    create(zone)
    run(zone)
    tar = zone.root / "tools" / "tar"
    tar.write_text('#!/bin/sh\n/usr/bin/env -i /bin/tar "$@" | head -c 100\n')
    tar.chmod(0o755)
    other = zone.folder / "elsewhere"
    with pytest.raises(CaptureError, match="archive of traces from gcloud is incomplete"):
        tpu_run.fetch(zone.gcloud, "vm", other)
    assert list(other.iterdir()) == []


def command(monkeypatch, *words):
    return run_command(monkeypatch, "tpu", *words)


def test_a_dry_run_prints_the_commands_and_runs_none(zone, monkeypatch, capsys):
    words = ("create", "vm", "--type", "v4-32", "--zone", "us-central2-b", "--on-demand")
    assert command(monkeypatch, *words, "--hours", "3", "--project", "p", "--dry-run") == 0
    out, err = capsys.readouterr()
    assert out == (
        "gcloud compute tpus queued-resources create vm --node-id=vm --accelerator-type=v4-32 "
        "--runtime-version=tpu-ubuntu2204-base --valid-until-duration=6h --zone=us-central2-b --quiet "
        "--project=p\n"
    )
    assert "16 on-demand v4 chips in us-central2-b on 4 hosts: 48 chip-hours in 3 hours" in err
    plan = str(zone.folder / "plan.yaml")
    assert command(monkeypatch, "run", "vm", plan, "--zone", ZONE, "--dry-run") == 0
    assert capsys.readouterr().out.count("xlahouse capture plan.yaml --experiment") == 3
    assert command(monkeypatch, "delete", "vm", "--zone", ZONE, "--dry-run") == 0
    assert "queued-resources delete vm --force" in capsys.readouterr().out
    assert not (zone.root / "calls.jsonl").exists()


def test_the_command_line_goes_the_whole_way(zone, monkeypatch, capsys):
    monkeypatch.chdir(zone.folder)
    monkeypatch.setenv("XLAHOUSE_TPU_ZONE", ZONE)
    assert command(monkeypatch, "create", "vm", "--type", "v6e-4") == 0
    assert "xlahouse tpu delete vm" in capsys.readouterr().err
    wheel = str(next(zone.folder.glob("*.whl")))
    assert (
        command(monkeypatch, "run", "vm", "plan.yaml", "--install", wheel, "--experiment", "a") == 0
    )
    (folder,) = capsys.readouterr().out.splitlines()
    assert Path(folder).is_dir()
    assert command(monkeypatch, "fetch", "vm", "--traces", "again") == 0
    (manifest,) = capsys.readouterr().out.splitlines()
    assert Path(manifest).is_file()
    assert command(monkeypatch, "delete", "vm", "--yes") == 0
    assert command(monkeypatch, "delete", "vm", "--yes") == 1
    assert "NOT_FOUND" in capsys.readouterr().err


def test_the_checkout_is_found():
    folder = source_folder()
    assert folder is None or (folder / "capture" / "tpu" / "package.py").is_file()
