"""Which runs a query asks for: found where that is sure, and never at the cost of a row."""

from __future__ import annotations

from typing import Any

import pytest

from tests.views.given_expect import cases_of
from tests.views.together import write_together
from xlahouse.sql import Warehouse
from xlahouse.sql.guard import check
from xlahouse.sql.library import shipped
from xlahouse.sql.narrowing import ACROSS_RUNS, across_runs, find_filters, runs_asked

NAMES = {"a": "base", "b": "base", "c": "other", "d": None}


def asked(sql: str, **given: object) -> frozenset[str] | None:
    return runs_asked(find_filters(check(sql).tree), given, NAMES)


@pytest.mark.parametrize(
    ("sql", "runs"),
    [
        ("from ops where run_id = 'a'", "a"),
        ("from ops as o where 'a' = o.RUN_ID and op = 'x'", "a"),
        ("from ops where run_id in ('a', 'c', 'nowhere')", "ac"),
        ("from ops where run_id = 'nowhere'", ""),
        ("from ops where run_id in ('a', 'b') and (op = 'x' and run_id in ('b', 'c'))", "b"),
        ("from latency join runs using (run_id) where name = 'base'", "ab"),
        ("from latency as l join runs as r on l.run_id = r.run_id where r.name = 'base'", "ab"),
        ("from run_summary where name = 'other' order by all limit 1", "c"),
        ("from runs left join ops as o using (run_id) where o.run_id = 'a'", "a"),
        (
            "from runs as r join ops as o using (run_id) left join launches as l "
            "on o.launch_instance = l.launch_instance and l.run_id = o.run_id where r.name = 'other'",
            "c",
        ),
    ],
)
def test_runs_that_a_query_asks_for(sql: str, runs: str) -> None:
    assert asked(sql) == frozenset(runs)


@pytest.mark.parametrize(
    "sql",
    [
        "from ops",
        "from ops where run_id = 'a' or op = 'x'",
        "from ops where not run_id = 'a'",
        "from ops where run_id not in ('a')",
        "from ops where run_id > 'a'",
        "from ops where run_id = lower('A')",
        "from ops where run_id = op",
        "from ops where run_id in ('a', op)",
        "from ops where name = 'base'",  # it has no such column: an error, whatever is read
        "from latency, runs where runs.run_id = 'a'",
        "from latency join runs on true where runs.run_id = 'a'",
        "from latency as l join runs as r on l.run_id = r.run_id or true where r.run_id = 'a'",
        "from latency as l join runs as r on l.run_id = l.run_id where r.run_id = 'a'",
        "from latency right join runs using (run_id) where run_id = 'a'",
        "from latency full join runs using (run_id) where run_id = 'a'",
        "from latency join runs using (name) where run_id = 'a'",
        "from ops where run_id = 'a' union all from ops",
        "from (from ops) where run_id = 'a'",
        "with x as (from ops) from x where run_id = 'a'",
        "select (select count(*) from ops) from ops where run_id = 'a'",
        "from ops where run_id = 'a' and exists (from runs)",
        "from ops as o(run_id, x) where run_id = 'a'",
        "from ops tablesample 2 rows where run_id = 'a'",
        "select * from ops where run_id = 'a' using sample 2 rows",
        "select s.run_id from (select {'run_id': 'a'} as s) where s.run_id = 'a'",
    ],
)
def test_any_run_may_be_asked_for(sql: str) -> None:
    assert asked(sql) is None


def test_parameters_count_as_they_are_given() -> None:
    sql = "from ops where run_id = $run and run_id in ('a', $other)"
    assert asked(sql, run="a", other="b") == {"a"}
    assert asked(sql, run="a", other=3) == {
        "a"
    }  # the second says nothing, and is an error in the end
    assert asked("from ops where run_id = $run", run=None) is None


def test_views_that_hold_runs_against_each_other_read_all() -> None:
    assert shipped().views.keys() >= ACROSS_RUNS
    assert across_runs(shipped(), {"run_comparison"})
    assert across_runs(shipped(), {"ops", "_step_window_v1"})
    assert not across_runs(shipped(), {"ops", "run_summary"})


def rounded(rows: list[tuple[Any, ...]]) -> list[str]:
    """Rows in one order; sums of floats depend on the order of what they add."""
    return sorted(
        repr([f"{value:.9g}" if isinstance(value, float) else value for value in row])
        for row in rows
    )


@pytest.mark.verify
@pytest.mark.parametrize("view", [view.name for view in shipped().public])
def test_no_run_takes_a_row_from_another(view: str, tmp_path) -> None:
    mine = cases_of(view)
    with Warehouse(write_together(tmp_path, mine)) as warehouse:
        every = warehouse.query(f"from {view}")
        at = every.columns.index("run_id")
        runs = sorted({row[at] for row in every.rows})
        for run in runs[:: max(len(runs) // 4, 1)]:
            alone = warehouse.query(f"from {view} where run_id = $run", {"run": run}).rows
            assert rounded(alone) == rounded([row for row in every.rows if row[at] == run])
