"""Every given/expect case on Spark: the rows expected, and the very rows that DuckDB gives."""

from __future__ import annotations

from contextlib import ExitStack
from functools import cache

import pytest

from tests.layers import sampled
from tests.spark.engines import Answers, differences, sorted_rows
from tests.views.given_expect import cases
from tests.views.given_expect import differences as unexpected
from tests.views.together import answers, write_together
from xlahouse.sql import Warehouse
from xlahouse.sql.library import shipped

pytestmark = pytest.mark.xdist_group("spark")
VIEWS = sorted(shipped().views)
# In `make test`: views with windows, unnested lists, quantiles and joins of their own, which Spark plans
# in seconds. Constructs one by one are in test_constructs.py.
FEW = ("clock_offset_v2", "run_mesh_v1", "step_time_v1")
TRIED = 40  # views that a commit tries in `make verify`, besides these; ALL=1 tries every one


def both_layers(views):
    """Views as parameters: few of them for `make test`, a sample of all others for `make verify`."""
    others = sampled([view for view in views if view not in FEW], TRIED, "cases on Spark")
    return [
        *(view for view in views if view in FEW),
        *(pytest.param(view, marks=pytest.mark.verify) for view in others),
    ]


@pytest.fixture(scope="module")
def asked(spark, tmp_path_factory):
    """`asked(view)` is both engines on a warehouse of cases, and these cases: for a few views their own,
    so that Spark reads few files, and for all others every one."""

    @cache
    def ask(few):
        its = [case for case in cases() if case.view in FEW] if few else cases()
        root = write_together(tmp_path_factory.mktemp("cases"), its)
        return Answers(spark, opened.enter_context(Warehouse(root))), its

    with ExitStack() as opened:
        yield lambda view: ask(view in FEW)


@pytest.mark.parametrize("view", both_layers(VIEWS))
def test_both_engines_give_the_same(view, asked):
    engines, _ = asked(view)
    assert differences(engines.duckdb(view), engines.spark(view)) == []


@pytest.mark.parametrize("view", both_layers([view.name for view in shipped().public]))
def test_spark_gives_what_is_expected(view, asked):
    engines, its = asked(view)
    found = engines.spark(view)
    own = {number: case for number, case in enumerate(its) if case.view == view}
    rows = answers(found.column_names, sorted_rows(found), own)
    wrong = {case.name: unexpected(case, rows[number]) for number, case in own.items()}
    assert {name: faults for name, faults in wrong.items() if faults} == {}
