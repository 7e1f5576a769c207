"""Writes and ingests synthetic runs, and compares the rows of their views with closed forms, run by run."""

from __future__ import annotations

import inspect
import math
import os
from collections import defaultdict
from functools import partial
from itertools import zip_longest

from tests.each import check_each
from tests.synth.answers.all import answers
from tests.synth.cases import CASES
from tests.synth.draw import draw_run
from tests.synth.write import write_run
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.warehouse import Warehouse

RUNS = CASES | {run.name: run for run in map(draw_run, range(100, 106))}
# One of each kind of schedule, mesh and trap, whose closed forms show an ordinary mistake.
FEW = (
    "dp_tp",
    "tp_skewed",
    "tp_cut_at_both_ends",
    "tp_loop",
    "sp_fused",
    "pp_ticks",
    "dp_pp_tp_stages",
    "ep_uneven",
    "fsdp_exposed",
    "late_host",
    "tp_overlapped",
    "warmed_up",
    "unmarked",
    "no_collectives",
)


def chosen(all_of_them):
    """The runs to test: all, a few, or the runs that XLAHOUSE_RUNS names, with commas between them."""
    names = os.environ.get("XLAHOUSE_RUNS")
    wanted = names.split(",") if names else RUNS if all_of_them else FEW
    return {name: RUNS[name] for name in wanted}


class Ingested:
    """One of several runs in a warehouse: its description, its answers, its rows."""

    def __init__(self, run, warehouse, run_id, cache):
        self.run, self.expected = run, answers(run)
        self.warehouse, self.run_id, self.cache = warehouse, run_id, cache

    def rows(self, sql):
        """The run's rows of a query, which has to give run_id; all runs share one execution."""
        if sql not in self.cache:
            self.cache[sql] = defaultdict(list)
            for row in self.warehouse.query(sql).arrow().to_pylist():
                self.cache[sql][row["run_id"]].append(row)
        return self.cache[sql][self.run_id]

    def members(self):
        """(program, op, group) -> its devices in group order."""
        groups = defaultdict(list)
        sql = "select * from replica_groups order by program_id, op, group_index, position"
        for row in self.rows(sql):
            key = row["program_id"], row["op"], row["group_index"]
            groups[key].append(row["device_id"])
        return {key: tuple(devices) for key, devices in groups.items()}


def ingest(runs, folder):
    """Write and ingest runs into one warehouse; name -> Ingested."""
    for number, run in enumerate(runs):
        write_run(run, folder / "traces" / str(number))
    results = ingest_paths([str(folder / "traces")], str(folder / "warehouse"))
    warehouse, cache = Warehouse(str(folder / "warehouse")), {}
    ids = {result.name: result.run_id for result in results}
    return {run.name: Ingested(run, warehouse, ids[run.name], cache) for run in runs}


def every_run(check):
    """Make a test of all runs from the check of one; a failure names each run, and how it differs."""
    signature = inspect.signature(check)
    _, *given = signature.parameters.values()
    runs = inspect.Parameter("synthetic_runs", inspect.Parameter.POSITIONAL_OR_KEYWORD)

    def test(synthetic_runs, **values):
        checks = {name: partial(check, run, **values) for name, run in synthetic_runs.items()}
        check_each("runs", checks)

    test.__signature__ = inspect.Signature([runs, *given])
    test.__name__, test.__doc__ = check.__name__, check.__doc__
    return test


def in_order(rows, columns):
    """Rows restricted to some columns, sorted by what is exact, then by their floats."""
    values = [tuple(row[column] for column in columns) for row in rows]
    exact = [[str(v) for v in row if not isinstance(v, float)] for row in values]
    floats = [[v for v in row if isinstance(v, float)] for row in values]
    order = sorted(range(len(values)), key=lambda k: (exact[k], floats[k]))
    return [values[k] for k in order]


def equal(found, expected, leeway=1e-12):
    """Exact, but for floats: sums in another order differ in their last digits."""
    return (
        found is not None
        and expected is not None
        and all(
            math.isclose(one, other, rel_tol=leeway)
            if isinstance(one, float) and isinstance(other, float)
            else one == other
            for one, other in zip(found, expected, strict=True)
        )
    )


def assert_same(found, expected, columns, leeway=1e-12):
    """Equal in any order of rows, floats up to a share; on failure the first differences are shown."""
    pairs = zip_longest(in_order(found, columns), in_order(expected, columns))
    differing = [(one, other) for one, other in pairs if not equal(one, other, leeway)]
    shown = "".join(f"\n  found    {one}\n  expected {other}" for one, other in differing[:4])
    assert not differing, f"{len(differing)} rows differ in {', '.join(columns)}{shown}"
