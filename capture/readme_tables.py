"""Generates the tables of the rooms' READMEs: a plan's keys, from their structs, and the presets."""

from __future__ import annotations

import ast
import inspect
import io
import sys
import tokenize
from collections.abc import Sequence
from pathlib import Path

import msgspec

from xlahouse.capture.models.presets import presets
from xlahouse.capture.plan import DEFAULT_SCOPES, Experiment, Model, PlanFile
from xlahouse.capture.plan_forms import SWEPT
from xlahouse.capture.serving import Arrival, Serving

_TABLES = (
    ("A plan:", PlanFile),
    ("An experiment; \\* marks the keys that a list sweeps:", Experiment),
    ("A model:", Model),
)
_SERVING = (("`serving`:", Serving), ("A request, in `arrivals` or a line of `file`:", Arrival))
_HEAD = "| key | value | default | description |\n| --- | --- | --- | --- |"
_KINDS = {
    msgspec.inspect.IntType: "integer",
    msgspec.inspect.FloatType: "number",
    msgspec.inspect.StrType: "text",
    msgspec.inspect.BoolType: "true or false",
    msgspec.inspect.DictType: "mapping",
    msgspec.inspect.ListType: "list",
    msgspec.inspect.VarTupleType: "list",
    msgspec.inspect.StructType: "mapping",
}


def plan_keys(tables: Sequence[tuple[str, type]] = _TABLES) -> str:
    """All keys of a plan as Markdown, one table a struct."""
    parts = []
    for title, struct in tables:
        described = field_comments(struct)
        rows = [_row(field, struct, described) for field in msgspec.structs.fields(struct)]
        parts.append("\n".join([f"{title}\n", _HEAD, *rows]))
    return "\n\n".join(parts)


def preset_table() -> str:
    """All presets as Markdown."""
    rows = [
        f"| `{name}` | {preset.family} | {preset.source} |" for name, preset in presets().items()
    ]
    return "\n".join(["| preset | architecture | sizes from |\n| --- | --- | --- |", *rows])


def with_tables(text: str) -> str:
    """A README with the tables between the markers that it has, such as <!-- presets:begin -->."""
    tables = {"plan-keys": plan_keys(), "presets": preset_table(), "serving": plan_keys(_SERVING)}
    for name, table in tables.items():
        begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
        if begin not in text:
            continue
        before, rest = text.split(begin)
        text = f"{before}{begin}\n{table}\n{end}{rest.split(end)[1]}"
    return text


def field_comments(struct: type) -> dict[str, str]:
    """Field -> its comment, beside the field or on the lines above it."""
    source = inspect.getsource(struct)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {
        token.start[0]: token.string.lstrip("# ")
        for token in tokens
        if token.type == tokenize.COMMENT
    }
    lines, found = source.splitlines(), {}
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        above: list[str] = []
        line = node.lineno - 1
        while line in comments and lines[line - 1].lstrip().startswith("#"):
            above.insert(0, comments[line])
            line -= 1
        beside = comments.get(node.end_lineno or node.lineno)
        found[node.target.id] = beside or " ".join(above)
    return found


def _row(field: msgspec.structs.FieldInfo, struct: type, described: dict[str, str]) -> str:
    mark = " \\*" if struct is Experiment and field.name in SWEPT else ""
    name = f"`{field.name}`{mark}"
    return f"| {name} | {_value(field.type)} | {_default(field)} | {described[field.name]} |"


def _value(kind: object) -> str:
    """The values that a field accepts."""
    described = msgspec.inspect.type_info(kind)
    if isinstance(described, msgspec.inspect.UnionType):
        # The types of a union; None is the default.
        (described,) = (
            each for each in described.types if not isinstance(each, msgspec.inspect.NoneType)
        )
    if isinstance(described, msgspec.inspect.LiteralType):
        return " or ".join(f"`{value}`" for value in described.values)
    name = _KINDS[type(described)]
    least, above = getattr(described, "ge", None), getattr(described, "gt", None)
    if least is not None:
        return f"{name} ≥ {least}"
    return name if above is None else f"{name} > {above}"


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    if field.default in ("", msgspec.NODEFAULT):
        return ""
    if field.default is DEFAULT_SCOPES:
        return "layers and their parts"
    return f"`{msgspec.json.encode(field.default).decode()}`".replace('"', "")


def main() -> None:
    """Rewrite the tables in a README, such as capture/README.md."""
    readme = Path(sys.argv[1])
    readme.write_text(with_tables(readme.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
