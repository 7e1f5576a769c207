"""The sharding tables: every kind of parameter of every family, and how gate and up rows are dealt out."""

from __future__ import annotations

import pytest

from xlahouse.capture.models.families import FAMILIES, is_packed, parameter_spec

DENSE = [
    ("model.embed_tokens.weight", ("tp", "fsdp")),
    ("lm_head.weight", ("tp", "fsdp")),
    ("model.layers.3.mlp.gate_proj.weight", ("tp", "fsdp")),
    ("model.layers.3.mlp.up_proj.weight", ("tp", "fsdp")),
    ("model.layers.3.mlp.down_proj.weight", ("fsdp", "tp")),
    ("model.layers.3.input_layernorm.weight", None),
    ("model.norm.weight", None),
]
GROUPED = [
    ("model.layers.0.self_attn.q_proj.weight", ("tp", "fsdp")),
    ("model.layers.11.self_attn.k_proj.weight", ("tp", "fsdp")),
    ("model.layers.3.self_attn.v_proj.weight", ("tp", "fsdp")),
    ("model.layers.3.self_attn.v_proj.bias", ("tp",)),
    ("model.layers.3.self_attn.o_proj.weight", ("fsdp", "tp")),
    ("model.layers.3.self_attn.q_norm.weight", None),
]
EXPERTS = [
    ("model.layers.3.mlp.experts.gate_up_proj", ("ep", "tp", "fsdp")),
    ("model.layers.3.mlp.experts.down_proj", ("ep", "fsdp", "tp")),
    ("model.layers.3.mlp.shared_experts.down_proj.weight", ("fsdp", "tp")),
    ("model.layers.3.mlp.gate.weight", None),
]
LATENT = [
    ("model.layers.3.self_attn.q_a_proj.weight", (None, "fsdp")),
    ("model.layers.3.self_attn.q_b_proj.weight", ("tp", "fsdp")),
    ("model.layers.3.self_attn.kv_a_proj_with_mqa.weight", (None, "fsdp")),
    ("model.layers.3.self_attn.kv_b_proj.weight", ("tp", "fsdp")),
    ("model.layers.3.self_attn.o_proj.weight", ("fsdp", "tp")),
]
COMPRESSED = [
    ("model.layers.3.self_attn.sinks", ("tp",)),
    ("model.layers.3.self_attn.o_a_proj.weight", ("tp", "fsdp")),
    ("model.layers.3.self_attn.o_b_proj.weight", ("fsdp", "tp")),
    ("model.layers.3.self_attn.compressor.kv_proj.weight", None),
]


@pytest.mark.parametrize(
    ("family", "rows"),
    [
        ("qwen2", DENSE + GROUPED),
        ("qwen3", DENSE + GROUPED),
        ("deepseek_v2", DENSE + EXPERTS + LATENT),
        ("deepseek_v3", DENSE + EXPERTS + LATENT),
        ("deepseek_v4", DENSE + EXPERTS + COMPRESSED),
    ],
)
def test_parameters_are_split_by_columns_then_by_rows(family, rows):
    assert {name: parameter_spec(FAMILIES[family], name) for name, _ in rows} == dict(rows)


def test_only_the_experts_first_weights_are_packed():
    assert is_packed("model.layers.3.mlp.experts.gate_up_proj")
    assert not is_packed("model.layers.3.mlp.experts.down_proj")
    assert not is_packed("model.layers.3.mlp.gate_proj.weight")


@pytest.mark.xdist_group("capture")
def test_each_device_gets_its_rows_of_gate_and_of_up():
    torch = pytest.importorskip("torch", reason="install xlahouse[capture]")
    from xlahouse.capture.models.placing import _interleave

    # One expert, hidden 1; gate rows 0..3, up rows 10..13; two devices.
    packed = torch.tensor([0, 1, 2, 3, 10, 11, 12, 13]).reshape(1, 8, 1)
    assert _interleave(packed, 2).flatten().tolist() == [0, 1, 10, 11, 2, 3, 12, 13]
    assert _interleave(packed, 1).flatten().tolist() == packed.flatten().tolist()
