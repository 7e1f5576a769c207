"""Plans: what one says, and that a bad one is refused with its file, line and field."""

from __future__ import annotations

import textwrap

import pytest

from tests.conftest import DEMO_PLAN
from xlahouse.capture.errors import ManifestError
from xlahouse.capture.plan import read_plan
from xlahouse.capture.yaml_lines import line_of

GOOD = """\
name: small
defaults:
  model: {name: tiny, preset: qwen3-demo, config: {num_hidden_layers: 2}}
  batch_size: 4
  prompt_tokens: 16
  output_tokens: 4
experiments:
  - name: a
    mesh: {tp: 4}
  - name: b
    mesh: {dp: 2, tp: 2}
    batch_size: 8
    seed: 3
"""


def write(tmp_path, text):
    path = tmp_path / "plan.yaml"
    path.write_text(textwrap.dedent(text))
    return path


def test_experiments_inherit_the_defaults_and_override_them(tmp_path):
    plan = read_plan(write(tmp_path, GOOD))
    first, second = plan.experiments
    assert (plan.name, first.name, second.name) == ("small", "a", "b")
    assert (first.batch_size, second.batch_size) == (4, 8)
    assert (first.seed, second.seed) == (0, 3)
    assert first.model.sizes["num_hidden_layers"] == 2
    assert first.model.sizes["hidden_size"] == 512  # the preset's
    assert (first.device_count, second.device_count) == (4, 4)


def test_label_and_folder_follow_the_mesh_and_the_workload(tmp_path):
    first, second = read_plan(write(tmp_path, GOOD)).experiments
    assert (first.parallelism, second.parallelism) == ("tp4", "dp2.tp2")
    assert str(first.cell) == "tiny/tp4/batch_4_seq_16"
    assert str(second.cell) == "tiny/dp2.tp2/batch_8_seq_16"


@pytest.mark.parametrize(
    ("mesh", "label"),
    [("{tp: 1}", "single"), ("{dp: 1, tp: 2}", "tp2"), ("{tp: 2, dp: 2}", "tp2.dp2")],
)
def test_label_keeps_the_order_and_leaves_out_axes_of_one(tmp_path, mesh, label):
    plan = read_plan(write(tmp_path, GOOD.replace("{tp: 4}", mesh)))
    assert plan.experiments[0].parallelism == label


def test_the_demo_plan_is_good():
    plan = read_plan(DEMO_PLAN)
    assert [entry.parallelism for entry in plan.experiments] == ["tp4", "dp2.tp2"]
    for entry in plan.experiments:
        assert entry.output_tokens - 1 >= 8  # decode steps
        sizes = entry.model.sizes
        assert sizes["num_hidden_layers"] >= 4
        assert sizes["num_key_value_heads"] < sizes["num_attention_heads"]  # grouped queries


BAD = (
    # (what the good plan says, what it says instead, what the error says)
    (
        "seed: 3",
        "slice: v6e-8",
        "line 13: experiment b: slice: v6e-8 has 8 chips, the mesh 4 devices; change one of the two",
    ),
    (
        "seed: 3",
        "slice: v7x-8",
        "line 13: experiment b: slice: no TPU type 'v7x-8'; types are such as",
    ),
    ("mesh: {tp: 4}", "mesh: {tp: 3}", "line 9: experiment a: mesh: tp=3 does not divide"),
    (
        "mesh: {tp: 4}",
        "mesh: {tp: 8}",
        "line 9: experiment a: mesh: tp=8 does not divide the model's num_key_value_heads 4",
    ),
    (
        "mesh: {tp: 4}",
        "mesh: {xp: 4}",
        "line 9: experiment a: mesh: axes are pp, dp, ep, fsdp, tp, sp, not xp",
    ),
    ("mesh: {tp: 4}", "mesh: {}", "line 9: experiment a: mesh: no axes"),
    ("mesh: {tp: 4}", "mesh: {tp: 0}", "line 9: experiment a: Expected `int` >= 1"),
    (
        "mesh: {dp: 2, tp: 2}",
        "mesh: {dp: 3, tp: 1}",
        "line 12: experiment b: batch_size: 8 is not a multiple of dp=3",
    ),
    (
        "    batch_size: 8",
        "    batch_sise: 8",
        "line 10: experiment b: Object contains unknown field `batch_sise`",
    ),
    ("  batch_size: 4\n", "", "line 7: experiment a: Object missing required field `batch_size`"),
    ("  batch_size: 4", "  batch_size: many", "line 4: experiment a: Expected `int`, got `str`"),
    (
        "prompt_tokens: 16",
        "prompt_tokens: 509",
        "line 5: experiment a: prompt_tokens: prompt and output are 513 tokens",
    ),
    (
        "preset: qwen3-demo",
        "preset: qwen9",
        "line 3: experiment a: model: no preset 'qwen9'; presets are qwen3-demo",
    ),
    (
        "num_hidden_layers: 2",
        "layers: 2",
        "line 3: experiment a: model: config: the preset has no field 'layers'",
    ),
    (
        "num_hidden_layers: 2",
        "num_hidden_layers: 0",
        "line 3: experiment a: model: config: num_hidden_layers must be above 0",
    ),
    (
        "num_hidden_layers: 2",
        "num_key_value_heads: 16",
        "line 3: experiment a: model: num_key_value_heads 16 does not divide num_attention_heads 8",
    ),
    ("name: b", "name: ../b", "line 10: experiment ../b: Expected `str` matching regex"),
    ("name: b", "name: a", "two experiments are named a"),
    ("name: small", "name: small\nextra: 1", "Object contains unknown field `extra`"),
    ("name: small", "name: [", "not YAML"),
)


@pytest.mark.parametrize(("old", "new", "message"), BAD)
def test_a_bad_plan_is_refused_with_file_line_and_field(tmp_path, old, new, message):
    assert old in GOOD
    path = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(ManifestError) as caught:
        read_plan(path)
    assert str(caught.value).startswith(str(path))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expected `object`, got `null`"),
        ("name: 2024-13-45", "month must be in 1..12; put text into quotes"),
        ("name: " + "[" * 600 + "]" * 600, "nested too deeply"),
        ("name: " + "[" * 600, "nested too deeply"),
        ("- 1\n", "Expected `object`, got `array`"),
        ("name: x\nexperiments: []\n", "Expected `array` of length >= 1"),
        ("name: x\nexperiments: [1]\n", "Expected `object`, got `int`"),
    ],
    ids=lambda value: value[:20],
)
def test_a_file_that_is_no_plan_is_refused(tmp_path, text, message):
    with pytest.raises(ManifestError, match=r"plan\.yaml") as caught:
        read_plan(write(tmp_path, text))
    assert message in str(caught.value)


def test_a_missing_or_binary_file_is_refused(tmp_path):
    with pytest.raises(ManifestError, match=r"none\.yaml: No such file"):
        read_plan(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ManifestError, match=r"binary\.yaml: not UTF-8"):
        read_plan(tmp_path / "binary.yaml")


@pytest.mark.parametrize(
    ("steps", "line"),
    [
        (("name",), 1),
        (("defaults", "batch_size"), 4),
        (("experiments", 0), 8),
        (("experiments", 1, "mesh", "tp"), 11),
        (("experiments", 2), None),
        (("name", "below"), None),
    ],
)
def test_lines_are_those_of_keys_and_items(steps, line):
    assert line_of(GOOD, steps) == line
