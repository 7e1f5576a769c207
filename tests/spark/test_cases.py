"""Every given/expect case on Spark: the rows expected, and the very rows that DuckDB gives."""

from __future__ import annotations

import pytest

from tests.spark.engines import Answers, differences, sorted_rows
from tests.views.given_expect import cases
from tests.views.given_expect import differences as unexpected
from tests.views.together import answers, write_together
from xlahouse.sql import Warehouse
from xlahouse.sql.library import shipped

pytestmark = pytest.mark.xdist_group("spark")
CASES = list(cases())
VIEWS = sorted(shipped().views)
# In `make test`: views with windows, unnested lists, quantiles and joins of their own.
FEW = ("device_time_v1", "latency_v2", "traffic_matrix_v1", "run_mesh_v1", "step_time_v1")


def both_layers(views):
    """Views as parameters: few of them for `make test`, all others for `make verify`."""
    return [view if view in FEW else pytest.param(view, marks=pytest.mark.verify) for view in views]


@pytest.fixture(scope="module")
def together(spark, tmp_path_factory):
    with Warehouse(write_together(tmp_path_factory.mktemp("cases"), CASES)) as warehouse:
        yield Answers(spark, warehouse)


@pytest.mark.parametrize("view", both_layers(VIEWS))
def test_both_engines_give_the_same(view, together):
    assert differences(together.duckdb(view), together.spark(view)) == []


@pytest.mark.parametrize("view", both_layers(view.name for view in shipped().public))
def test_spark_gives_what_is_expected(view, together):
    found = together.spark(view)
    rows = sorted_rows(found)
    wrong = {
        case.name: unexpected(case, answers(found.column_names, rows, number, case))
        for number, case in enumerate(CASES)
        if case.view == view
    }
    assert {name: faults for name, faults in wrong.items() if faults} == {}
