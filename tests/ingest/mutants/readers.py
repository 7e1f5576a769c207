"""Asks a warehouse of mutants: queries, checks and pages must work, and good runs be as they are alone."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.ingest.mutants.trial import good_id, good_trace, trace_of, unforeseen
from xlahouse.capture.errors import XlahouseError
from xlahouse.ingest.run import ingest_paths
from xlahouse.reports.site import render_site
from xlahouse.sql.check.check import check_warehouse
from xlahouse.sql.library import TABLES
from xlahouse.sql.narrowing import ACROSS_RUNS
from xlahouse.sql.warehouse import Warehouse

# Columns of the moment, of the place, or of the neighbours.
FREE = {"ingested_at", "files", "file_crcs", "source_files", "source", "message", "name", "run"}

_alone = TemporaryDirectory(prefix="mutants-")


@cache
def alone() -> Path:
    """A warehouse of nothing but the good trace."""
    path, root = Path(_alone.name) / "good.xplane.pb", Path(_alone.name) / "w"
    path.write_bytes(good_trace())
    ingest_paths([str(path)], str(root), name="good")
    return root


def relations() -> list[str]:
    """Tables, and every version of the views."""
    with Warehouse(str(alone())) as warehouse:
        library = warehouse.library
        return sorted(name for name in {*TABLES, *library.views} if not name.startswith("_"))


def good_rows(warehouse: Warehouse, relation: str) -> list[str]:
    """A relation's rows of the good run, as texts in order."""
    result = warehouse.query(f"from {relation} where run_id = $run", {"run": good_id()})
    kept = [place for place, column in enumerate(result.columns) if column not in FREE]
    return sorted(repr([_rounded(row[place]) for place in kept]) for row in result.rows)


def _rounded(value: object) -> object:
    return f"{value:.9g}" if isinstance(value, float) else value


@cache
def rows_alone(relation: str) -> list[str]:
    """A relation's rows of the good run where it has no neighbours."""
    with Warehouse(str(alone())) as warehouse:
        return good_rows(warehouse, relation)


def query_faults(root: Path, chosen: Iterable[str]) -> list[str]:
    """What is wrong with the answers of relations about everything, and about the good run."""
    faults = []
    for relation in chosen:
        try:
            with Warehouse(str(root)) as warehouse:
                warehouse.query(f"from {relation}").arrow()
            with Warehouse(str(root)) as warehouse:
                rows = [] if relation in ACROSS_RUNS else good_rows(warehouse, relation)
            if relation not in ACROSS_RUNS and rows != rows_alone(relation):
                odd = sorted(set(rows) ^ set(rows_alone(relation)))[:4]
                faults.append(f"{relation}: the good run has other rows than alone: {odd}")
        except Exception as error:
            faults.append(f"{relation}: {_told(error)}")
    return faults


def culprits(root: Path, relation: str, run_ids: Iterable[str]) -> list[str]:
    """The runs of which a relation cannot be asked."""
    found = []
    for run_id in run_ids:
        try:
            with Warehouse(str(root)) as warehouse:
                warehouse.of_run(run_id).query(f"from {relation}").arrow()
        except Exception:
            found.append(run_id)
    return found


def check_faults(root: Path) -> list[str]:
    """What is wrong with `check`: it fails, or audits find what ingest must not write."""
    try:
        with Warehouse(str(root)) as warehouse:
            lines = check_warehouse(warehouse).lines
    except Exception as error:
        return [f"check: {_told(error)}"]
    return [f"check: {line}" for line in lines if " audit " in line[:20] or unforeseen(line)]


def report_faults(root: Path, out: Path, run_ids: list[str]) -> list[str]:
    """What is wrong with the pages of some runs."""
    try:
        with Warehouse(str(root), threads=1) as warehouse:
            render_site(warehouse, out, run_ids)
    except Exception as error:
        return [f"report: {_told(error)}"]
    return []


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, XlahouseError) else f"traceback: {trace_of(error)}"


def chosen(draw: random.Random, count: int) -> list[str]:
    """Some relations."""
    every = relations()
    return draw.sample(every, min(count, len(every)))
