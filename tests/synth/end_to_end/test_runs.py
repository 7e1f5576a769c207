"""Synthetic runs, ingested: what describes a run, and what compares runs, equals its closed form."""

from __future__ import annotations

import pytest

from tests.synth.answers.runs import run_comparison, scaling, setup_summary
from tests.synth.end_to_end.ingested import RUNS, assert_same, every_run

pytestmark = pytest.mark.xdist_group("synthetic")


@every_run
def test_run_summary(ingested):
    expected = ingested.expected["run_summary"]
    assert_same(ingested.rows("select * from run_summary_v2"), expected, list(expected[0]))


@every_run
def test_layout(ingested):
    expected = ingested.expected["layout"]
    assert_same(ingested.rows("select * from layout_v1"), expected, list(expected[0]))


@every_run
def test_ccl_bench(ingested):
    expected = ingested.expected["ccl_bench"]
    assert_same(ingested.rows("select * from ccl_bench_v2"), expected, ["metric", "value"])


@pytest.mark.parametrize(
    ("name", "view"),
    [
        ("setup_summary_v2", setup_summary),
        ("run_comparison_v2", run_comparison),
        ("scaling_v3", scaling),
    ],
)
def test_runs_side_by_side(synthetic_runs, name, view):
    warehouse = next(iter(synthetic_runs.values())).warehouse
    setups = dict(warehouse.query("select run_id, setup from runs").rows)
    runs = {one.run_id: (one.run, setups[one.run_id]) for one in synthetic_runs.values()}
    some_repeat = len(set(setups.values())) < len(setups)
    assert some_repeat or len(synthetic_runs) < len(RUNS)
    expected = list(view(runs))
    found = warehouse.query(f"select * from {name}").dicts()
    columns = list(expected[0]) if expected else []  # one run alone has no pair
    assert_same(found, expected, columns)
