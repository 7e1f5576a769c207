"""Counts the weights in a model's matrices, which fsdp has to gather, by how parallelisms split them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from xlahouse.capture.manifest import Manifest

_GATED = 3  # matrices of a feed-forward network: gate, up and down
_STACKED = 2  # the same of all experts together: gate with up, and down


@dataclass(frozen=True)
class Weights:
    """Numbers of weights in matrices, without norms, biases and routers, which every device has."""

    split: int = 0  # in matrices that a tensor axis splits
    whole: int = 0  # in matrices that it does not: the low-rank projections ahead of the heads
    experts: int = 0  # in experts, which ep and a tensor axis split
    matrices: int = 0  # number of matrices

    def __add__(self, other: Weights) -> Weights:
        return Weights(
            self.split + other.split,
            self.whole + other.whole,
            self.experts + other.experts,
            self.matrices + other.matrices,
        )

    def __mul__(self, count: int) -> Weights:
        return Weights(
            self.split * count, self.whole * count, self.experts * count, self.matrices * count
        )


def matrix_weights(manifest: Manifest, expert_layers: int | None) -> Weights | None:
    """Weights of the whole model as a pass uses them, with embedding and head; a tied head counts again.

    None for an architecture that is not listed here, or where a size is missing.
    """
    attention = _ATTENTION.get(manifest.model_family)
    if attention is None or expert_layers is None:
        return None
    sizes = _Sizes(manifest)
    try:
        vocabulary = Weights(split=sizes["vocab_size"] * sizes["hidden_size"], matrices=1)
        total = vocabulary * 2 + attention(sizes) * manifest.layers
        if manifest.layers > expert_layers:
            total += _network(sizes, sizes["intermediate_size"]) * (manifest.layers - expert_layers)
        if expert_layers:
            total += _experts(sizes) * expert_layers
    except KeyError:
        return None
    return total


class _Sizes:
    """A configuration whose sizes are whole numbers; KeyError for one that is not."""

    def __init__(self, manifest: Manifest) -> None:
        self._config = manifest.model_config | {"hidden_size": manifest.hidden_size}

    def __getitem__(self, name: str) -> int:
        size = self._config.get(name)
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise KeyError(name)
        return size

    def get(self, name: str) -> int:
        """0 where the model has no such part."""
        return self[name] if self._config.get(name) else 0

    @property
    def head_dim(self) -> int:
        return self.get("head_dim") or self["hidden_size"] // self["num_attention_heads"]


def _grouped_query(sizes: _Sizes) -> Weights:
    """Queries and output of all heads; keys and values of their own heads."""
    heads = 2 * sizes["num_attention_heads"] + 2 * sizes["num_key_value_heads"]
    return Weights(split=heads * sizes.head_dim * sizes["hidden_size"], matrices=4)


def _latent(sizes: _Sizes) -> Weights:
    """Queries, keys and values by way of low ranks (DeepSeek-V2 and V3); queries may have no low rank."""
    hidden, heads = sizes["hidden_size"], sizes["num_attention_heads"]
    rotary, value = sizes["qk_rope_head_dim"], sizes["v_head_dim"]
    nope, rank = sizes["qk_nope_head_dim"], sizes["kv_lora_rank"]
    split = heads * (nope + value) * rank + hidden * heads * value
    found = Weights(split=split, whole=(rank + rotary) * hidden, matrices=3)
    return found + _queries(sizes, heads * (nope + rotary))


def _queries(sizes: _Sizes, width: int) -> Weights:
    hidden, rank = sizes["hidden_size"], sizes.get("q_lora_rank")
    if not rank:
        return Weights(split=width * hidden, matrices=1)
    return Weights(split=width * rank, whole=rank * hidden, matrices=2)


def _compressed(sizes: _Sizes) -> Weights:
    """One head of keys and values, and an output in groups (DeepSeek-V4); its compressors and indexers
    are on every device."""
    hidden, width = sizes["hidden_size"], sizes["num_attention_heads"] * sizes.head_dim
    out = sizes["o_groups"] * sizes["o_lora_rank"]
    grouped = sizes["o_lora_rank"] * width  # groups x rank rows of width / groups
    found = Weights(split=grouped + hidden * out, whole=sizes.head_dim * hidden, matrices=3)
    return found + _queries(sizes, width)


def _network(sizes: _Sizes, width: int) -> Weights:
    return Weights(split=_GATED * sizes["hidden_size"] * width, matrices=_GATED)


def _experts(sizes: _Sizes) -> Weights:
    """Routed and shared experts of a layer."""
    width = sizes["moe_intermediate_size"]
    each = _network(sizes, width)
    found = Weights(experts=sizes["n_routed_experts"] * each.split, matrices=_STACKED)
    shared = sizes.get("n_shared_experts")
    return found + replace(each, split=each.split * shared) if shared else found


_ATTENTION: dict[str, Callable[[_Sizes], Weights]] = {
    "qwen2": _grouped_query,
    "qwen3": _grouped_query,
    "deepseek_v2": _latent,
    "deepseek_v3": _latent,
    "deepseek_v4": _compressed,
}
