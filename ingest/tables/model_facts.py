"""Facts in a model's configuration from which views compute utilization."""

from __future__ import annotations

from collections.abc import Mapping

from xlahouse.capture.manifest import Manifest
from xlahouse.ingest.hlo.weight_matrices import Weights, matrix_weights

# Names of one fact in the configurations of transformers.
_EXPERT_COUNTS = ("num_experts", "n_routed_experts", "num_local_experts")
_CHOSEN_EXPERTS = ("num_experts_per_tok", "num_experts_per_token", "moe_topk")
_EXPERT_WIDTH = ("moe_intermediate_size", "intermediate_size")
# With these a token does not attend to its whole context, so that its cost is not one number a pair.
_PARTIAL_ATTENTION = ("index_topk", "compress_ratios", "compress_ratio")
_MATRICES = 3  # of a gated feed-forward network: gate, up and down


def model_facts(manifest: Manifest) -> dict[str, object]:
    """Columns of the runs table; None where neither manifest nor configuration states them."""
    config, expert_layers = manifest.model_config, _layers_of_experts(manifest)
    weights = matrix_weights(manifest, expert_layers)
    return {
        "parameters": manifest.parameters,
        "active_parameters": _active_parameters(manifest),
        "weight_bytes": manifest.weight_bytes,
        "kv_bytes_per_token": manifest.kv_bytes_per_token,
        "attention_pair_flops": _attention_pair_flops(manifest),
        "vocab_size": _first(config, ("vocab_size",)),
        "expert_layers": expert_layers,
        "experts": _first(config, _EXPERT_COUNTS),
        "experts_per_token": _first(config, _CHOSEN_EXPERTS),
        "capacity_factor": _capacity_factor(manifest),
        "stage_layers": _stage_layers(manifest),
        **_matrices(weights),
        **_vocabulary(manifest, weights),
    }


def _layers_of_experts(manifest: Manifest) -> int | None:
    """0 for a model without experts; None where there is no configuration."""
    if not manifest.model_config:
        return None
    return _expert_layers(manifest) if _first(manifest.model_config, _EXPERT_COUNTS) else 0


def _capacity_factor(manifest: Manifest) -> float | None:
    """Without a bound an expert has a place for every token, which is experts / chosen of its share."""
    experts, chosen = (
        _first(manifest.model_config, names) for names in (_EXPERT_COUNTS, _CHOSEN_EXPERTS)
    )
    if not experts or not chosen or "capacity_factor" not in manifest.plan_entry:
        return None
    factor = manifest.plan_entry["capacity_factor"]
    if factor is None:
        return experts / chosen
    return float(factor) if isinstance(factor, int | float) and factor > 0 else None


def _stage_layers(manifest: Manifest) -> int | None:
    """Layers of a stage, where all stages hold the same number."""
    counts = {len(layers) for layers in manifest.stage_layers}
    return counts.pop() if len(counts) == 1 else None


def _matrices(weights: Weights | None) -> dict[str, int | None]:
    return {
        "tensor_weights": weights.split if weights else None,
        "whole_weights": weights.whole if weights else None,
        "expert_weights": weights.experts if weights else None,
        "weight_matrices": weights.matrices if weights else None,
    }


def _vocabulary(manifest: Manifest, weights: Weights | None) -> dict[str, int | None]:
    """Weights of head and embedding, as `matrix_weights` counts them, where the manifest has none."""
    vocabulary = _first(manifest.model_config, ("vocab_size",))
    derived = vocabulary * manifest.hidden_size if vocabulary and weights else None
    head = derived if manifest.head_weights is None else manifest.head_weights
    tied = manifest.model_config.get("tie_word_embeddings")
    return {
        "head_weights": head,
        "lookup_weights": (0 if tied else head) if isinstance(tied, bool) else None,
        "logit_positions": manifest.logit_positions,
    }


def _active_parameters(manifest: Manifest) -> int | None:
    """All parameters without the experts that a token is not sent to."""
    config, total = manifest.model_config, manifest.parameters
    experts = _first(config, _EXPERT_COUNTS)
    if total is None or not experts:
        return total
    chosen, width = _first(config, _CHOSEN_EXPERTS), _first(config, _EXPERT_WIDTH)
    if chosen is None or width is None or not 0 < chosen <= experts:
        return None
    expert = _MATRICES * manifest.hidden_size * width
    idle = _expert_layers(manifest) * (experts - chosen) * expert
    return total - idle if idle < total else None


def _expert_layers(manifest: Manifest) -> int:
    """Layers whose feed-forward network is experts."""
    config = manifest.model_config
    dense = {layer for layer in _listed(config, "mlp_only_layers") if isinstance(layer, int)}
    first = _first(config, ("first_k_dense_replace",)) or 0
    every = _first(config, ("decoder_sparse_step",)) or 1  # Qwen: each such layer from the first on
    step = _first(config, ("moe_layer_freq",)) or 1  # DeepSeek: layer 0 and each such one after it
    return sum(
        layer >= first and layer not in dense and (layer + 1) % every == 0 and layer % step == 0
        for layer in range(manifest.layers)
    )


def _attention_pair_flops(manifest: Manifest) -> float | None:
    """Two products a head, one over the width of keys and one over that of values; 2 FLOPs each term."""
    config = manifest.model_config
    heads = _first(config, ("num_attention_heads",))
    limited = _first(config, ("sliding_window",)) and config.get("use_sliding_window", True)
    partial = any(config.get(name) for name in _PARTIAL_ATTENTION)
    mixed = any(kind != "full_attention" for kind in _listed(config, "layer_types"))
    if not heads or limited or partial or mixed:
        return None
    plain = _first(config, ("head_dim",)) or manifest.hidden_size // heads
    parts = [_first(config, (name,)) for name in ("qk_nope_head_dim", "qk_rope_head_dim")]
    keys = sum(part or 0 for part in parts) or plain
    values = _first(config, ("v_head_dim",)) or plain
    return 2.0 * manifest.layers * heads * (keys + values)


def _listed(config: Mapping[str, object], name: str) -> list[object]:
    """The items of a list; none where there is no list."""
    found = config.get(name)
    return found if isinstance(found, list) else []


def _first(config: Mapping[str, object], names: tuple[str, ...]) -> int | None:
    """The first of these that is a whole number."""
    found = (config.get(name) for name in names)
    return next((n for n in found if isinstance(n, int) and not isinstance(n, bool)), None)
