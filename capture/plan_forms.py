"""Expands the sweeps of a plan's entries into experiments, and translates the older form."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping

from xlahouse.capture.errors import ManifestError
from xlahouse.capture.limits import exceeded, most

# Fields that can be swept: a list gives an experiment for each value -> prefix of the value in the
# experiment's name.
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
    "serving": "",
}
# The older form: strategy -> the field with its size, and its mesh axis.
STRATEGIES = {
    "tensor": ("tp_size", "tp"),
    "sequence": ("seq_parallel_size", "sp"),
    "pipeline": ("pp_size", "pp"),
    "data": ("dp_size", "dp"),
}
_OLDER = ("parallelism", "sequence_length", "num_tokens", "enable_profiling")
# Common names of models -> preset.
_CALLED = {
    "qwen-32b": "qwen2.5-32b",
    "qwen": "qwen2.5-32b",
    "deepseek-v3.1": "deepseek-v3.1-base",
    "deepseek-v4.1": "deepseek-4.1",
}


def expand(entry: Mapping[str, object], defaults: Mapping[str, object]) -> list[dict[str, object]]:
    """The experiments of one entry of a plan, with defaults and without sweeps.

    Args:
        entry: from the plan, in the newer or the older form; `repeats: N` is a sweep over
            `repeat`, a list in a field of SWEPT a sweep over that field.
        defaults: from the plan; the entry's own fields override them.

    Raises:
        ManifestError: starts with the wrong field.
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
            raise ManifestError(f"{name}: an empty sweep; give it at least one value")
        swept[name] = values
    if (count := math.prod(map(len, swept.values()))) > most("experiments"):
        raise ManifestError(f"{', '.join(swept)}: {count:,} values are {exceeded('experiments')}")
    found = []
    for combination in itertools.product(*swept.values()):
        chosen = dict(zip(swept, combination, strict=True))
        named = _name(fields, chosen)
        found.append(_with_model(fields | chosen) | ({"name": named} if named else {}))
    return found


def preset_named(text: str) -> str:
    """The preset for a model's name: `Qwen-32B`, `deepseek-ai/DeepSeek-V2-Lite`, …"""
    name = re.sub(r"[\s_]+", "-", text.rsplit("/", 1)[-1].strip()).lower()
    return _CALLED.get(name, name)


def parallelism_label(mesh: object) -> str:
    """`dp2.tp2` for {dp: 2, tp: 2}; `single` where every axis is 1."""
    axes = mesh.items() if isinstance(mesh, Mapping) else ()
    return ".".join(f"{axis}{size}" for axis, size in axes if size != 1) or "single"


def _repeats(count: object) -> list[int]:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ManifestError(f"repeats: {count!r} is not a number of repeats; write 1 or more")
    if count > most("experiments"):
        raise ManifestError(f"repeats: {count:,} are {exceeded('experiments')}")
    return list(range(count))


def _from_older(fields: dict[str, object]) -> dict[str, object]:
    """Fields of the older form under their newer names; newer fields stay unchanged."""
    if not any(name in fields for name in _OLDER):
        return fields
    if not fields.pop("enable_profiling", True):
        raise ManifestError(
            "enable_profiling: false: a capture is always a profile; set it to true, or remove "
            "the experiment"
        )
    if "parallelism" in fields:
        fields["mesh"] = _mesh_of(fields.pop("parallelism"))
    for older, newer in (("sequence_length", "prompt_tokens"), ("num_tokens", "output_tokens")):
        if older in fields:
            fields[newer] = fields.pop(older)
    fields.setdefault("name", _own_name(fields))
    return fields


def _with_model(fields: dict[str, object]) -> dict[str, object]:
    """A model given by its name alone becomes its preset."""
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
            "or use a mesh such as {tp: 4}"
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
                f"parallelism: strategy {strategy} with {name} {other}: for several axes use a "
                "mesh such as {dp: 2, tp: 2}"
            )
    return {axis: size}


def _own_name(fields: dict[str, object]) -> str:
    """A name for an entry of the older form, which lacks one."""
    model = _with_model(fields).get("model")
    parts = [str(model["name"])] if isinstance(model, Mapping) and "name" in model else []
    if not isinstance(fields.get("mesh"), list):
        parts.append(parallelism_label(fields.get("mesh")))
    sizes = (name for name in ("batch_size", "prompt_tokens") if isinstance(fields.get(name), int))
    parts += [f"{SWEPT[name]}{fields[name]}" for name in sizes]
    return "-".join(parts) or "experiment"


def _name(fields: dict[str, object], chosen: dict[str, object]) -> str | None:
    """The entry's name with the values of its sweeps; None for an entry without a name."""
    own = fields.get("name")
    if not isinstance(own, str):
        return None
    return "-".join([own, *(_tag(name, value) for name, value in chosen.items())])


def _tag(field: str, value: object) -> str:
    if field == "mesh":
        return parallelism_label(value)
    if field == "serving":
        return _load(value)
    if field == "model":
        return str(
            value.get("name", "model") if isinstance(value, Mapping) else preset_named(str(value))
        )
    return f"{SWEPT[field]}{value}"


def _load(serving: object) -> str:
    """How requests arrive: `20ps` at 20 a second, else the file's name without its ending."""
    given = serving if isinstance(serving, Mapping) else {}
    rate, file = given.get("poisson_per_s"), given.get("file")
    if isinstance(rate, int | float):
        return f"{rate:g}ps"
    return str(file).rpartition(".")[0] or str(file) if file else "arrivals"
