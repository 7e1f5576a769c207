"""Checks every view by the rules that keep it documented and portable to Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from xlahouse.capture.errors import QueryError, ViewError
from xlahouse.sql.guard import names_in_select
from xlahouse.sql.library import View, parse_view
from xlahouse.sql.portable import portability

KEYS = "_run_key_v1"  # states the scheme of the keys that internal views pack, and its units
SMALLEST_UNIT = 1 << 10  # smaller powers of two count something
UNITS = ("_ps", "_ns", "_s", "_bytes", "_flops", "_ratio", "_ppm", "_per_chip")
# Numbers without a unit: identities, places in an order, counts.
PLAIN_ENDINGS = (
    "_id",
    "_index",
    "_size",
    "_count",
    "_tokens",
    "_steps",
    "_requests",
    "_errors",
    "_warnings",
)
PLAIN_NAMES = {
    "bin",
    "bytes",
    "collectives",
    "collectives_unknown",
    "compiles",
    "coordinate",
    "count",
    "cycles",
    "devices",
    "devices_per_chip",
    "early_launches",
    "estimated_cycles",
    "executions",
    "instance",
    "instances",
    "launch",
    "launch_instance",
    "launches",
    "layer",
    "linked_launches",
    "logical_id",
    "microbatches",
    "other_runs",
    "other_steps",
    "pairs",
    "participants_seen",
    "passes",
    "predictions",
    "rank",
    "recompiles",
    "request",
    "requests",
    "runs",
    "size",
    "source_chip",
    "source_line",
    "sources_seen",
    "step",
    "steps",
    "target_chip",
    "tokens",
    "world",
}
PLAIN_DOUBLES = {
    "best_score",
    "bytes",
    "changes_per_step",
    "collectives_per_step",
    "compiled_count",
    "difference",
    "executions_per_step",
    "flops",
    "in_phase_score",
    "measured_count",
    "mean_requests",
    "mean_tokens",
    "median",
    "mixed_tokens",
    "other_executions_per_step",
    "other_median",
    "other_value",
    "planned_count",
    "ratio",
    "spread",
    "value",
}


def lint(view: View) -> list[str]:
    """Everything wrong with a view file; empty for a good one."""
    try:
        tree = parse_view(view)
        for part in ("version", "grain", "columns"):
            getattr(view, part)
        text = [] if view.own else _text(view.sql)  # a user's editor may leave blanks
        keys = [] if view.own else _keys(view, tree)
        faults = [*text, *_shapes(tree), *keys, *portability(tree), *_reads(view, tree)]
    except (ViewError, QueryError) as error:
        return [str(error)]
    except RecursionError:  # to write an expression as text takes more levels than to parse it
        return [f"view {view.name}: is nested too deeply; put parts into WITH"]
    return [f"view {view.name}: {fault}" for fault in faults]


def _text(sql: str) -> Iterator[str]:
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


def _keys(view: View, tree: Any) -> Iterator[str]:
    """Keys are packed, and taken apart, by the scheme alone."""
    from sqlglot import exp

    if view.name != KEYS:
        for literal in tree.find_all(exp.Literal):
            if not literal.is_string and _is_unit(literal.name):
                yield f"{literal.parent.sql()}: a power of two is a unit of keys; see {KEYS}"
    for node in tree.find_all(exp.Mul, exp.Div, exp.IntDiv, exp.Mod):
        sides = [side.unnest() for side in (node.this, node.expression)]
        is_key = any(isinstance(s, exp.Column) and s.name.endswith("_key") for s in sides)
        if is_key and not (isinstance(node, exp.Mod) and sides[1].name == "2"):
            yield f"{node.sql()}: a key is added to, or taken % 2, and no more; see {KEYS}"


def _is_unit(number: str) -> bool:
    value = int(number) if number.isdigit() else 0
    return value >= SMALLEST_UNIT and value & (value - 1) == 0


def _reads(view: View, tree: Any) -> Iterator[str]:
    """Two parsers must find the tables and views that the regular expression found."""
    from sqlglot import exp

    own = {cte.alias_or_name for cte in tree.find_all(exp.CTE)}
    found = {table.name for table in tree.find_all(exp.Table)} - own
    theirs = names_in_select(view.sql)
    if not found == theirs == view.dependencies:
        yield (
            f"reads {sorted(found)} by sqlglot, {sorted(theirs)} by DuckDB, "
            f"{sorted(view.dependencies)} by its words; write `from x`, `join x`, `x as (` in lower case"
        )


def lint_unit(column: str, kind: str) -> str | None:
    """The fault of a column's name, given DuckDB's name of its type; None for a good one."""
    if kind == "DOUBLE":
        plain = column in PLAIN_DOUBLES
    elif kind.endswith("INT"):
        plain = column in PLAIN_NAMES or column.endswith(PLAIN_ENDINGS)
    else:
        return None
    if plain or column.endswith(UNITS):
        return None
    return f"{column} ({kind}) does not end in a unit: {', '.join(UNITS)}"
