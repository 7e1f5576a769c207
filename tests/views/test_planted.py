"""A fault planted in a view is caught by a given/expect case of it, or of a view on top of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.views.given_expect import cases
from tests.views.planted import HARMLESS, Bench, faults
from xlahouse.sql.library import View, shipped

VIEWS = list(shipped().views.values())
TRIED = 8  # faults a view, spread over it; `python -m tests.views.planted` tries all


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(Path(tmp_path_factory.mktemp("planted")), list(cases()))


@pytest.mark.xdist_group("planted")
def test_nothing_is_caught_before_something_is_planted(bench: Bench) -> None:
    assert bench.unexpected() == []


@pytest.mark.xdist_group("planted")
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_faults_are_caught(view: View, bench: Bench) -> None:
    planted = faults(view)
    assert planted
    tried = planted[:: -(-len(planted) // TRIED)]
    assert [mutant.fault for mutant in tried if not bench.catches(mutant)] == []


def test_harmless_faults_are_those_of_views_that_there_are() -> None:
    assert set(HARMLESS) <= set(shipped().views)
