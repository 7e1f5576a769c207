"""Workload cards: every field, its allowed values and units, with the line of what is wrong."""

from __future__ import annotations

import pytest

from xlahouse.capture.card import missing
from xlahouse.capture.card_file import card_text, checked_card, looks_like_card, read_card
from xlahouse.capture.errors import ManifestError

BANDWIDTH = "workload.hardware.network_topo.bandwidth_gbps"
FULL = """\
version: 1
description: A run.
hf_url: https://huggingface.co/Qwen/Qwen3-4B
trace_url: https://example.org/t
workload:
  model:
    phase: inference
    moe: false
    granularity: model_fwd
    model_family: qwen3-4b
    precision: bf16
    epochs: 1
    iteration: 3
    model_arch: {num_params: 40224680, num_params_embedding: 3, num_layers: 36, num_heads: 32, head_dim: 128}
  data: {batch_size: 128, seq_len: 1152, input_len: 1024, output_len: 128, dataset: custom}
  hardware:
    network_topo: {topology: torus, bandwidth_gbps: [N/A, 800]}
    xpu_spec: {type: TPU, model: tpu_v6e, total_count: 2, count_per_node: 8}
    driver_version: v2-alpha-tpuv6e
Model-executor:
  framework: {name: vllm, compiler_tool_selection: xla}
  model_plan_parallelization: {dp_replicate: 1, dp_shard: 1, tp: 2, pp: 1, cp: 1}
  communication_library: {name: xla, version: 2.9, env: {JAX_PLATFORMS: '', PJRT_DEVICE: TPU}}
  protocol_selection: [xla_collectives, ici]
metric_source:
  traces: [json_tpu]
  metrics_specific_trace: [communication_trace]
"""


def test_a_full_card_says_everything():
    card, problems = read_card(FULL, "card.yaml")
    assert problems == []
    assert missing(card) == []
    assert card.workload.model.model_arch.num_layers == 36
    assert card.workload.hardware.network_topo.bandwidth_gbps == [None, 800.0]
    assert card.executor.communication_library.version == "2.9"
    assert card.executor.communication_library.env == {"PJRT_DEVICE": "TPU"}


def test_what_is_written_is_read_again():
    card, _ = read_card(FULL, "card.yaml")
    again, problems = read_card(card_text(card), "again")
    assert (again, problems) == (card, [])


@pytest.mark.parametrize(
    "word", ["N/A", "TBD", "''", "n/a", "tbd", "", "null", "[null]", "[TBD, N/A]"]
)
def test_what_is_not_known_is_absent(word):
    text = FULL.replace("[N/A, 800]", word or "~").replace(
        "dataset: custom", f"dataset: {word or '~'}"
    )
    card, problems = read_card(text, "card.yaml")
    assert problems == []
    assert card.workload.hardware.network_topo.bandwidth_gbps is None
    assert card.workload.data.dataset is None
    assert {BANDWIDTH, "workload.data.dataset"} == set(missing(card))
    assert "bandwidth_gbps" not in card_text(card)


def test_facts_stand_in_two_places():
    """Sizes beside model_arch, the executor inside workload, an older name; the proper place wins."""
    text = """
workload:
  model: {num_layers: 36, num_heads: 32, num_active_params: 7, model_arch: {num_heads: 16}}
  Model-executor:
    framework: {name: vllm}
    model_plan_parallelization: {tp: 4, pp: 2}
Model-executor:
  model_plan_parallelization: {tp: 2}
"""
    card, problems = read_card(text, "card.yaml")
    assert problems == []
    arch, executor = card.workload.model.model_arch, card.executor
    assert (arch.num_layers, arch.num_heads, arch.num_params_active) == (36, 16, 7)
    assert executor.framework.name == "vllm"
    assert executor.model_plan_parallelization.tp == 2
    assert executor.model_plan_parallelization.pp == 2


