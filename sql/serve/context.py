"""What goes with rows: units and meanings of columns, coverage of runs, and why a value is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xlahouse.capture.commands import STATE_MESH, shown
from xlahouse.sql.guard import check

if TYPE_CHECKING:
    import pyarrow as pa

    from xlahouse.sql.warehouse import Warehouse

MOST_RUNS = 20  # whose coverage is given; the tool `runs` has all
MOST_REASONS = 30
# The end of a column's name -> its unit, the longest first.
UNITS = {
    "_bytes_per_s": "bytes per second",
    "_tokens_per_s": "tokens per second",
    "_per_s": "per second",
    "_per_s_per_chip": "per second and chip",
    "_bytes": "bytes",
    "_ratio": "share or ratio; 1 is all",
    "_percent": "percent",
    "_flops": "FLOP",
    "_ps": "picoseconds",
    "_s": "seconds",
}
_COVERAGE = """
with asked as (
    select run_id, name, status, captured_at, device_count, expected_device_count
    from runs
    where list_contains($runs, run_id) or $all
), found as (
    select run_id, count(case when severity = 'error' then 1 end) as errors,
        count(case when severity = 'warning' then 1 end) as warnings
    from issues
    group by run_id
), devices_of as (
    select run_id, bool_or(inferred or coalesce(core, '') = 'cpu') as inferred
    from devices
    group by run_id
)
select a.run_id, a.name, a.status, a.device_count as devices_traced,
    a.expected_device_count as devices_named,
    coalesce(d.inferred, false) as times_are_not_an_accelerators,
    coalesce(f.errors, 0) as errors, coalesce(f.warnings, 0) as warnings, m.mesh_problem
from asked as a
left join found as f on f.run_id = a.run_id
left join devices_of as d on d.run_id = a.run_id
left join _mesh_state_v1 as m on m.run_id = a.run_id
order by a.captured_at nulls last, a.run_id
"""
_REASONS = """
select distinct run_id, concat('latency: ', reason) as why from latency_v3
where reason is not null and (list_contains($runs, run_id) or $all)
union
select distinct run_id, concat(code, ': ', message) from issues
where severity in ('error', 'warning') and (list_contains($runs, run_id) or $all)
order by all
"""


def unit_of(column: str) -> str | None:
    """The unit that a column's name states."""
    fits = [ending for ending in UNITS if column.endswith(ending)]
    return UNITS[max(fits, key=len)] if fits else None


def context_of(
    warehouse: Warehouse, sql: str, table: pa.Table, types: dict[str, str]
) -> dict[str, Any]:
    """`columns`, `coverage` and `cannot_be_known` of an answer.

    Args:
        warehouse: that gave the answer.
        sql: the query.
        table: its rows.
        types: column -> DuckDB's type.
    """
    meanings = _meanings(warehouse, sql)
    columns = [
        {"name": name, "type": kind, "unit": unit_of(name), "meaning": meanings.get(name)}
        for name, kind in types.items()
    ]
    nulls = [name for name in table.column_names if table.column(name).null_count]
    return {"columns": columns, **about_runs(warehouse, _runs_in(table), nulls)}


def about_runs(warehouse: Warehouse, runs: list[str] | None, unknown: list[str]) -> dict[str, Any]:
    """`coverage` of runs (None: of all), and in `cannot_be_known` why some of their values are NULL.

    Args:
        warehouse: that has the runs.
        runs: their ids.
        unknown: names of what is NULL.
    """
    lists = {"runs": runs or [], "all": runs is None}
    coverage = warehouse.query(_COVERAGE, lists).dicts()
    about = {"coverage": coverage[:MOST_RUNS], "runs_covered": len(coverage)}
    if not unknown:
        return {**about, "cannot_be_known": None}
    reasons = [
        {"run_id": row["run_id"], "why": f"mesh: {row['mesh_problem']}; {STATE_MESH}"}
        for row in coverage
        if row["mesh_problem"]
    ]
    reasons += warehouse.query(_REASONS, lists).dicts()
    names = {row["run_id"]: str(row["name"] or row["run_id"]) for row in coverage}
    reasons = [
        {**row, "why": shown(row["why"], names[row["run_id"]], warehouse.root)} for row in reasons
    ]
    return {**about, "cannot_be_known": {"null": unknown, "because": reasons[:MOST_REASONS]}}


def _runs_in(table: pa.Table) -> list[str] | None:
    """The runs that the rows name; None where they name none."""
    if "run_id" not in table.column_names:
        return None
    named = table.column("run_id").unique().to_pylist()
    return [str(run) for run in named if run is not None]


def _meanings(warehouse: Warehouse, sql: str) -> dict[str, str]:
    """Column -> meaning, of the relations that a query names; a name with two meanings has none."""
    from xlahouse.sql.export.catalogue import documented
    from xlahouse.sql.library import TABLES

    found: dict[str, set[str]] = {}
    for name in check(sql).relations.names:
        view = warehouse.library.find(name)
        if name in TABLES:
            pairs = [(column.name, column.meaning) for column in TABLES[name].columns]
        else:
            pairs = documented(view)[1] if view else []
        for column, meaning in pairs:
            found.setdefault(column, set()).add(meaning)
    return {column: texts.pop() for column, texts in found.items() if len(texts) == 1}
