"""The sharding table: every kind of parameter, and axes that a mesh lacks."""

from __future__ import annotations

import pytest

from xlahouse.capture.sharding import CACHE, LOGITS, TOKENS, on_mesh, parameter_spec


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("model.embed_tokens.weight", ("tp", None)),
        ("lm_head.weight", ("tp", None)),
        ("model.layers.0.self_attn.q_proj.weight", ("tp", None)),
        ("model.layers.11.self_attn.k_proj.weight", ("tp", None)),
        ("model.layers.3.self_attn.v_proj.weight", ("tp", None)),
        ("model.layers.3.self_attn.o_proj.weight", (None, "tp")),
        ("model.layers.3.mlp.gate_proj.weight", ("tp", None)),
        ("model.layers.3.mlp.up_proj.weight", ("tp", None)),
        ("model.layers.3.mlp.down_proj.weight", (None, "tp")),
        ("model.layers.3.self_attn.q_norm.weight", None),
        ("model.layers.3.input_layernorm.weight", None),
        ("model.norm.weight", None),
    ],
)
def test_parameters_are_split_as_megatron_splits_them(name, spec):
    assert parameter_spec(name) == spec


@pytest.mark.parametrize(
    ("spec", "axes", "placed"),
    [
        (CACHE, ("tp",), (None, "tp", None, None)),
        (CACHE, ("dp", "tp"), ("dp", "tp", None, None)),
        (TOKENS, ("tp",), (None, None)),
        (LOGITS, ("dp",), ("dp", None, None)),
    ],
)
def test_axes_that_the_mesh_lacks_are_left_out(spec, axes, placed):
    assert on_mesh(spec, axes) == placed
