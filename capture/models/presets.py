"""The models that a plan can name: their sizes and architecture."""

from __future__ import annotations

import difflib
from functools import cache
from importlib.resources import files
from typing import cast

import msgspec
import yaml

from xlahouse.capture.errors import ManifestError

# A value of a configuration; the only mappings are rope_scaling.
ConfigValue = bool | int | float | str | dict[str, int | float | str] | None

# May be zero; every other whole number of a configuration is a size, at least 1.
_MAY_BE_ZERO = ("first_k_dense_replace", "num_hash_layers")
_MAY_BE_NULL = ("q_lora_rank", "rope_scaling")


class Preset(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A released model: its transformers architecture (`model_type`) and its configuration."""

    family: str  # transformers' model_type
    source: str  # of the numbers
    config: dict[str, ConfigValue]  # by transformers' names
    note: str = ""  # shown to whoever runs it


@cache
def presets() -> dict[str, Preset]:
    """All presets, by name."""
    text = files("xlahouse.capture.models").joinpath("presets.yaml").read_text(encoding="utf-8")
    return msgspec.convert(yaml.safe_load(text), type=dict[str, Preset])


def find_preset(name: str) -> Preset:
    """The preset of that name.

    Raises:
        ManifestError: there is no such preset.
    """
    if name not in presets():
        raise ManifestError(f"model: no preset {name!r}; presets are {', '.join(presets())}")
    return presets()[name]


def model_config(preset: str, overrides: dict[str, object]) -> dict[str, ConfigValue]:
    """A preset's configuration with `overrides` on top, by transformers' names.

    Raises:
        ManifestError: no such preset, a field that the preset lacks, a value of another type than
            the preset's, or a size below 1.
    """
    config = find_preset(preset).config
    for field, value in overrides.items():
        _check_override(config, field, value)
    return config | cast(dict[str, ConfigValue], overrides)


def size_of(config: dict[str, ConfigValue], field: str) -> int:
    """A whole number of a configuration; 0 where it is null or the architecture lacks it."""
    value = config.get(field)
    return value if isinstance(value, int) else 0


def _check_override(config: dict[str, ConfigValue], field: str, value: object) -> None:
    if field not in config:
        near = difflib.get_close_matches(field, config, n=1)
        hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(config)}"
        raise ManifestError(f"model: config: the preset has no field {field!r}; {hint}")
    if value is None and field in _MAY_BE_NULL:
        return
    kind = type(config[field]) if config[field] is not None else type(value)
    if kind is float and type(value) is int:
        kind = int
    if type(value) is not kind:
        raise ManifestError(
            f"model: config: {field} must be {kind.__name__}, not {type(value).__name__}"
        )
    if isinstance(value, bool) or not isinstance(value, int | float):
        return
    if value < (0 if field in _MAY_BE_ZERO else 1e-12):
        raise ManifestError(f"model: config: {field} must be above 0")
