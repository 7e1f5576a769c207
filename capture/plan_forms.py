"""Brings a plan's entries into one form: sweeps become experiments, and the older form is read too."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping

from xlahouse.capture.errors import ManifestError

# Fields whose value is a list in a sweep: each of its values is an experiment of its own. The letter
# stands before the value in the experiment's name.
SWEPT = {
    "model": "",
    "mesh": "",
    "batch_size": "b",
    "prompt_tokens": "p",
    "output_tokens": "o",
    "dtype": "",
    "repeat": "r",
    "seed": "seed",
    "microbatches": "m",
    "slice": "",
}
# The older form: a strategy, the field that holds its size, and the mesh axis that it is.
STRATEGIES = {
    "tensor": ("tp_size", "tp"),
    "sequence": ("seq_parallel_size", "sp"),
    "pipeline": ("pp_size", "pp"),
    "data": ("dp_size", "dp"),
}
_OLDER = ("parallelism", "sequence_length", "num_tokens", "enable_profiling")
# Names by which people call models, and the presets that they mean.
_CALLED = {
    "qwen-32b": "qwen2.5-32b",
    "qwen": "qwen2.5-32b",
    "deepseek-v3.1": "deepseek-v3.1-base",
    "deepseek-v4.1": "deepseek-4.1",
}


def expand(entry: Mapping[str, object], defaults: Mapping[str, object]) -> list[dict[str, object]]:
    """The experiments of one entry of a plan, defaults filled in, without sweeps.

    Args:
        entry: as the plan has it, in the newer or the older form; `repeats: N` is a sweep over
            `repeat`, a list in a field of SWEPT a sweep over that field.
        defaults: of the plan; the entry's own fields win.

    Raises:
        ManifestError: starts with the field at fault.
    """
    fields = {**defaults, **entry}
    if "repeats" in fields:
        fields["repeat"] = _repeats(fields.pop("repeats"))
    fields = _from_older(fields)
    swept: dict[str, list[object]] = {}
    for name in SWEPT:
        values = fields.get(name)
        if not isinstance(values, list):
            continue
        if not values:
            raise ManifestError(f"{name}: a sweep over no values; give it one at least")
        swept[name] = values
    found = []
    for combination in itertools.product(*swept.values()):
        chosen = dict(zip(swept, combination, strict=True))
        named = _name(fields, chosen)
        found.append(_with_model(fields | chosen) | ({"name": named} if named else {}))
    return found


def preset_named(text: str) -> str:
    """The preset that a model's name means: `Qwen-32B`, `deepseek-ai/DeepSeek-V2-Lite`, …"""
    name = re.sub(r"[\s_]+", "-", text.rsplit("/", 1)[-1].strip()).lower()
    return _CALLED.get(name, name)


def parallelism_label(mesh: object) -> str:
    """`dp2.tp2` for {dp: 2, tp: 2}; `single` where every axis is 1."""
    axes = mesh.items() if isinstance(mesh, Mapping) else ()
    return ".".join(f"{axis}{size}" for axis, size in axes if size != 1) or "single"


def _repeats(count: object) -> list[int]:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ManifestError(f"repeats: {count!r} is no number of repeats; write 1 or more")
    return list(range(count))


def _from_older(fields: dict[str, object]) -> dict[str, object]:
    """Fields of the older form under their newer names; newer ones stay as they are."""
    if not any(name in fields for name in _OLDER):
        return fields
    if not fields.pop("enable_profiling", True):
        raise ManifestError(
            "enable_profiling: false: a capture is a profile; set it to true, or leave the "
            "experiment out"
        )
    if "parallelism" in fields:
        fields["mesh"] = _mesh_of(fields.pop("parallelism"))
    for older, newer in (("sequence_length", "prompt_tokens"), ("num_tokens", "output_tokens")):
        if older in fields:
            fields[newer] = fields.pop(older)
    fields.setdefault("name", _own_name(fields))
    return fields


def _with_model(fields: dict[str, object]) -> dict[str, object]:
    """A model that is only named, as its preset."""
    model = fields.get("model")
    if not isinstance(model, str):
        return fields
    preset = preset_named(model)
    return fields | {"model": {"name": preset, "preset": preset}}


def _mesh_of(parallelism: object) -> dict[str, object]:
    """{strategy: tensor, tp_size: 4} -> {tp: 4}; sizes of other strategies must be 1."""
    if not isinstance(parallelism, Mapping) or "strategy" not in parallelism:
        raise ManifestError(
            "parallelism: write it as {strategy: none|tensor|sequence|pipeline|data, tp_size: N}, "
            "or give a mesh such as {tp: 4}"
        )
    sizes = dict(parallelism)
    strategy = sizes.pop("strategy")
    if strategy not in ("none", *STRATEGIES):
        known = ", ".join(("none", *STRATEGIES))
        raise ManifestError(f"parallelism: no strategy {strategy!r}; strategies are {known}")
    field, axis = STRATEGIES.get(strategy, (None, "tp"))
    size = sizes.pop(field, None) if field else 1
    if size is None:
        raise ManifestError(f"parallelism: strategy {strategy} needs {field}, such as {field}: 4")
    known_fields = {name for name, _ in STRATEGIES.values()}
    for name, other in sizes.items():
        if name not in known_fields:
            raise ManifestError(
                f"parallelism: no field {name}; sizes are {', '.join(sorted(known_fields))}"
            )
        if other != 1:
            raise ManifestError(
                f"parallelism: strategy {strategy} with {name} {other}: for several axes give a "
                "mesh such as {dp: 2, tp: 2}"
            )
    return {axis: size}


def _own_name(fields: dict[str, object]) -> str:
    """A name for an entry of the older form, which has none."""
    model = _with_model(fields).get("model")
    parts = [str(model["name"])] if isinstance(model, Mapping) and "name" in model else []
    if not isinstance(fields.get("mesh"), list):
        parts.append(parallelism_label(fields.get("mesh")))
    sizes = (name for name in ("batch_size", "prompt_tokens") if isinstance(fields.get(name), int))
    parts += [f"{SWEPT[name]}{fields[name]}" for name in sizes]
    return "-".join(parts) or "experiment"


def _name(fields: dict[str, object], chosen: dict[str, object]) -> str | None:
    """The entry's name, with what a sweep chose; None where the entry has no name."""
    own = fields.get("name")
    if not isinstance(own, str):
        return None
    return "-".join([own, *(_tag(name, value) for name, value in chosen.items())])


def _tag(field: str, value: object) -> str:
    if field == "mesh":
        return parallelism_label(value)
    if field == "model":
        return str(
            value.get("name", "model") if isinstance(value, Mapping) else preset_named(str(value))
        )
    return f"{SWEPT[field]}{value}"
