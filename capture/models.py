"""The models that can be captured: their sizes, and how to build them with seeded weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from xlahouse.capture.errors import ManifestError

if TYPE_CHECKING:
    import torch

ATTENTION = "xlahouse_grouped"  # name under which transformers finds grouped_attention


class ModelSizes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a plan may set of transformers' Qwen3Config, by its names there."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float = 1e-6
    rope_theta: float = 1_000_000.0
    tie_word_embeddings: bool = False


# qwen3-demo is small enough for virtual devices; the others have the sizes of Qwen's releases.
PRESETS = {
    "qwen3-demo": ModelSizes(
        vocab_size=4096,
        hidden_size=512,
        intermediate_size=1536,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=64,
        max_position_embeddings=512,
    ),
    "qwen3-0.6b": ModelSizes(
        vocab_size=151_936,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=40_960,
        tie_word_embeddings=True,
    ),
}
FAMILY = "qwen3"


def model_sizes(preset: str, overrides: dict[str, Any]) -> ModelSizes:
    """A preset's sizes with `overrides` on top.

    Raises:
        ManifestError: no such preset, a size that models do not have, or one below 1.
    """
    if preset not in PRESETS:
        raise ManifestError(f"model: no preset {preset!r}; there are {', '.join(PRESETS)}")
    try:
        sizes = msgspec.convert(
            msgspec.to_builtins(PRESETS[preset]) | overrides, type=ModelSizes, strict=True
        )
    except msgspec.ValidationError as error:
        raise ManifestError(f"model: config: {error}") from error
    for field in sizes.__struct_fields__:
        if field != "tie_word_embeddings" and getattr(sizes, field) <= 0:
            raise ManifestError(f"model: config: {field} must be above 0")
    return sizes


def build_model(sizes: ModelSizes, dtype: str, seed: int) -> torch.nn.Module:
    """A Qwen3ForCausalLM on the host, in evaluation mode, with random weights drawn from `seed`."""
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(ATTENTION, grouped_attention)
    fields = msgspec.to_builtins(sizes)
    theta = fields.pop("rope_theta")
    config = Qwen3Config(
        **fields,
        rope_parameters={"rope_type": "default", "rope_theta": theta},
        attn_implementation="eager",
    )
    torch.manual_seed(seed)
    return Qwen3ForCausalLM(config).to(getattr(torch, dtype)).eval()


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    scaling: float,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """Grouped-query attention that never repeats K and V.

    Heads are split into [key/value heads, queries of each]. Sharding over heads then stays on the
    key/value heads; transformers' own repeat_kv makes GSPMD gather K and V over tp instead.

    Shapes: query [batch, heads, tokens, head_dim], key and value [batch, kv_heads, slots,
    head_dim], attention_mask (added to the scores) [1, 1, tokens, slots]; the result is [batch,
    tokens, heads, head_dim].
    """
    import torch

    batch, heads, tokens, head_dim = query.shape
    kv_heads = key.shape[1]
    grouped = query.reshape(batch, kv_heads, heads // kv_heads, tokens, head_dim)
    scores = torch.einsum("bngtd,bnsd->bngts", grouped, key) * scaling + attention_mask[:, :, None]
    weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
    mixed = torch.einsum("bngts,bnsd->bngtd", weights, value)
    return mixed.reshape(batch, heads, tokens, head_dim).transpose(1, 2).contiguous(), None
