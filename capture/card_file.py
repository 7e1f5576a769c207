"""Reads and writes workload cards; a fault of a field is reported with its line."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from xlahouse.capture.card import ModelArch, WorkloadCard, stated
from xlahouse.capture.errors import ManifestError
from xlahouse.capture.yaml_lines import line_of
from xlahouse.capture.yaml_values import YamlFault, yaml_values

_ABSENT = {"", "n/a", "na", "tbd", "none", "null", "-"}  # texts that mean an unknown value
_EXECUTOR = "Model-executor"
# Older name of a field -> its name.
_OLDER_NAMES = {
    "num_active_params": "num_params_active",
    "num_params_activated": "num_params_active",
}
_BANDWIDTH = re.compile(r"^\s*([0-9.]+)\s*(G[Bb](?:ps|it/s|/s)?)\s*$")


@dataclass(frozen=True)
class Problem:
    """A fault of one field."""

    path: str  # field, as a path with points
    line: int | None  # 1-based; None where it is not known
    message: str  # what is wrong
    foreign: bool = False  # cards have no such field; it is ignored

    def __str__(self) -> str:
        where = f"line {self.line}: " if self.line is not None else ""
        return f"{where}{self.path}: {self.message}"


def looks_like_card(text: str) -> bool:
    """Whether a YAML file is a workload card, by its top level."""
    return re.search(r"^workload\s*:", text, re.MULTILINE) is not None


def read_card(text: str, where: str) -> tuple[WorkloadCard, list[Problem]]:
    """(the card without its wrong fields, their faults).

    N/A, TBD and empty values count as absent. `Model-executor` is read at the top level, where
    CCL-Bench's tools look for it, and inside `workload`; sizes of the model also beside `model_arch`.

    Raises:
        ManifestError: the file is not a card; names the file, and the line where known.
    """
    try:
        raw = yaml_values(text)
    except YamlFault as error:
        raise ManifestError(error.at(where)) from error
    if not isinstance(raw, dict) or not isinstance(raw.get("workload"), dict):
        raise ManifestError(f"{where}: not a workload card: it has no mapping `workload`")
    problems: list[Problem] = []
    fields = _converted(WorkloadCard, _canonical(raw), (), text, problems)
    return msgspec.convert(fields, WorkloadCard), problems


def checked_card(text: str, where: str) -> WorkloadCard:
    """A card without a wrong value; fields that cards do not have are ignored.

    Raises:
        ManifestError: the file is not a card, or values are wrong; one line for each.
    """
    card, problems = read_card(text, where)
    wrong = [problem for problem in problems if not problem.foreign]
    if wrong:
        raise ManifestError("\n".join(f"{where}, {problem}" for problem in wrong))
    return card


def card_text(card: WorkloadCard) -> str:
    """The card as YAML, without absent fields."""
    import yaml

    return yaml.safe_dump(stated(card), sort_keys=False, allow_unicode=True, width=100)


def _canonical(raw: dict[object, object]) -> dict[str, object]:
    """The card with each fact in its one place, without absent values."""
    card = _said_fields(raw)
    given = card.get("workload")
    workload = dict(given) if isinstance(given, dict) else {}
    nested = workload.pop(_EXECUTOR, None)
    if nested is not None:
        card[_EXECUTOR] = _merged(nested, card.get(_EXECUTOR))
    model = workload.get("model")
    if isinstance(model, dict):
        workload["model"] = _with_arch(model)
    card["workload"] = workload
    return card


def _with_arch(model: dict[str, object]) -> dict[str, object]:
    names = {*ModelArch.__struct_fields__, *_OLDER_NAMES}
    beside = {name: value for name, value in model.items() if name in names}
    arch = model.get("model_arch", {})
    if not isinstance(arch, dict):
        return model
    sizes = {_OLDER_NAMES.get(name, name): value for name, value in (beside | arch).items()}
    rest = {name: value for name, value in model.items() if name not in {*names, "model_arch"}}
    return rest | ({"model_arch": sizes} if sizes else {})


def _merged(under: object, over: object) -> object:
    if isinstance(under, dict) and isinstance(over, dict):
        names = dict.fromkeys([*under, *over])
        return {name: _merged(under.get(name), over.get(name)) for name in names}
    return under if over is None else over


def _said_fields(fields: dict[object, object]) -> dict[str, object]:
    said = {str(name): _said(part) for name, part in fields.items()}
    return {name: part for name, part in said.items() if part is not None}


def _said(value: object) -> object:
    """A value without its absent parts; a list keeps its places."""
    if isinstance(value, dict):
        return _said_fields(value)
    if isinstance(value, list):
        parts = [_said(part) for part in value]
        return parts if any(part is not None for part in parts) else None
    if isinstance(value, str):
        return None if value.strip().lower() in _ABSENT else value.strip()
    return value


def _converted(
    kind: type[msgspec.Struct],
    given: dict[str, object],
    steps: tuple[str, ...],
    text: str,
    problems: list[Problem],
) -> dict[str, object]:
    """The valid fields of a part, each converted to its type."""
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    right: dict[str, object] = {}
    for name, value in given.items():
        path = (*steps, name)
        if name not in fields:
            said = "not a field of workload cards; it is ignored"
            problems.append(_problem(path, text, said, foreign=True))
            continue
        wanted = fields[name].type
        if isinstance(wanted, type) and issubclass(wanted, msgspec.Struct):
            if isinstance(value, dict):
                right[name] = _converted(wanted, value, path, text, problems)
            else:
                problems.append(_problem(path, text, "must be a mapping"))
            continue
        try:
            right[name] = msgspec.to_builtins(
                msgspec.convert(_plain(value, wanted), wanted, strict=False)
            )
        except msgspec.ValidationError as error:
            problems.append(_problem(path, text, _explained(value, wanted, str(error))))
    return right


def _plain(value: object, wanted: object) -> object:
    """Accepts numbers as text, as in `version: 2.9`, and empty variables."""
    if "str" in str(wanted):
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(value)
        if isinstance(value, dict):
            return {
                name: part if isinstance(part, str) else str(part) for name, part in value.items()
            }
    if isinstance(value, list) and "float" not in str(wanted):
        return [part for part in value if part is not None]
    return value


def _explained(value: object, wanted: object, error: str) -> str:
    """The message for a wrong value."""
    for part in value if isinstance(value, list) else [value]:
        match = _BANDWIDTH.match(part) if isinstance(part, str) else None
        if match:
            amount = float(match[1]) * (8 if "B" in match[2] else 1)
            return f"{part!r}: write gigabits a second as a plain number: {amount:g}"
    choices = re.findall(r"'([^']+)'", str(wanted)) if "Literal" in str(wanted) else []
    if choices:
        return f"{value!r} is not one of {', '.join(choices)}"
    return f"{value!r}: {error[:1].lower()}{error[1:]}"


def _problem(path: tuple[str, ...], text: str, message: str, foreign: bool = False) -> Problem:
    return Problem(".".join(path), _line(path, text), message, foreign)


def _line(path: tuple[str, ...], text: str) -> int | None:
    """Line of a field, in any of its places; else of the nearest part that contains it."""
    inner = ("workload", *path) if path[0] == _EXECUTOR else path
    beside = tuple(step for step in path if step != "model_arch")
    for steps in (path, inner, beside):
        line = line_of(text, steps)
        if line is not None:
            return line
    return _line(path[:-1], text) if len(path) > 1 else None
