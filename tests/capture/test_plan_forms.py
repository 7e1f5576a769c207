"""Sweeps in a plan become experiments; the older form of a plan means what it says."""

from __future__ import annotations

import pytest

from xlahouse.capture.errors import ManifestError
from xlahouse.capture.plan import read_plan
from xlahouse.capture.plan_forms import expand, preset_named

DEFAULTS = """
defaults:
  model: {name: m, preset: qwen3-demo}
  batch_size: 4
  prompt_tokens: 8
  output_tokens: 2
"""


def plan(tmp_path, text):
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    return read_plan(path).experiments


def test_lists_are_swept_in_the_plans_order(tmp_path):
    text = DEFAULTS + (
        "experiments:\n  - {name: s, mesh: [{tp: 4}, {dp: 2, tp: 2}], batch_size: [4, 8], repeats: 2}"
    )
    found = plan(tmp_path, text)
    assert [experiment.name for experiment in found] == [
        "s-tp4-b4-r0",
        "s-tp4-b4-r1",
        "s-tp4-b8-r0",
        "s-tp4-b8-r1",
        "s-dp2.tp2-b4-r0",
        "s-dp2.tp2-b4-r1",
        "s-dp2.tp2-b8-r0",
        "s-dp2.tp2-b8-r1",
    ]
    last = found[-1]
    assert (last.mesh, last.batch_size, last.repeat) == ({"dp": 2, "tp": 2}, 8, 1)


def test_a_plan_without_a_name_is_called_as_its_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(DEFAULTS + "experiments:\n  - {name: s, mesh: {tp: 2}}")
    assert read_plan(path).name == "mine"


def test_a_default_may_be_swept_and_an_entry_may_fix_it(tmp_path):
    text = DEFAULTS.replace("batch_size: 4", "batch_size: [4, 8]")
    text += (
        "experiments:\n  - {name: a, mesh: {tp: 2}}\n  - {name: b, mesh: {tp: 2}, batch_size: 2}"
    )
    assert [each.name for each in plan(tmp_path, text)] == ["a-b4", "a-b8", "b"]


def test_a_fault_of_one_swept_experiment_names_it_and_the_line(tmp_path):
    text = DEFAULTS + "experiments:\n  - name: s\n    mesh: [{tp: 4}, {dp: 3}]"
    with pytest.raises(ManifestError, match=r"line \d+: experiment s-dp3: batch_size: 4 is not"):
        plan(tmp_path, text)


@pytest.mark.parametrize(
    ("strategy", "mesh", "label"),
    [
        ("{strategy: none}", {"tp": 1}, "single"),
        ("{strategy: tensor, tp_size: 4}", {"tp": 4}, "tp4"),
        ("{strategy: data, dp_size: 2}", {"dp": 2}, "dp2"),
        ("{strategy: data, dp_size: 2, tp_size: 1}", {"dp": 2}, "dp2"),
    ],
)
def test_the_older_form_runs(tmp_path, strategy, mesh, label):
    text = f"""
experiments:
  - model: Qwen3 demo
    parallelism: {strategy}
    batch_size: 4
    sequence_length: 64
    num_tokens: 16
    enable_profiling: true
"""
    (found,) = plan(tmp_path, text)
    assert found.name == f"qwen3-demo-{label}-b4-p64"
    assert (found.mesh, found.model.preset) == (mesh, "qwen3-demo")
    assert (found.batch_size, found.prompt_tokens, found.output_tokens) == (4, 64, 16)


@pytest.mark.parametrize(
    ("strategy", "size", "axis"),
    [("sequence", "seq_parallel_size", "sp"), ("pipeline", "pp_size", "pp")],
)
def test_each_strategy_is_its_axis(strategy, size, axis):
    entry = {"model": "Qwen-32B", "parallelism": {"strategy": strategy, size: 4}}
    (found,) = expand(entry, {})
    assert found["mesh"] == {axis: 4}
    assert found["model"]["preset"] == "qwen2.5-32b"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ("parallelism: tensor", "parallelism: write it as"),
        (
            "parallelism: {strategy: expert}",
            "parallelism: no strategy 'expert'; strategies are none,",
        ),
        ("parallelism: {strategy: tensor}", "parallelism: strategy tensor needs tp_size"),
        ("parallelism: {strategy: tensor, tp_size: 2, dp_size: 2}", "for several axes use a mesh"),
        ("parallelism: {strategy: tensor, tp_size: 2, size: 2}", "parallelism: no field size"),
        ("enable_profiling: false", "enable_profiling: false: a capture is always a profile"),
        ("batch_size: []", "batch_size: an empty sweep"),
        ("repeats: 0", "repeats: 0 is not a number of repeats"),
        ("repeats: [1]", r"repeats: \[1\] is not a number of repeats"),
    ],
)
def test_what_means_nothing_is_refused_with_its_line(tmp_path, fields, message):
    text = DEFAULTS + f"experiments:\n  - name: s\n    {fields}\n"
    line = len(text.splitlines())
    with pytest.raises(ManifestError, match=rf"line {line}: experiment s: .*{message}"):
        plan(tmp_path, text)


# Names that people use, and the presets that they mean.
@pytest.mark.parametrize(
    ("called", "preset"),
    [
        ("Qwen-32B", "qwen2.5-32b"),
        ("Qwen3-32B", "qwen3-32b"),
        ("deepseek-ai/DeepSeek-V3.1-Base", "deepseek-v3.1-base"),
        ("DeepSeek 4.1", "deepseek-4.1"),
        ("DeepSeek_V2_Lite", "deepseek-v2-lite"),
    ],
)
def test_models_go_by_the_names_that_people_use(called, preset):
    assert preset_named(called) == preset
