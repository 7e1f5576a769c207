"""Limits of what an input may cost: their names, their flag, and those of plans."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command import run_command
from xlahouse.capture import limits
from xlahouse.capture.errors import ManifestError
from xlahouse.capture.manifest import parse_mesh
from xlahouse.capture.plan import read_plan

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases" / "faults"
PLAN = """
name: p
experiments:
  - {{name: e, model: qwen3-demo, prompt_tokens: 8, output_tokens: 2, {}}}
"""


def test_the_readme_lists_them():
    assert limits.described() in (ROOT / "ingest/README.md").read_text("utf-8"), limits.described()


def test_a_limit_is_raised_by_its_name(monkeypatch):
    monkeypatch.setenv(limits.VARIABLE, "")
    assert limits.most("archive_files") == 100_000
    limits.use_limits("archive_files=7,events=1_000")
    assert (limits.most("archive_files"), limits.most("events")) == (7, 1000)
    assert limits.most("json_bytes") == limits.LIMITS["json_bytes"].most


@pytest.mark.parametrize("text", ["files=1", "events", "events=0", "events=-1", "events=1e9", "=1"])
def test_a_wrong_limit_is_refused(text, monkeypatch):
    monkeypatch.setenv(limits.VARIABLE, "")
    with pytest.raises(ManifestError, match="--limits"):
        limits.use_limits(text)


def test_the_flag_is_of_every_verb(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv(limits.VARIABLE, "")
    assert (
        run_command(
            monkeypatch, "--limits", "mesh_devices=1", "capture", plan(tmp_path), "--dry-run"
        )
        == 1
    )
    said = capsys.readouterr().err
    assert "2 devices are more than 1 devices of a mesh" in said
    assert "raise the limit with --limits mesh_devices=NUMBER" in said
    assert run_command(monkeypatch, "ingest", tmp_path, "--limits", "x=1") == 1
    assert "limits are text_bytes, " in capsys.readouterr().err


def plan(tmp_path, fields="mesh: {tp: 2}, batch_size: 4"):
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN.format(fields))
    return path


def test_a_huge_mesh_is_refused_at_once():
    with pytest.raises(ManifestError, match=r"line 10: .*1,000,000,000,000 devices are more than"):
        read_plan(CASES / "huge_mesh_plan.yaml")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            "mesh: {tp: 2}, batch_size: 4, repeats: 1000000000000",
            "repeats: 1,000,000,000,000 are more",
        ),
        (
            f"mesh: {{tp: 2}}, batch_size: {[1] * 200}, seed: {[1] * 200}",
            "40,000 values are more than",
        ),
    ],
)
def test_huge_sweeps_are_refused_at_once(fields, said, tmp_path):
    with pytest.raises(ManifestError, match=f"{said} .*--limits experiments="):
        read_plan(plan(tmp_path, fields))


def test_a_mesh_of_many_divisors_is_refused_without_a_long_search(tmp_path):
    mesh = "mesh: {dp: 5, fsdp: 7, ep: 9, pp: 11, sp: 16}, batch_size: 1"
    with pytest.raises(ManifestError, match="mesh: "):
        read_plan(plan(tmp_path, mesh))


@pytest.mark.parametrize("digits", [10, 5000])
def test_a_size_of_many_digits_is_no_size(digits):
    with pytest.raises(ManifestError, match="NAME=SIZE"):
        parse_mesh(f"tp={'9' * digits}")
