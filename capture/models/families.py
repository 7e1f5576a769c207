"""The model architectures: their transformers class and the sharding of their parameters.

A table maps the pattern of a parameter's module path to a mesh axis, or None, for each dimension. The
first match applies; a parameter without a match (norms, routers) is on every device. `tp` is the tensor
axis, which a mesh may also call `sp`; axes that the mesh lacks are left out. With `tp` first a linear
layer is split by columns; with `tp` second by rows, and its block ends with a reduction. A weight with
`fsdp` is gathered before use.
"""

from __future__ import annotations

import fnmatch

import msgspec

AxisNames = str | tuple[str, ...] | None  # a mesh axis, several, or no axis
Spec = tuple[AxisNames, ...]  # the axes that split each dimension of a tensor

_COMMON: dict[str, Spec] = {
    "model.embed_tokens.weight": ("tp", "fsdp"),  # [vocab, hidden]
    "lm_head.weight": ("tp", "fsdp"),  # [vocab, hidden]
    "*.mlp.gate_proj.weight": ("tp", "fsdp"),  # [intermediate, hidden]
    "*.mlp.up_proj.weight": ("tp", "fsdp"),  # [intermediate, hidden]
    "*.mlp.down_proj.weight": ("fsdp", "tp"),  # [hidden, intermediate]
}
_GROUPED_QUERY: dict[str, Spec] = {
    "*.self_attn.[qkv]_proj.weight": ("tp", "fsdp"),  # [heads x head_dim, hidden]
    "*.self_attn.[qkv]_proj.bias": ("tp",),  # [heads x head_dim]
    "*.self_attn.o_proj.weight": ("fsdp", "tp"),  # [hidden, heads x head_dim]
}
_EXPERTS: dict[str, Spec] = {
    "*.mlp.experts.gate_up_proj": ("ep", "tp", "fsdp"),  # [experts, 2 x intermediate, hidden]
    "*.mlp.experts.down_proj": ("ep", "fsdp", "tp"),  # [experts, hidden, intermediate]
    "*.mlp.shared_experts.gate_proj.weight": ("tp", "fsdp"),  # [intermediate, hidden]
    "*.mlp.shared_experts.up_proj.weight": ("tp", "fsdp"),  # [intermediate, hidden]
    "*.mlp.shared_experts.down_proj.weight": ("fsdp", "tp"),  # [hidden, intermediate]
}
_LATENT: dict[str, Spec] = {
    "*.self_attn.q_proj.weight": ("tp", "fsdp"),  # [heads x qk_head_dim, hidden]
    "*.self_attn.q_a_proj.weight": (None, "fsdp"),  # [q_lora_rank, hidden]
    "*.self_attn.q_b_proj.weight": ("tp", "fsdp"),  # [heads x qk_head_dim, q_lora_rank]
    "*.self_attn.kv_a_proj_with_mqa.weight": (None, "fsdp"),  # [kv_lora_rank + rope, hidden]
    "*.self_attn.kv_b_proj.weight": ("tp", "fsdp"),  # [heads x (nope + v), kv_lora_rank]
    "*.self_attn.o_proj.weight": ("fsdp", "tp"),  # [hidden, heads x v_head_dim]
}
# The single key/value head, the compressors and the indexer are on every device.
_COMPRESSED: dict[str, Spec] = {
    "*.self_attn.q_a_proj.weight": (None, "fsdp"),  # [q_lora_rank, hidden]
    "*.self_attn.q_b_proj.weight": ("tp", "fsdp"),  # [heads x head_dim, q_lora_rank]
    "*.self_attn.kv_proj.weight": (None, "fsdp"),  # [head_dim, hidden]
    "*.self_attn.sinks": ("tp",),  # [heads]
    "*.self_attn.o_a_proj.weight": (
        "tp",
        "fsdp",
    ),  # [groups x o_lora_rank, heads x head_dim / groups]
    "*.self_attn.o_b_proj.weight": ("fsdp", "tp"),  # [hidden, groups x o_lora_rank]
}
# Their rows are gate, then up; each device gets its part of both.
PACKED = ("*.mlp.experts.gate_up_proj",)


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """An architecture, by transformers' `model_type`."""

    name: str  # transformers' model_type
    model_class: str  # in transformers
    parameters: dict[str, Spec]  # pattern of a module path -> its spec
    heads: tuple[str, ...]  # fields of the configuration that `tp` must divide
    experts: bool = False  # has layers with experts
    stackable: bool = True  # layers after the dense ones are equal, so stages can be stacked


FAMILIES = {
    family.name: family
    for family in (
        Family(
            name="qwen2",
            model_class="Qwen2ForCausalLM",
            parameters=_COMMON | _GROUPED_QUERY,
            heads=("num_attention_heads", "num_key_value_heads"),
        ),
        Family(
            name="qwen3",
            model_class="Qwen3ForCausalLM",
            parameters=_COMMON | _GROUPED_QUERY,
            heads=("num_attention_heads", "num_key_value_heads"),
        ),
        Family(
            name="deepseek_v2",
            model_class="DeepseekV2ForCausalLM",
            parameters=_COMMON | _EXPERTS | _LATENT,
            heads=("num_attention_heads",),
            experts=True,
        ),
        Family(
            name="deepseek_v3",
            model_class="DeepseekV3ForCausalLM",
            parameters=_COMMON | _EXPERTS | _LATENT,
            heads=("num_attention_heads",),
            experts=True,
        ),
        Family(
            name="deepseek_v4",
            model_class="DeepseekV4ForCausalLM",
            parameters=_COMMON | _EXPERTS | _COMPRESSED,
            heads=("num_attention_heads", "o_groups"),
            experts=True,
            stackable=False,
        ),
    )
}


def parameter_spec(family: Family, name: str) -> Spec | None:
    """The table's entry for a parameter, by its module path; None: on every device."""
    return next(
        (spec for pattern, spec in family.parameters.items() if fnmatch.fnmatchcase(name, pattern)),
        None,
    )


def is_packed(name: str) -> bool:
    """Whether a parameter's second dimension is gate, then up."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in PACKED)
