"""Views of servers on irregular random runs against plain loops over their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.views.oracle import serving
from tests.views.oracle.drawn import Row
from tests.views.oracle.reading import Run
from tests.views.oracle.test_oracle import FIRST, RUNS, by_run, disagreeing
from tests.warehouse import write_warehouse
from xlahouse.sql import Warehouse

pytestmark = pytest.mark.verify(together=True)

VIEWS: dict[str, Callable[[Run], Iterator[Row]]] = {
    "serving_step_v1": serving.serving_step,
    "serving_batch_v1": serving.serving_batch,
    "interference_v1": serving.interference,
    "latency_v3": serving.served_requests,
    "serving_summary_v1": serving.serving_summary,
}


@pytest.fixture(scope="module")
def runs():
    drawn = map(serving.draw_server, range(FIRST, FIRST + 4 * RUNS))
    return [Run(run.run_id, run.tables) for run in drawn if run is not None]


@pytest.fixture(scope="module")
def warehouse(runs, tmp_path_factory):
    tables: dict[str, list[Row]] = {}
    for run in runs:
        for name, rows in run.tables.items():
            tables.setdefault(name, []).extend(rows)
    root = write_warehouse(tmp_path_factory.mktemp("oracle") / "warehouse", tables)
    with Warehouse(str(root)) as opened:
        yield opened


@pytest.mark.parametrize("view", VIEWS)
def test_view(view, runs, warehouse):
    assert len(runs) >= RUNS / 4
    named = {run.run_id for run in runs if run.rows("served_requests")}
    every = by_run(warehouse, view)

    def rows_of(run, names, expected):
        if view == "latency_v3" and run.run_id not in named:
            return []  # it says that the steps name no request
        return every(run, names, expected)

    assert not disagreeing(view, VIEWS[view], runs, rows_of)
