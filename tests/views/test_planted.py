"""A fault planted in a view is caught by a given/expect case of it, or of a view on top of it."""

from __future__ import annotations

import pytest
from sqlglot import exp

from tests.layers import sampled
from tests.views.given_expect import cases
from tests.views.harmless import EXCUSED, HARMLESS
from tests.views.mutants import fault_names
from tests.views.planted import Bench, faults
from xlahouse.sql.library import View, parse_view, shipped

# Faults are planted in the newest version of a view; one that another replaced has its cases.
VIEWS = [view for view in shipped().views.values() if not view.folder.startswith("superseded")]
LISTING = {exp.Select, exp.From, exp.Table, exp.Column, exp.Identifier}
CHOOSING = {exp.Where, exp.And, exp.Not, exp.In, exp.Coalesce, exp.Literal, exp.Boolean}
WRITTEN = {exp.With, exp.CTE, exp.Values, exp.Tuple, exp.Subquery, exp.TableAlias, exp.Star}
TRIED = 5  # faults a view that a commit tries; ALL=1, or `python -m tests.views.planted`, tries every one


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench(list(cases()))


def is_listing(view: View) -> bool:
    """Whether a view names columns of another, chooses rows by them, or writes its rows out, and does nothing
    else: no fault of the kinds that are planted fits in there."""
    return {type(node) for node in parse_view(view).walk()} <= LISTING | CHOOSING | WRITTEN


@pytest.mark.verify
@pytest.mark.xdist_group("planted")
def test_nothing_is_caught_before_something_is_planted(bench: Bench) -> None:
    assert bench.unexpected() == []


@pytest.mark.verify
@pytest.mark.xdist_group("planted")
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_faults_are_caught(view: View, bench: Bench) -> None:
    planted = faults(view)
    if not planted:
        assert is_listing(view) or view.name in HARMLESS, "nothing is planted in it"
        return
    tried = sampled(planted, TRIED, view.name)
    assert [str(mutant) for mutant in tried if not bench.catches(mutant)] == []


def test_excused_faults_are_those_that_can_be_planted() -> None:
    assert set(EXCUSED) <= set(shipped().views)
    planted = {view: set(fault_names(shipped().views[view])) for view in EXCUSED}
    assert {view: gone for view in EXCUSED if (gone := EXCUSED[view] - planted[view])} == {}


def test_a_fault_keeps_its_name_when_a_part_is_renamed_or_its_layout_changes() -> None:
    first = """with seen as (
        select run_id, seen.op, max(step) as step from ops as seen group by run_id, op
    )
    select r.run_id, row_number() over (partition by s.run_id order by s.op) as place
    from runs as r inner join seen as s on s.run_id = r.run_id and s.step > 2
    """
    second = " ".join(first.replace("seen", "looked_at").split())
    assert first != second
    faults, others = (list(fault_names(View("x_v1", sql))) for sql in (first, second))
    assert "JOIN _ AS s without s.step > 2" in faults
    assert faults == others
