"""Which ops make the difference between runs, by rows worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reports.example import Store
from tests.reports.over_runs import RUNS, rows_of
from tests.reports.vega_lite import assert_valid, data
from xlahouse.reports.charts.panel import fill
from xlahouse.reports.panels.runs import op_changes

US = 1_000_000  # picoseconds


def row(
    base: str, other: str, kernel: str | None, total: int, rank: int | None, **more: Any
) -> Any:
    return {
        "run_id": base,
        "other_run_id": other,
        "phase": "decode",
        "part": "op",
        "kernel": kernel,
        "total_ps": float(total * US),
        "rank": rank,
        "count_ps": 0.0,
        "rate_ps": float(total * US),
        "new_ps": 0.0,
        "gone_ps": 0.0,
    } | more


@pytest.fixture(scope="module")
def store() -> Store:
    rows = [
        row("a1", "b1", "fusion", 50, 1, scope="m/mlp", count_ps=20.0 * US, rate_ps=30.0 * US),
        row("a1", "b1", None, -10, 2, part="idle"),
        row("a1", "b1", "copy", 1, None),  # within the spread
        row(
            "a1", "b1", None, 90, 1, part="between", phase="prefill"
        ),  # a1 has one prefill, its first
        row("b1", "a1", "fusion", -50, 1),  # the other way round
        row("a1", "c1", "fusion", 9, 1),  # another workload
        row("a2", "b1", "fusion", 9, 1),  # not the first run
        row("a1", "a2", "fusion", 4, 1, phase="warmup"),
    ]
    return Store({"runs": RUNS, "op_diff_v1": rows})


def test_ops_of_too_many_runs_are_not_compared(store: Store) -> None:
    ids = ["a1", "b1", *(f"absent {n}" for n in range(op_changes.MAX_COMPARED - 2))]
    assert len(rows_of(store, op_changes.PANEL, tuple(ids))) == 2
    assert len(rows_of(store, op_changes.PANEL, (*ids, "one more"))) == 0


def test_the_first_run_of_a_workload_is_the_base(store: Store, facts_over_runs: Any) -> None:
    rows = rows_of(store, op_changes.PANEL)
    assert rows.select("base", "other", "what", "rank", "total_ps").rows() == [
        ("name a1", "name b1", "fusion", 1, 50 * US),
        ("name a1", "name b1", "idle", 2, -10 * US),
    ]
    section = fill(op_changes.PANEL, rows, facts_over_runs)
    assert_valid(section)
    assert section.coverage == "2 changes in 1 pair of runs."
    assert section.notes[-1].endswith("`xlahouse report versus --run 'name a1' --run 'name b1'`.")
    [figure] = section.figures
    assert figure.title == "From name a1 to name b1: a decode step"
    bars = sorted((r["shown"], r["change"], r["amount"]) for r in data(figure.spec))
    assert bars == [
        ("1. fusion m/mlp", "runs more or less often", 20),
        ("1. fusion m/mlp", "takes longer or shorter", 30),
        ("2. idle in the step", "takes longer or shorter", -10),
    ]


def test_without_rows_the_page_says_why(facts_over_runs: Any) -> None:
    assert "no run to compare with" in op_changes.why_empty([])
    many = facts_over_runs * op_changes.MAX_COMPARED
    assert "`xlahouse compare RUN OTHER` does for two" in op_changes.why_empty(many)
    assert "no phase in common" in op_changes.why_empty(facts_over_runs)
