"""A checkpoint's config.json, in the fields of presets: it decides, and a plan may override some of it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from xlahouse.capture.errors import CaptureError
from xlahouse.capture.models.presets import ConfigValue
from xlahouse.capture.opening import read_regular

# Fields that decide no tensor's shape: a plan may run a checkpoint with other values.
_FREE = (
    "compress_rope_theta",
    "hc_sinkhorn_iters",
    "index_topk",
    "max_position_embeddings",
    "n_group",
    "norm_topk_prob",
    "num_experts_per_tok",
    "rms_norm_eps",
    "rope_scaling",
    "rope_theta",
    "routed_scaling_factor",
    "sliding_window",
    "swiglu_limit",
    "topk_group",
    "topk_method",
)
# Fields that change a result and that no preset has.
_FURTHER = ("attention_bias", "hc_eps", "hidden_act", "mlp_bias", "rope_interleave", "scoring_func")
_NULLS = ("q_lora_rank", "rope_scaling")  # null is a value of theirs


@dataclass(frozen=True)
class Settled:
    """A model's configuration after its checkpoint's and the plan's word."""

    config: dict[str, ConfigValue]  # the preset's fields
    further: dict[str, ConfigValue]  # fields that presets lack
    notes: list[str]  # what the plan overrides, one sentence each


def settle(
    folder: Path, family: str, preset: dict[str, ConfigValue], overrides: dict[str, object]
) -> Settled:
    """The preset's fields as config.json in `folder` has them, with the plan's `overrides` on top.

    Raises:
        CaptureError: config.json is damaged, of another architecture, or contradicts the plan.
    """
    stored, chosen = _read(folder), cast(dict[str, ConfigValue], overrides)
    if stored is None:
        note = f"{folder} has no config.json: rope, eps, scales and sizes are the plan's"
        return Settled(preset | chosen, {}, [note])
    if stored.get("model_type", family) != family:
        raise CaptureError(
            f"{folder}: its config.json is of {stored['model_type']}, the plan's preset of {family}; "
            "name a preset of the checkpoint's architecture"
        )
    if stored.get("use_sliding_window"):
        raise CaptureError(
            f"{folder}: its config.json has use_sliding_window, which captures do not; "
            "use a checkpoint without"
        )
    own = {name: value for name, value in preset_fields(stored).items() if name in preset}
    notes = []
    for name, value in overrides.items():
        if name not in own or own[name] == value:
            continue
        _check_override(folder, name, own[name], value)
        notes.append(f"the plan overrides {name}, {own[name]} in the checkpoint: {value}")
    further = {name: stored[name] for name in _FURTHER if name in stored}
    return Settled(preset | own | chosen, further, notes)


def preset_fields(stored: dict[str, Any]) -> dict[str, ConfigValue]:
    """A config.json, of any version of transformers, in the fields of presets."""
    fields: dict[str, Any] = dict(stored)
    rope = stored.get("rope_parameters")
    if isinstance(rope, dict):  # transformers 5; deepseek_v4 has one for each kind of layer
        main = rope.get("main", rope)
        fields["rope_theta"] = main.get("rope_theta", stored.get("rope_theta"))
        fields["rope_scaling"] = {
            name: value
            for name, value in main.items()
            if name not in ("rope_theta", "partial_rotary_factor")
        }
        if "compress" in rope:
            fields["compress_rope_theta"] = rope["compress"].get("rope_theta")
    fields["rope_scaling"] = _scaling(fields.get("rope_scaling"))
    for short, kind in (("csa", "compressed_sparse"), ("hca", "heavily_compressed")):
        if "compress_rates" in stored:
            fields[f"compress_rate_{short}"] = stored["compress_rates"].get(f"{kind}_attention")
    if "mlp_layer_types" in stored:
        fields["num_hash_layers"] = stored["mlp_layer_types"].count("hash_moe")
    return {name: value for name, value in fields.items() if value is not None or name in _NULLS}


def _scaling(stored: object) -> dict[str, int | float | str] | None:
    """rope_scaling with `rope_type`, which was `type`, and without what says nothing."""
    if not isinstance(stored, dict):
        return None
    kind = stored.get("rope_type", stored.get("type", "default"))
    if kind == "default":
        return None
    rest = {name: value for name, value in stored.items() if name not in ("type", "rope_type")}
    return {"rope_type": kind, **rest}


def _check_override(folder: Path, name: str, own: object, value: object) -> None:
    """Refuse an override that the checkpoint's tensors contradict."""
    if name in _FREE:
        return
    fewer = isinstance(own, int) and isinstance(value, int) and value < own
    if name == "num_hidden_layers" and fewer:  # its first layers
        return
    raise CaptureError(
        f"{folder}: its config.json has {name} {own}, the plan {value}; take {name} out of the plan"
    )


def _read(folder: Path) -> dict[str, Any] | None:
    path = folder / "config.json"
    if not path.exists():
        return None
    try:
        stored = json.loads(read_regular(path))
    except (OSError, ValueError, RecursionError) as error:
        raise CaptureError(f"{path}: {error}; download the checkpoint again") from error
    if not isinstance(stored, dict):
        raise CaptureError(f"{path}: not a mapping; download the checkpoint again")
    return stored