@pytest.mark.parametrize(
    ("old", "new", "line", "path", "message"),
    [
        (
            "phase: inference",
            "phase: infer",
            7,
            "workload.model.phase",
            "'infer' is not one of training, inference, serving",
        ),
        (
            "moe: false",
            "moe: perhaps",
            8,
            "workload.model.moe",
            "'perhaps': expected `bool | null`",
        ),
        (
            "model_fwd\n",
            "model_fwd_pass\n",
            9,
            "workload.model.granularity",
            "is not one of model_fwd_bwd_pass, model_fwd, layer, kernel",
        ),
        (
            "precision: bf16",
            "precision: tf32",
            11,
            "workload.model.precision",
            "is not one of bf16, fp32, fp16, int8, fp8",
        ),
        ("iteration: 3", "iteration: 0", 13, "workload.model.iteration", "0: expected `int` >= 1"),
        (
            "num_layers: 36",
            "num_layers: -1",
            14,
            "workload.model.model_arch.num_layers",
            "-1: expected `int` >= 1",
        ),
        (
            "batch_size: 128",
            "batch_size: [1, 2]",
            15,
            "workload.data.batch_size",
            "[1, 2]: expected `int | null`",
        ),
        (
            "800]",
            "800 Gbps]",
            17,
            BANDWIDTH,
            "'800 Gbps': write gigabits a second as a plain number: 800",
        ),
        (
            "800]",
            "100 GB/s]",
            17,
            BANDWIDTH,
            "'100 GB/s': write gigabits a second as a plain number: 800",
        ),
        ("800]", "-1]", 17, BANDWIDTH, "expected `float` > 0"),
        ("[N/A, 800]", "[1, 2, 3]", 17, BANDWIDTH, "of length <= 2"),
        (
            "type: TPU",
            "type: NPU",
            18,
            "workload.hardware.xpu_spec.type",
            "'NPU' is not one of GPU, TPU",
        ),
        (
            "tp: 2",
            "tp: two",
            22,
            "Model-executor.model_plan_parallelization.tp",
            "'two': expected `int | null`",
        ),
        (
            "{name: vllm, compiler_tool_selection: xla}",
            "vllm",
            21,
            "Model-executor.framework",
            "must be a mapping",
        ),
        ("version: 1", "version: 2", 1, "version", "2: "),
    ],
)
def test_a_wrong_value_costs_its_field_and_names_its_line(old, new, line, path, message):
    text = FULL.replace(old, new, 1)
    assert text != FULL
    card, (problem,) = read_card(text, "card.yaml")
    assert (problem.line, problem.path) == (line, path)
    assert message in problem.message
    assert not problem.foreign
    assert path in missing(card) or path == "Model-executor.framework"
    with pytest.raises(ManifestError, match=f"card.yaml, line {line}: {path}: "):
        checked_card(text, "card.yaml")


def test_numbers_as_text_are_numbers():
    card, problems = read_card(FULL.replace("batch_size: 128", "batch_size: '128'"), "c")
    assert (card.workload.data.batch_size, problems) == (128, [])


def test_a_field_that_cards_do_not_have_costs_nothing():
    text = FULL.replace("  data: {", "  data: {max_tokens: 512, ")
    card, (problem,) = read_card(text, "card.yaml")
    assert (problem.path, problem.line, problem.foreign) == ("workload.data.max_tokens", 15, True)
    assert checked_card(text, "card.yaml") == card


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("workload:\n  model: {phase: x\n", "card.yaml, line 3: not YAML"),
        ("a: b: c\n", "card.yaml, line 1: not YAML"),
        ("- 1\n", "not a workload card"),
        ("", "not a workload card"),
        ("workload: 5\n", "not a workload card"),
        ("workload: {model: 2024-13-45}\n", "put text into quotes"),
        ("x: \x00\n", "not YAML"),
    ],
)
def test_what_is_no_card_is_told_so(text, message):
    with pytest.raises(ManifestError, match=message):
        read_card(text, "card.yaml")


def test_a_card_is_told_by_its_top_level():
    assert looks_like_card(FULL)
    assert not looks_like_card("name: plan\nexperiments:\n  - workload: x\n")
