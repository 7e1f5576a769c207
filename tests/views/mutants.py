"""Plants faults in views, one at a time: a dropped key or condition, a wrong factor, an off-by-one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from xlahouse.sql.library import View, parse_view

SWAPS = {
    exp.LT: exp.LTE,
    exp.LTE: exp.LT,
    exp.GT: exp.GTE,
    exp.GTE: exp.GT,
    exp.Greatest: exp.Least,
    exp.Least: exp.Greatest,
}
Plant = Callable[[exp.Expression], None]
Fault = tuple[str, Plant]


@dataclass(frozen=True)
class Mutant:
    """A view with one fault in it.

    Attributes:
        view: name of the view.
        part: the common table expression with the fault, or the column of the last SELECT.
        fault: what is wrong with which clause, with `_` in place of each name of a common table
            expression: neither a new name for one nor another layout of the SQL changes it.
        sql: the statement.
    """

    view: str
    part: str
    fault: str
    sql: str

    def __str__(self) -> str:
        return f"{self.part}: {self.fault}"


def mutants(view: View) -> Iterator[Mutant]:
    """Every fault that can be planted in a view; a few of the statements do not bind."""
    tree = parse_view(view)
    for place, node, name, plant in _named(tree):
        copy = tree.copy()
        plant(list(copy.walk())[place])
        yield Mutant(view.name, _part(node), name, written(copy))


def fault_names(view: View) -> Iterator[str]:
    """What mutants call their faults."""
    return (name for _, _, name, _ in _named(parse_view(view)))


def _named(tree: exp.Expression) -> Iterator[tuple[int, exp.Expression, str, Plant]]:
    """(place in the walk, node, name, what plants it) of each fault."""
    nameless = _names(tree)
    repeats: dict[str, int] = {}
    for place, node in enumerate(tree.walk()):
        for text, plant in _faults(node):
            name = nameless.sub("_", text)
            repeats[name] = repeats.get(name, 0) + 1
            yield place, node, name if repeats[name] == 1 else f"{name} #{repeats[name]}", plant


def _names(tree: exp.Expression) -> re.Pattern[str]:
    """Names of common table expressions after FROM or JOIN, or before a dot."""
    names = "|".join(sorted(cte.alias for cte in tree.find_all(exp.CTE))) or "(?!)"
    return re.compile(rf"(?<=\bFROM )(?:{names})\b|(?<=\bJOIN )(?:{names})\b|\b(?:{names})(?=\.)")


def written(tree: exp.Expression) -> str:
    """A tree as DuckDB's SQL; sqlglot writes `//` as a division that is then rounded."""
    for division in list(tree.find_all(exp.IntDiv)):
        parts = [division.this, division.expression]
        division.replace(exp.Anonymous(this="divide", expressions=parts))
    return tree.sql("duckdb", comments=False)


def _part(node: exp.Expression) -> str:
    """The common table expression that a node stands in, or the column of the last SELECT."""
    cte = node.find_ancestor(exp.CTE)
    column = node.find_ancestor(exp.Alias)
    return cte.alias if cte else column.alias if column else "from"


def _faults(node: exp.Expression) -> Iterator[Fault]:
    if isinstance(node, exp.Window):
        for number, key in enumerate(node.args["partition_by"]):
            yield f"no {key.sql()} in {node.sql()}", partial(_drop_partition, number)
    if isinstance(node, exp.Group):
        for number, key in enumerate(node.expressions):
            yield f"no {key.sql()} in {node.sql().strip()}", partial(_drop_group, number)
    if isinstance(node, exp.Join) and node.args.get("on"):
        for number, condition in enumerate(_conditions(node.args["on"])):
            yield (
                f"{_joined(node)} without {condition.sql()}",
                partial(_drop_condition, "on", number),
            )
    if isinstance(node, exp.Where | exp.Having):
        for number, condition in enumerate(_conditions(node.this)):
            yield f"rows without {condition.sql()}", partial(_drop_condition, "this", number)
    if isinstance(node, exp.Literal) and _is_factor(node):
        yield f"{node.parent.sql()} with {_other(node.name)}", _change_literal
    if type(node) in SWAPS:
        yield f"{SWAPS[type(node)].__name__} for {node.sql()}", _swap
    if isinstance(node, exp.Distinct) and isinstance(node.parent, exp.Count):
        yield f"{node.sql()} counted with repeats", _drop_distinct


def _joined(join: exp.Join) -> str:
    return f"JOIN {join.this.sql()}"


def _drop_partition(number: int, node: exp.Expression) -> None:
    del node.args["partition_by"][number]


def _drop_group(number: int, node: exp.Expression) -> None:
    """What was grouped by is then the least of its values."""
    key = node.expressions[number]
    for selected in node.parent.expressions:
        plain = selected.this if isinstance(selected, exp.Alias) else selected
        if plain == key:
            plain.replace(
                exp.Min(this=key.copy())
                if isinstance(selected, exp.Alias)
                else exp.alias_(exp.Min(this=key.copy()), key.name)
            )
    node.expressions.pop(number)
    if not node.expressions:
        node.parent.set("group", None)


def _conditions(condition: exp.Expression) -> list[exp.Expression]:
    return list(condition.flatten()) if isinstance(condition, exp.And) else [condition]


def _drop_condition(part: str, number: int, node: exp.Expression) -> None:
    _conditions(node.args[part])[number].replace(exp.true())


def _is_factor(node: exp.Literal) -> bool:
    """Whether a number counts: not a text, a flag of a CASE, a guard of a division, or a shipped row."""
    if node.is_string or node.find_ancestor(exp.Values):
        return False
    flag = node.find_ancestor(exp.If, exp.Case)
    is_flag = isinstance(node.parent, exp.If | exp.Case) and flag is node.parent
    return not is_flag and not isinstance(node.parent, exp.Nullif | exp.Coalesce)


def _other(number: str) -> str:
    return f"1{number}" if "e" in number.lower() else str(int(number) + 1)


def _change_literal(node: exp.Expression) -> None:
    node.replace(exp.Literal.number(_other(node.name)))


def _swap(node: exp.Expression) -> None:
    node.replace(SWAPS[type(node)](**node.args))


def _drop_distinct(node: exp.Expression) -> None:
    node.replace(node.expressions[0].copy())
