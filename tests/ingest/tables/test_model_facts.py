"""Facts of a model's configuration, worked out by hand from public configurations."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from tests.ingest.tables.test_pipeline import MANIFEST
from xlahouse.ingest.tables.model_facts import model_facts

EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 4}


def facts(parameters: int | None = 1_000_000, layers: int = 3, **config: Any) -> dict[str, Any]:
    return model_facts(
        replace(MANIFEST, model_config=config, parameters=parameters, layers=layers, hidden_size=8)
    )


def test_what_the_manifest_says_is_taken_over() -> None:
    given = replace(MANIFEST, parameters=7, weight_bytes=14, kv_bytes_per_token=3)
    found = model_facts(given)
    assert [found[name] for name in ("parameters", "weight_bytes", "kv_bytes_per_token")] == [
        7,
        14,
        3,
    ]


def test_every_weight_of_a_dense_model_is_active() -> None:
    assert facts()["active_parameters"] == 1_000_000
    assert facts(parameters=None)["active_parameters"] is None


@pytest.mark.parametrize(
    ("config", "layers"),
    [
        ({}, 3),
        ({"mlp_only_layers": [0]}, 2),
        ({"first_k_dense_replace": 1}, 2),
        ({"decoder_sparse_step": 2}, 1),  # layer 1
        ({"moe_layer_freq": 2}, 2),  # layers 0 and 2
    ],
)
def test_experts_that_a_token_is_not_sent_to_are_idle(config: dict[str, Any], layers: int) -> None:
    # 8 - 2 experts a layer, each of three matrices of 8 x 4.
    idle = layers * 6 * 3 * 8 * 4
    assert facts(**EXPERTS, **config)["active_parameters"] == 1_000_000 - idle


@pytest.mark.parametrize(
    "config",
    [
        {"num_experts": 8},
        {**EXPERTS, "num_experts_per_tok": 9},
        {"num_experts": 8, "num_experts_per_tok": 2},
        {**EXPERTS, "moe_intermediate_size": 10**6},  # more than all weights
    ],
)
def test_unknown_experts_are_not_guessed(config: dict[str, Any]) -> None:
    assert facts(**config)["active_parameters"] is None


def test_qwen3_30b_a3b() -> None:
    """30.5e9 weights, of which 3.3e9 are active, says its model card."""
    config = {
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }
    given = replace(
        MANIFEST, model_config=config, parameters=30_532_122_624, layers=48, hidden_size=2048
    )
    assert model_facts(given)["active_parameters"] == pytest.approx(3.3e9, rel=0.02)


def test_attention_of_plain_heads() -> None:
    # Scores and their use: 2 x 4 wide x 2 FLOPs a head; 2 heads, 3 layers.
    assert facts(num_attention_heads=2)["attention_pair_flops"] == 2 * 3 * 2 * (4 + 4)
    assert facts(num_attention_heads=2, head_dim=16)["attention_pair_flops"] == 2 * 3 * 2 * 32


def test_attention_of_latent_heads() -> None:
    config = {"qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
    assert facts(num_attention_heads=2, **config)["attention_pair_flops"] == 2 * 3 * 2 * (192 + 128)


@pytest.mark.parametrize(
    "config",
    [
        {"sliding_window": 128},
        {"index_topk": 2048},
        {"layer_types": ["full_attention", "linear_attention"]},
    ],
)
def test_attention_to_a_part_of_the_context_has_no_single_figure(config: dict[str, Any]) -> None:
    assert facts(num_attention_heads=2, **config)["attention_pair_flops"] is None


def test_a_window_that_is_not_used_changes_nothing() -> None:
    found = facts(num_attention_heads=2, sliding_window=128, use_sliding_window=False)
    assert found["attention_pair_flops"] == 96
    full = facts(num_attention_heads=2, layer_types=["full_attention"] * 3)
    assert full["attention_pair_flops"] == 96
    assert facts()["attention_pair_flops"] is None


QWEN3 = {
    "vocab_size": 100,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 4,
    "intermediate_size": 16,
}


def vocabulary(**given: Any) -> list[object]:
    config = QWEN3 | given.pop("config", {})
    manifest = replace(MANIFEST, model_family="qwen3", model_config=config, hidden_size=8, **given)
    found = model_facts(manifest)
    return [found[name] for name in ("head_weights", "lookup_weights", "logit_positions")]


def test_head_and_embedding_of_an_older_manifest_follow_from_its_sizes() -> None:
    # 100 tokens of 8 wide. Whose logits a prefill computes, no size tells.
    assert vocabulary() == [800, None, None]
    assert vocabulary(config={"tie_word_embeddings": False}) == [800, 800, None]
    assert vocabulary(config={"tie_word_embeddings": True}) == [800, 0, None]


def test_the_manifest_states_the_head() -> None:
    tied = {"tie_word_embeddings": True}
    assert vocabulary(head_weights=900, logit_positions=1, config=tied) == [900, 0, 1]


def test_of_an_unknown_architecture_no_head_is_guessed() -> None:
    assert facts(vocab_size=100)["head_weights"] is None
