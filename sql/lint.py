"""Holds every view to the rules that keep it documented and portable to Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from xlahouse.capture.errors import ViewError
from xlahouse.sql.library import View, parse_view

UNITS = ("_ps", "_ns", "_s", "_bytes", "_flops", "_ratio")
# What a number without a unit may be: an identity, a place in an order, or a count.
PLAIN_ENDINGS = ("_id", "_index", "_size", "_count", "_tokens", "_errors", "_warnings")
PLAIN_NAMES = {
    "bytes",
    "collectives",
    "collectives_unknown",
    "coordinate",
    "decode_steps",
    "device_steps",
    "devices",
    "devices_per_chip",
    "excluded_requests",
    "instance",
    "instances",
    "logical_id",
    "microbatches",
    "participants_seen",
    "request",
    "requests",
    "size",
    "step",
    "world",
}
# Means something else on Spark, or nothing, after sqlglot: found by trying (DESIGN, Views).
NOT_PORTABLE = {
    r"\bqualify\b": "QUALIFY leaks a column",
    r"\b(quantile_cont|quantile_disc|percentile_cont|median)\b": "take the value of row ceil(p n)",
    r"\blen\s*\(": "len fails; write length or array_length",
    r"\basof\b": "ASOF fails",
    r"\bpivot\b": "PIVOT fails",
    r"\bby\s+name\b": "UNION BY NAME fails",
    r"\bwith\s+ordinality\b": "counts from 0 on Spark",
    r"\b(list_\w+|struct_pack|list_transform)\s*\(": "list functions are not carried over",
    r"->": "lambdas and JSON arrows are not carried over",
    r"\bubigint\b|\bhugeint\b": "Spark has no such type",
}


def lint(view: View) -> list[str]:
    """Everything that is wrong with a view file; empty where it is fine."""
    try:
        tree = parse_view(view)
        for part in ("version", "grain", "columns"):
            getattr(view, part)
        faults = [*_words(view.sql), *_shapes(tree), *_reads(view, tree)]
    except ViewError as error:
        return [str(error)]
    return [f"view {view.name}: {fault}" for fault in faults]


def _words(sql: str) -> Iterator[str]:
    code = re.sub(r"--[^\n]*", "", sql).lower()
    for pattern, reason in NOT_PORTABLE.items():
        found = re.search(pattern, code)
        if found:
            yield f"{found[0].strip()}: {reason}"
    if sql != "\n".join(line.rstrip() for line in sql.splitlines()) + "\n":
        yield "has blanks at a line's end, or no newline at the file's"


def _shapes(tree: Any) -> Iterator[str]:
    from sqlglot import exp

    for window in tree.find_all(exp.Window):
        if not window.args.get("partition_by"):
            yield f"{window.sql()}: a window without PARTITION BY is one task on Spark"
    for division in (*tree.find_all(exp.Div), *tree.find_all(exp.IntDiv), *tree.find_all(exp.Mod)):
        divisor = division.expression.unnest()
        if not isinstance(divisor, exp.Nullif | exp.Literal):
            yield f"{division.sql()}: divide by nullif(…, 0)"
    for star in tree.selects:
        if star.is_star:
            yield "its last SELECT names its columns, never *"


def _reads(view: View, tree: Any) -> Iterator[str]:
    """Two parsers have to agree on what a view reads."""
    from sqlglot import exp

    own = {cte.alias_or_name for cte in tree.find_all(exp.CTE)}
    found = {table.name for table in tree.find_all(exp.Table)} - own
    if found != view.dependencies:
        yield f"reads {sorted(found)} by sqlglot, {sorted(view.dependencies)} by DuckDB"


def lint_unit(column: str, kind: str) -> str | None:
    """What is wrong with a column's name, given DuckDB's name of its type; None where it is fine."""
    if kind == "DOUBLE":
        plain = column == "bytes"
    elif kind.endswith("INT"):
        plain = column in PLAIN_NAMES or column.endswith(PLAIN_ENDINGS)
    else:
        return None
    if plain or column.endswith(UNITS):
        return None
    return f"{column} ({kind}) does not end in a unit: {', '.join(UNITS)}"
