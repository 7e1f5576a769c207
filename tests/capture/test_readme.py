"""capture/README.md: its tables are those of the structs, its plan is valid, its dry run is real."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from xlahouse.capture.manifest import Manifest
from xlahouse.capture.models.presets import presets
from xlahouse.capture.plan import Experiment, Model, PlanFile, read_plan
from xlahouse.capture.plan_forms import STRATEGIES, SWEPT
from xlahouse.capture.readme_tables import field_comments, plan_keys, preset_table, with_tables
from xlahouse.capture.run.dry_run import describe_plan
from xlahouse.capture.run.runner import choose_experiments
from xlahouse.capture.serving import Arrival, Serving

README = Path(__file__).parents[2] / "capture" / "README.md"
SERVERS = README.parent / "run" / "README.md"
TEXT = README.read_text("utf-8")
WRITE = [sys.executable, "-m", "xlahouse.capture.readme_tables"]


def test_the_tables_are_those_of_the_structs():
    assert with_tables(TEXT) == TEXT, (
        "run: python -m xlahouse.capture.readme_tables capture/README.md"
    )


def test_the_tables_of_servers_are_those_of_the_structs():
    text = SERVERS.read_text("utf-8")
    assert with_tables(text) == text, (
        "run: python -m xlahouse.capture.readme_tables capture/run/README.md"
    )
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    names = [name for struct in (Serving, Arrival) for name in struct.__struct_fields__]
    assert [row.split("`")[1] for row in rows] == names
    assert all(row.split(" | ")[3].removesuffix(" |") for row in rows)


def test_the_plan_of_a_server_is_valid_and_its_experiments_are_named_as_it_says(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(re.search(r"```yaml\n(.*?)```", SERVERS.read_text("utf-8"), re.DOTALL)[1])
    assert [each.name for each in read_plan(path).experiments] == ["load-2ps", "load-8ps"]


def test_every_key_has_a_row_with_a_description():
    rows = [line for line in plan_keys().splitlines() if line.startswith("| `")]
    names = [name for struct in (PlanFile, Experiment, Model) for name in struct.__struct_fields__]
    assert [row.split("`")[1] for row in rows] == names
    assert all(row.split(" | ")[3].removesuffix(" |") for row in rows)
    assert {row.split("`")[1] for row in rows if "` \\*" in row} == set(SWEPT)
    assert "| `batch_size` \\* | integer ≥ 1 | required | sequences over all devices |" in rows
    assert all(f"| `{name}` |" in preset_table() for name in presets())


def test_keys_that_are_translated_are_named():
    older = ("parallelism", "sequence_length", "num_tokens", "enable_profiling", "repeats")
    for key in (*older, *STRATEGIES, *(field for field, _ in STRATEGIES.values())):
        assert re.search(rf"\b{key}\b", TEXT), key


def test_a_comment_is_read_beside_a_field_and_above_it():
    found = field_comments(Manifest)
    assert found["captured_at"] == "ISO 8601, UTC"
    assert found["device_coords"].startswith("[device id] -> (x, y, z) of its chip; []: unknown")


def test_it_rewrites_a_file_between_its_markers(tmp_path):
    copy = tmp_path / "README.md"
    copy.write_text(re.sub(r"(?m)^\| .*\n", "", TEXT), encoding="utf-8")
    before = copy.read_text("utf-8")
    subprocess.run([*WRITE, str(copy)], check=True)
    assert copy.read_text("utf-8") == with_tables(before)


def test_the_plan_is_valid_and_its_experiments_are_named_as_it_says(tmp_path):
    path = tmp_path / "plan.yaml"
    path.write_text(re.search(r"```yaml\n(name: .*?)```", TEXT, re.DOTALL)[1], encoding="utf-8")
    plan = read_plan(path)
    assert [each.name for each in plan.experiments] == ["tp-tp2", "tp-tp4", "deep-r0", "deep-r1"]
    assert plan.experiments[2].model.sizes["num_hidden_layers"] == 8


@pytest.mark.xdist_group("capture")
def test_the_dry_run_prints_what_is_shown():
    pytest.importorskip("torch", reason="install xlahouse[capture]")
    name, shown = re.search(
        r"capture/plans/study\.yaml --dry-run --experiment (\S+)\n…\n(.*?)```", TEXT, re.DOTALL
    ).groups()
    study = README.parent / "plans" / "study.yaml"
    printed = list(describe_plan(choose_experiments(study, (name,)), Path("traces")))
    assert "\n".join(printed[-len(shown.splitlines()) :]) == shown.rstrip("\n")


def test_it_is_short():
    assert len(TEXT.splitlines()) <= 250
