"""Predictions of random runs that are mostly alike, against plain loops over all pairs of runs."""

from __future__ import annotations

import math
from random import Random

import pytest

from tests.layers import first_few
from tests.views.oracle.predictions import draw, predicted_steps, prediction_errors
from tests.warehouse import write_warehouse
from xlahouse.sql import Warehouse


@pytest.mark.parametrize("seed", first_few([1, 2], 1))
def test_errors_of_random_runs(seed, tmp_path):
    tables = draw(Random(seed), 40)
    steps = predicted_steps(tables)
    with Warehouse(write_warehouse(tmp_path / "w", tables)) as warehouse:
        found = warehouse.query("from predicted_step_v1").dicts()
        kinds = warehouse.query("from prediction_error_v1").dicts()
    assert len(found) == len(steps) > 10
    by_step = {(row["run_id"], row["phase"]): row for row in found}
    for want in steps:
        row = by_step[want["run_id"], want["phase"]]
        exact = ("method", "change", "runs")
        assert [row[name] for name in exact] == [want[name] for name in exact], want
        assert close(row["error_ratio"], want["error_ratio"]), want
    expected = prediction_errors(steps)
    assert sum(pairs > 1 for _, pairs, *_ in expected.values()) > 2
    assert len(kinds) == len(expected)
    for row in kinds:
        count, pairs, middle, most = expected[row["method"], row["change"], row["phase"]]
        assert (row["predictions"], row["pairs"]) == (count, pairs)
        assert close(row["median_error_ratio"], middle)
        assert close(row["largest_error_ratio"], most)


def close(value, want):
    return value == want or math.isclose(value, want, rel_tol=1e-9, abs_tol=1e-12)
