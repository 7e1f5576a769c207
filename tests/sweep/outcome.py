"""What a mutant's run gives, compared with that of the trace itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.sweep.inputs import CHROME, Input
from tests.sweep.mutants import Mutant
from xlahouse.ingest.run import IngestError, ingest_paths
from xlahouse.sql.warehouse import Warehouse

Outcome = Literal["refused", "same", "null", "null with a finding", "finding", "wrong"]
# Tables with facts; host_events has every event that is in no other one.
TABLES = (
    "launches", "ops", "collectives", "device_steps", "replica_groups", "permute_pairs", "devices",
    "phases", "counters", "instructions", "runs",
)  # fmt: skip
VIEWS = (
    "device_time", "traffic_volume", "collective_axis", "collective_bandwidth", "run_summary",
    "scheduling", "step_latency", "latency", "mfu", "bubble",
    "comm_compute", "compile", "memory_timeline", "exposed_collective", "launch_overhead", "load_balance",
)  # fmt: skip
# Texts that state a fact, in place of a name.
WORDS = {"category", "kind", "phase", "core", "dtype", "component", "axis", "status", "cause"}
# Numbers that only name a row.
NUMBERS_OF_ROWS = {
    "program_id", "instance", "launch_instance", "logical_id", "ingest_version",
    "issue_errors", "issue_warnings",
}  # fmt: skip
Column = tuple[str, str]  # table or view, column


@dataclass(frozen=True)
class Facts:
    """What a run says."""

    values: dict[Column, Counter[Any]]  # values of each column that are known, and how often
    rows: dict[str, int]  # rows of each table
    findings: Counter[tuple[str, str, int, str]]  # code, severity, count and message


@dataclass(frozen=True)
class Result:
    """A mutant and its outcome."""

    mutant: Mutant
    outcome: Outcome
    changed: list[str] = field(default_factory=list)  # columns with other values, if it is wrong
    new: frozenset[str] = frozenset()  # codes of new findings


def mutants_of(chosen: Input) -> Iterator[Mutant]:
    """All mutants of an input, those that are alike once."""
    return iter({each.raw: each for each in chosen.mutate(chosen.make())}.values())


def outcomes(
    chosen: Input, mutants: list[Mutant], folder: Path, views: Sequence[str] = VIEWS
) -> Iterator[Result]:
    """The outcome of each mutant of an input.

    Args:
        chosen: the input.
        mutants: of it.
        folder: where the warehouse is written.
        views: that are compared, beside tables.
    """
    traces = {"original": chosen.make()} | {f"m{n}": each.raw for n, each in enumerate(mutants)}
    refused = {}
    for number, (name, content) in enumerate(traces.items()):
        path = folder / "in" / name / f"h{chosen.ending}"
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        trace, dump = path, None
        if chosen.trace is not None:
            trace, dump = path.with_name(f"h{CHROME}"), str(path)
            trace.write_bytes(chosen.trace() + b"\n" * number)  # one run each
        try:
            ingest_paths([str(trace)], str(folder / "w"), name=name, hlo_dump=dump)
        except IngestError as error:
            refused[name] = str(error)
    told = all_facts(folder / "w", views)
    for number, mutant in enumerate(mutants):
        name = f"m{number}"
        if name in refused:
            yield Result(mutant, "refused")
        else:
            yield compare(mutant, told["original"], told[name])


def compare(mutant: Mutant, before: Facts, after: Facts) -> Result:
    """The outcome of a mutant."""
    columns = before.values.keys() | after.values.keys()
    none: Counter[Any] = Counter()
    changed, lost = [], False
    for column in sorted(columns):
        old, new = before.values.get(column, none), after.values.get(column, none)
        lost = lost or old != new
        if new - old:
            changed.append(".".join(column))
    gone = [f"{t}: {n} rows" for t, n in after.rows.items() if n != before.rows[t]]
    new_findings = frozenset(code for code, *_ in (after.findings - before.findings))
    if not lost and not gone:
        return Result(mutant, "same", new=new_findings)
    if not changed and not gone:
        return Result(mutant, "null with a finding" if new_findings else "null", new=new_findings)
    if new_findings:
        return Result(mutant, "finding", changed + gone, new_findings)
    return Result(mutant, "wrong", changed + gone)


def all_facts(warehouse: Path, views: Sequence[str]) -> dict[str, Facts]:
    """Facts of every run of a warehouse, by name."""
    with Warehouse(str(warehouse)) as opened:
        runs = dict(opened.query("select run_id, name from runs").rows)
        values: dict[str, dict[Column, Counter[Any]]] = {name: {} for name in runs.values()}
        rows: dict[str, dict[str, int]] = {name: dict.fromkeys(TABLES, 0) for name in runs.values()}
        for table in (*TABLES, *views):
            for run, column, found in _columns(opened, table):
                values[runs[run]][table, column] = found
            counted = f"select run_id, count(*) from {table} group by run_id"
            if table in TABLES:
                for run, count in opened.query(counted).rows:
                    rows[runs[run]][table] = count
        told: dict[str, list[tuple[str, str, int, str]]] = {name: [] for name in runs.values()}
        sql = "select run_id, code, severity, count, message from issues"
        for run, code, severity, count, message in opened.query(sql).rows:
            alike = message.replace(f"/{runs[run]}/", "/").replace(str(run), "")
            told[runs[run]].append((code, severity, count, alike))
    return {name: Facts(values[name], rows[name], Counter(told[name])) for name in runs.values()}


def _columns(opened: Warehouse, table: str) -> Iterator[tuple[str, str, Counter[Any]]]:
    """(run, column, how often each known value occurs)."""
    result = opened.query(f"select * from {table}")
    run = result.columns.index("run_id")
    kept = [
        place
        for place, name in enumerate(result.columns)
        if name not in NUMBERS_OF_ROWS and place != run
    ]
    found: dict[tuple[str, int], Counter[Any]] = {}
    for row in result.rows:
        for place in kept:
            value, name = row[place], result.columns[place]
            is_word = name in WORDS and value is not None and (table, name) != ("devices", "kind")
            if isinstance(value, bool | int | float) or is_word:
                known = float(f"{value:.9g}") if isinstance(value, float) else value
                found.setdefault((row[run], place), Counter())[known] += 1
    for (run_id, place), values in found.items():
        yield run_id, result.columns[place], values
