"""Replaces parts of transformers' attention by forms that shard over heads and that XLA supports."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.models.modules import CausalModel

ATTENTION = "xlahouse_grouped"  # its name in transformers
_OWN_ROTATION = "_xlahouse_complex_rotation"  # where transformers' function is kept


def register_attention() -> None:
    """Register grouped_attention with transformers."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(ATTENTION, grouped_attention)


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    scaling: float,
    s_aux: torch.Tensor | None = None,
    query_positions: torch.Tensor | None = None,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """Grouped-query attention without repeated K and V, with an optional sink for each head.

    Heads are split into [key/value heads, queries of each]. Sharding over heads then stays on the
    key/value heads; with transformers' repeat_kv GSPMD gathers K and V over tp.

    Shapes: query [batch, heads, tokens, head_dim], key [batch, kv_heads, slots, head_dim], value
    [batch, kv_heads, slots, v_head_dim], attention_mask (added to the scores) [1, 1, tokens, slots]
    or with a batch, s_aux [heads], query_positions [tokens]; the result is [batch, tokens, heads,
    v_head_dim].
    """
    import torch

    batch, heads, tokens, head_dim = query.shape
    kv_heads = key.shape[1]
    grouped = query.reshape(batch, kv_heads, heads // kv_heads, tokens, head_dim)
    mask = _close_unfinished_windows(module, attention_mask, key.shape[2], query_positions)
    scores = torch.einsum("bngtd,bnsd->bngts", grouped, key) * scaling + mask[:, :, None]
    if s_aux is not None:
        sinks = s_aux.to(scores.dtype).reshape(1, kv_heads, heads // kv_heads, 1, 1)
        scores = torch.cat([scores, sinks.expand(batch, -1, -1, tokens, 1)], dim=-1)
    weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
    if s_aux is not None:
        weights = weights[..., :-1]
    mixed = torch.einsum("bngts,bnsd->bngtd", weights, value)
    return mixed.reshape(batch, heads, tokens, value.shape[-1]).transpose(1, 2).contiguous(), None


def _close_unfinished_windows(
    module: torch.nn.Module, mask: torch.Tensor, slots: int, positions: torch.Tensor | None
) -> torch.Tensor:
    """Mask compressed entries of windows that are not full: a static cache has a place for each from
    the start, and DeepSeek-V4's heavily compressed layers do not mask them for a single query."""
    import torch

    compressor = getattr(module, "compressor", None)
    if compressor is None or positions is None or hasattr(compressor, "indexer"):
        return mask
    # The entries are the last slots; their count follows from the static cache's length.
    entries = compressor.static_entries
    window = torch.arange(entries, device=mask.device)
    full = window[None, :] < ((positions + 1) // compressor.compress_rate)[:, None]
    bias = torch.where(full, 0.0, float("-inf")).to(mask.dtype)[None, None]
    kept = mask[..., : slots - entries]
    return torch.cat([kept, bias.expand(*kept.shape[:-1], entries)], dim=-1)


def rotate_pairs_as_reals(model: CausalModel) -> None:
    """Let a deepseek_v2 model rotate with cosine and sine: XLA has no complex polar form.

    The model's rotary embedding then returns [1, tokens, pairs, 2] (cosine, sine) instead of complex
    numbers. The process has a single function that applies them; it accepts both forms.
    """
    import torch
    from transformers.models.deepseek_v2 import modeling_deepseek_v2

    own = getattr(modeling_deepseek_v2, _OWN_ROTATION, modeling_deepseek_v2.apply_rotary_emb)
    setattr(modeling_deepseek_v2, _OWN_ROTATION, own)
    rotary = model.model.rotary_emb

    def frequencies(hidden: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        angles = positions[..., None].float() * rotary.inv_freq.float()
        return torch.stack([angles.cos(), angles.sin()], dim=-1) * rotary.attention_scaling

    def apply(
        query: torch.Tensor, key: torch.Tensor, turns: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if turns.is_complex():
            rotated: tuple[torch.Tensor, torch.Tensor] = own(query, key, turns)
            return rotated
        return _turn(query, turns), _turn(key, turns)

    rotary.forward = frequencies
    modeling_deepseek_v2.apply_rotary_emb = apply


def _turn(heads: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Rotate each pair of [batch, heads, tokens, 2 x pairs] by [1, tokens, pairs, 2]."""
    import torch

    pairs = heads.float().unflatten(-1, (-1, 2))
    cosine, sine = turns[:, None, ..., 0], turns[:, None, ..., 1]
    left, right = pairs[..., 0], pairs[..., 1]
    turned = torch.stack([left * cosine - right * sine, left * sine + right * cosine], dim=-1)
    return turned.flatten(-2).type_as(heads)
