"""Finds the runs that a query asks for, so that it opens no other run's files.

Filters reach the files of a table by DuckDB's own optimizer, but not through a view whose parts are
shared. Where a query joins its relations by run and its WHERE names runs, files of other runs do not matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlahouse.sql.syntax import Json, Node, child, children, kind, text, texts

if TYPE_CHECKING:
    from xlahouse.sql.library import Library

# Views that compare runs: rows of one run need rows of other runs.
ACROSS_RUNS = frozenset(
    f"{view}_v{version}"
    for view in ("run_comparison", "scaling", "setup_summary")
    for version in (1, 2)
) | {
    "scaling_v3",
    "op_diff_v1",
    "predicted_step_v1",
    "prediction_error_v1",
    "traffic_compatibility_v1",
}
# their `name` is the run's
NAMED = frozenset({"runs", "run_summary", "run_summary_v1", "run_summary_v2"})
JOINS = {"INNER", "LEFT"}


@dataclass(frozen=True)
class RunFilter:
    """A condition that rows meet: the run's id, or its name, is one of some texts and parameters."""

    by_name: bool  # whether it compares names, not ids
    texts: frozenset[str]  # that it compares with
    parameters: frozenset[str] = frozenset()  # whose values it compares with


def find_filters(tree: Node) -> tuple[RunFilter, ...]:
    """The filters that a statement's WHERE puts on all its relations' runs; none where that is not sure."""
    node = child(tree, "node")
    relations: dict[str, str] = {}
    if _queries(tree) != 1 or "sample" in node or not _joined(child(node, "from_table"), relations):
        return ()
    found = (_filter(part, relations) for part in _conjuncts(child(node, "where_clause")))
    return tuple(part for part in found if part is not None)


def runs_asked(
    filters: Collection[RunFilter],
    given: Mapping[str, object],
    names: Mapping[str, str | None],
) -> frozenset[str] | None:
    """The runs that meet all filters, of those in `names` (run_id -> name); None: any may."""
    asked: set[str] | None = None
    for one in filters:
        values = [given.get(name) for name in one.parameters]
        if not all(isinstance(value, str) for value in values):
            continue
        wanted = {*one.texts, *values}
        meant = {run for run, name in names.items() if (name if one.by_name else run) in wanted}
        asked = meant if asked is None else asked & meant
    return None if asked is None else frozenset(asked)


def across_runs(library: Library, names: set[str]) -> bool:
    """Whether a run's rows of some of the names may come from other runs too."""
    _, views = library.closure(names)
    internal = any(name.startswith("_") for name in names)
    return internal or not ACROSS_RUNS.isdisjoint(view.name for view in views)


def _queries(tree: Node) -> int:
    """How many SELECTs a tree holds, including itself, of any kind."""
    waiting: list[Json] = [tree]
    count = 0
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            count += kind(node).endswith("_NODE")
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return count


def _joined(node: Node, relations: dict[str, str]) -> bool:
    """Whether all relations below a FROM are joined by run; their names by alias go to `relations`."""
    if kind(node) == "BASE_TABLE":
        path = texts(child(node, "qualified_name"), "path")
        alias = text(node, "alias").lower() or (path or [""])[-1]
        if (
            len(path) != 1
            or "sample" in node
            or node.get("column_name_alias")
            or alias in relations
        ):
            return False
        relations[alias] = path[0]
        return True
    if kind(node) != "JOIN" or node["join_type"] not in JOINS or node["ref_type"] != "REGULAR":
        return False
    right: dict[str, str] = {}
    if not (_joined(child(node, "left"), relations) and _joined(child(node, "right"), right)):
        return False
    by_run = "run_id" in texts(node, "using_columns")
    if not by_run and not _meet(child(node, "condition"), set(relations), set(right)):
        return False
    fresh = not set(relations) & set(right)
    relations.update(right)
    return fresh


def _meet(condition: Node, left: set[str], right: set[str]) -> bool:
    """Whether an ON demands one run_id of both sides."""
    for part in _conjuncts(condition):
        if kind(part) == "COMPARE_EQUAL":
            sides = [_column(child(part, "left")), _column(child(part, "right"))]
            tables = [names[0] for names in sides if len(names) == 2 and names[1] == "run_id"]
            if len(tables) == 2 and len(set(tables) & left) == len(set(tables) & right) == 1:
                return True
    return False


def _filter(part: Node, relations: dict[str, str]) -> RunFilter | None:
    if kind(part) == "COMPARE_EQUAL":
        column, values = child(part, "left"), [child(part, "right")]
        if not _column(column):
            column, values = values[0], [column]
    elif kind(part) == "COMPARE_IN":
        column, *values = children(part, "children")
    else:
        return None
    by_name = _by_name(_column(column), relations)
    literals = [child(value, "literal") for value in values]
    found = [text(literal, "text") for literal in literals if literal.get("kind") == "STRING"]
    parameters = [text(v, "identifier") for v in values if kind(v) == "VALUE_PARAMETER"]
    if by_name is None or len(found) + len(parameters) != len(values):
        return None
    return RunFilter(by_name, frozenset(found), frozenset(parameters))


def _by_name(column: list[str], relations: dict[str, str]) -> bool | None:
    """Whether a column is the run's name, or its id; None: neither."""
    *table, name = column or [""]
    if len(table) > 1 or (table and table[0] not in relations):
        return None
    if name == "run_id":
        return False
    named = {relations[table[0]]} if table else set(relations.values())
    return True if name == "name" and named & NAMED else None


def _column(node: Node) -> list[str]:
    """`o.run_id` -> [o, run_id], in lower case; nothing where it is not a column."""
    return texts(node, "column_names") if kind(node) == "COLUMN_REF" else []


def _conjuncts(condition: Node) -> Iterator[Node]:
    if kind(condition) == "CONJUNCTION_AND":
        for part in children(condition, "children"):
            yield from _conjuncts(part)
    elif condition:
        yield condition
