"""What fsdp has to gather, against published sizes and against the models that transformers builds."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.ingest.tables.test_pipeline import MANIFEST
from xlahouse.capture.manifest import Manifest
from xlahouse.capture.models.families import FAMILIES, parameter_spec
from xlahouse.capture.models.presets import find_preset, model_config
from xlahouse.ingest.tables.model_facts import model_facts


def manifest(preset: str, **changed: Any) -> Manifest:
    sizes = model_config(preset, changed)
    return replace(
        MANIFEST,
        model_family=find_preset(preset).family,
        model_config=sizes,
        layers=sizes["num_hidden_layers"],
        hidden_size=sizes["hidden_size"],
    )


def with_sizes(preset: str, **damaged: Any) -> Manifest:
    """Sizes that no plan lets through, but that a manifest may hold."""
    given = manifest(preset)
    return replace(given, model_config=given.model_config | damaged)


def test_qwen3_06b() -> None:
    # Vocabulary twice, 151936 x 1024: 311,164,928. A layer: queries and output 2 x 16 x 128 x 1024,
    # keys and values 2 x 8 x 128 x 1024, network 3 x 1024 x 3072: 15,728,640, and 28 layers.
    facts = model_facts(manifest("qwen3-0.6b"))
    assert facts["tensor_weights"] == 311_164_928 + 28 * 15_728_640
    assert (facts["whole_weights"], facts["expert_weights"]) == (0, 0)
    assert facts["weight_matrices"] == 2 + 28 * 7
    assert facts["vocab_size"] == 151_936
    assert (facts["expert_layers"], facts["experts"], facts["experts_per_token"]) == (0, None, None)


@pytest.mark.xdist_group("capture")
@pytest.mark.parametrize(
    ("preset", "changed"),
    [
        ("qwen3-32b", {"num_hidden_layers": 2}),
        ("qwen2.5-32b", {"num_hidden_layers": 2}),  # its heads' width follows from the hidden size
        ("deepseek-v2-lite", {"num_hidden_layers": 3}),  # queries without a low rank
        ("deepseek-v2.5", {"num_hidden_layers": 3, "first_k_dense_replace": 2}),
        ("deepseek-v3.1-base", {"num_hidden_layers": 4, "n_routed_experts": 16}),
        ("deepseek-4.1", {"num_hidden_layers": 2, "n_routed_experts": 16}),
    ],
)
def test_matrices_are_those_that_transformers_builds(preset: str, changed: dict[str, Any]) -> None:
    pytest.importorskip("transformers")
    from xlahouse.capture.models.weights import build_skeleton

    given = manifest(preset, **changed)
    family = FAMILIES[given.model_family]
    model = build_skeleton(family.model_class, family.name, given.model_config)
    split, whole, experts, matrices = 0, 0, 0, 0
    for name, parameter in model.named_parameters():
        spec = parameter_spec(family, name)
        if spec is None or "fsdp" not in spec:
            continue
        matrices += 1
        if "ep" in spec:
            experts += parameter.numel()
        elif "tp" in spec:
            split += parameter.numel()
        else:
            whole += parameter.numel()
    facts = model_facts(given)
    columns = ("tensor_weights", "whole_weights", "expert_weights", "weight_matrices")
    assert [facts[name] for name in columns] == [split, whole, experts, matrices]


@pytest.mark.parametrize(
    "given",
    [
        replace(manifest("qwen3-0.6b"), model_family="other"),
        replace(manifest("qwen3-0.6b"), model_config={}),
        with_sizes("qwen3-0.6b", intermediate_size="wide"),
        with_sizes("deepseek-v2-lite", kv_lora_rank=None),
    ],
)
def test_a_model_that_is_not_known_has_no_count(given: Manifest) -> None:
    assert model_facts(given)["tensor_weights"] is None
    assert model_facts(given)["weight_matrices"] is None


def test_layers_with_experts_and_their_places() -> None:
    given = manifest("deepseek-v2-lite")  # 27 layers, the first one dense; 6 of 64 experts
    bound = replace(given, plan_entry={"capacity_factor": 1.25})
    free = replace(given, plan_entry={"capacity_factor": None})
    assert model_facts(given)["expert_layers"] == 26
    assert model_facts(given)["experts"] == 64
    assert model_facts(given)["experts_per_token"] == 6
    assert model_facts(given)["capacity_factor"] is None  # no plan tells it
    assert model_facts(bound)["capacity_factor"] == 1.25
    assert model_facts(free)["capacity_factor"] == 64 / 6
    assert model_facts(replace(bound, model_config={}))["capacity_factor"] is None
    assert (
        model_facts(replace(given, plan_entry={"capacity_factor": "x"}))["capacity_factor"] is None
    )
    assert model_facts(replace(given, model_config={}))["expert_layers"] is None


def test_layers_of_a_stage() -> None:
    assert model_facts(MANIFEST)["stage_layers"] == 2
    assert model_facts(replace(MANIFEST, stage_layers=[]))["stage_layers"] is None
    assert model_facts(replace(MANIFEST, stage_layers=[[0], [1, 2]]))["stage_layers"] is None
