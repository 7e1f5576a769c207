"""Replaces parts of transformers' attention by forms that shard over heads and that XLA supports."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.models.modules import CausalModel

ATTENTION = "xlahouse_grouped"  # its name in transformers
MOST_SCORES = 2**28  # elements of a device's scores at a time: 1 GiB in float32
KEY_TILE = 128  # keys of a tile of a TPU
# Elements of a mask that is made whole. A larger one has LONG_MASK keys: each block of keys makes its own.
LARGEST_MASK, LONG_MASK = 2**26, 1
_OWN_ROTATION = "_xlahouse_complex_rotation"  # where transformers' function is kept


def register_attention(key_block: int | None = None) -> None:
    """Register grouped_attention with transformers, for all models of this process.

    `key_block`: keys that a prefill attends to at a time; None: see keys_at_once.
    """
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    ALL_ATTENTION_FUNCTIONS.register(
        ATTENTION, functools.partial(grouped_attention, key_block=key_block)
    )


def grouped_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    scaling: float,
    s_aux: torch.Tensor | None = None,
    query_positions: torch.Tensor | None = None,
    key_block: int | None = None,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """Grouped-query attention without repeated K and V, with an optional sink for each head.

    Heads are split into [key/value heads, queries of each]. Sharding over heads then stays on the
    key/value heads; with transformers' repeat_kv GSPMD gathers K and V over tp. A long prompt attends
    to blocks of keys in turn: its whole scores would not fit a chip.

    Shapes: query [batch, heads, tokens, head_dim], key [batch, kv_heads, slots, head_dim], value
    [batch, kv_heads, slots, v_head_dim], attention_mask (added to the scores) [1, 1, tokens, slots],
    with a batch, or LONG_MASK, s_aux [heads], query_positions [tokens]; the result is [batch, tokens,
    heads, v_head_dim].
    """
    import torch

    batch, heads, tokens, head_dim = query.shape
    kv_heads, slots = key.shape[1:3]
    grouped = query.reshape(batch, kv_heads, heads // kv_heads, tokens, head_dim)
    block = key_block or keys_at_once(batch * heads * tokens)
    sinks = None if s_aux is None else s_aux.reshape(1, kv_heads, heads // kv_heads, 1, 1)

    def scores(start: int, stop: int) -> torch.Tensor:
        """Scores of keys start..stop, [batch, kv_heads, queries of each, tokens, keys]."""
        bias = _bias(module, attention_mask, slots, query_positions, start, stop)
        keys = key if stop - start == slots else key[:, :, start:stop]
        return torch.einsum("bngtd,bnsd->bngts", grouped, keys) * scaling + bias[:, :, None]

    if tokens == 1 or block >= slots:
        mixed = _mixed_at_once(scores(0, slots), value, sinks)
    else:
        starts = range(0, slots, block)
        blocks = ((start, min(start + block, slots)) for start in starts)
        mixed = _mixed_in_blocks(
            ((scores(start, stop), value[:, :, start:stop]) for start, stop in blocks), sinks
        ).to(query.dtype)
    return mixed.reshape(batch, heads, tokens, value.shape[-1]).transpose(1, 2).contiguous(), None


def keys_at_once(rows: int) -> int:
    """Keys whose scores with `rows` queries of all heads are at most MOST_SCORES, in whole tiles."""
    return max(MOST_SCORES // rows // KEY_TILE, 1) * KEY_TILE


def _mixed_at_once(
    scores: torch.Tensor, value: torch.Tensor, sinks: torch.Tensor | None
) -> torch.Tensor:
    """Values by their weights, from all scores; a sink takes part of the weights."""
    import torch

    if sinks is not None:
        wide = sinks.to(scores.dtype).expand(*scores.shape[:-1], 1)
        scores = torch.cat([scores, wide], dim=-1)
    weights = scores.softmax(-1, dtype=torch.float32).to(value.dtype)
    if sinks is not None:
        weights = weights[..., :-1]
    return torch.einsum("bngts,bnsd->bngtd", weights, value)


def _mixed_in_blocks(
    blocks: Iterator[tuple[torch.Tensor, torch.Tensor]], sinks: torch.Tensor | None
) -> torch.Tensor:
    """The same from blocks of scores with their values, in float32.

    The largest score so far is subtracted, and what was summed before is scaled when it rises; a sink
    is a first key without a value.
    """
    import torch

    largest: torch.Tensor | None = None
    for scores, value in blocks:
        wide = scores.float()
        if largest is None:
            # Finite, as a query may see none of the first keys.
            least = wide.new_full((1, 1, 1, 1, 1), torch.finfo(torch.float32).min)
            largest = (least if sinks is None else sinks.float()).expand(*wide.shape[:-1], 1)
            summed = torch.full_like(wide[..., :1], 0.0 if sinks is None else 1.0)
            mixed = wide.new_zeros(*wide.shape[:-1], value.shape[-1])
        before, largest = largest, torch.maximum(largest, wide.amax(-1, keepdim=True))
        weights, kept = (wide - largest).exp(), (before - largest).exp()
        summed = summed * kept + weights.sum(-1, keepdim=True)
        added = torch.einsum("bngts,bnsd->bngtd", weights.to(value.dtype), value)
        mixed = mixed * kept + added.float()
    return mixed / summed


def _bias(
    module: torch.nn.Module,
    mask: torch.Tensor,
    slots: int,
    positions: torch.Tensor | None,
    start: int,
    stop: int,
) -> torch.Tensor:
    """What is added to the scores of keys start..stop."""
    import torch

    if mask.shape[-1] == LONG_MASK and positions is not None:
        keys = torch.arange(start, stop, device=positions.device)
        return causal_bias(keys, positions).to(mask.dtype)
    whole = _close_unfinished_windows(module, mask, slots, positions)
    return whole if stop - start == slots else whole[..., start:stop]


def causal_bias(keys: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """[1, 1, positions, keys]: 0 for keys up to a query's position, else -inf."""
    import torch

    visible = keys[None, :] <= positions[:, None]
    return torch.where(visible, 0.0, float("-inf"))[None, None]


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
