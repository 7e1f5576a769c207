"""Layer and component from module paths of several frameworks."""

from __future__ import annotations

import polars as pl
import pytest

from xlahouse.ingest.hlo import op_names
from xlahouse.ingest.hlo.scopes import component_of, component_of_kernel, layer_of, tick_of


@pytest.mark.parametrize(
    ("path", "layer", "component"),
    [
        ("model.layers.0.7/model.layers.0.self_attn.4/aten__mm", 0, "attention"),
        ("model.layers.12.3/model.layers.12.mlp.9/aten__mm", 12, "mlp"),
        ("model.layers.3.1/model.layers.3.mlp.2/model.layers.3.mlp.experts.5/x", 3, "moe"),
        ("model.layers.3.1/model.layers.3.mlp.2/model.layers.3.mlp.gate.5/x", 3, "moe"),
        ("model.layers.3.1/model.layers.3.mlp.2/model.layers.3.mlp.gate_proj.5/x", 3, "mlp"),
        ("model.layers.4.1/model.layers.4.input_layernorm.2/aten__mul", 4, "norm"),
        (
            "model.layers.4.1/model.layers.4.self_attn.2/model.layers.4.self_attn.q_norm.1/x",
            4,
            "attention",
        ),
        ("model.embed_tokens.1/aten__embedding", None, "embedding"),
        ("lm_head.1/aten__mm", None, "head"),
        ("model.norm.1/aten__mul", None, "norm"),
        ("jit(f)/jit(main)/transformer/layers_3/attention/dot_general", 3, "attention"),
        ("jit(f)/jit(main)/reduce_sum", None, None),
        ("", None, None),
        ("jit(step)/ragged_paged_attention/pallas_call", None, "attention"),
        ("model.layers.2.mlp.1/tgmm/custom_call", 2, "mlp"),  # the path's own word wins
        # A number that no column holds is not an index; neither are the first digits of one.
        ("model.layers.99999999999999999999/mlp/x", None, "mlp"),
        ("model.layers.1234567890/x", None, None),
        ("model.layers.٣/x", None, None),
    ],
)
def test_scope(path, layer, component):
    assert layer_of(path) == layer
    assert component_of(path) == component


@pytest.mark.parametrize(
    ("kernel", "component"),
    [
        ("RPA-bq_32-bkvp_32-p_128-.37", "attention"),  # of vLLM on TPUs
        ("splash_mha_fwd", "attention"),
        ("void pytorch_flash::flash_fwd_kernel<T>; flash_attn", "attention"),
        ("fmha_cutlassF_bf16", "attention"),
        ("grouped_matmul.3", "moe"),
        ("gmm.12", "moe"),
        ("quantized_matmul_kernel_512_6400_", None),  # of attention or mlp
        ("carpal_tunnel", None),  # `rpa` within a word
        ("fusion.3", None),
    ],
)
def test_kernels_name_their_component(kernel, component):
    assert component_of_kernel(kernel) == component
    (found,) = pl.select(op_names.component_of(pl.lit(kernel))).to_series()
    assert found == component


@pytest.mark.parametrize(("name", "tick"), [("7", 7), ("99999999999999999999", None)])
def test_tick(name, tick):
    assert tick_of(f"xlahouse.tick.{name}/model.layers.0/x") == tick
