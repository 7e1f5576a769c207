"""Every view against rows given and rows expected, both written by hand."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest

from tests.each import check_each
from tests.views.computed import Computed
from tests.views.given_expect import FOLDER, Case, cases, differences
from xlahouse.sql.library import shipped

pytestmark = pytest.mark.xdist_group("cases")
CASES = sorted({path.stem for path in FOLDER.rglob("*_v*.yaml")})
SQL = {name: view.sql for name, view in shipped().views.items()}


@pytest.fixture(scope="module")
def computed() -> Computed:
    """All cases of all views: the file's tests share an xdist group, so that one worker computes them."""
    return Computed(cases(), SQL)


@pytest.mark.parametrize("view", CASES)
def test_view(view: str, computed: Computed) -> None:
    """A view is computed once for all cases, whose runs may not mix."""
    computed.keep(view)
    found = computed.rows(view)
    check_each("cases", {case.name: partial(_check, case, rows) for case, rows in found})


def _check(case: Case, found: list[tuple[Any, ...]]) -> None:
    assert not differences(case, found), f"{differences(case, found)}, got {found}"


def test_a_case_has_a_name_of_its_own() -> None:
    counts = Counter(map(str, cases()))
    assert [name for name, count in counts.items() if count > 1] == []


def test_every_view_has_cases() -> None:
    wanted = {view: FOLDER / view.folder / f"{view.name}.yaml" for view in shipped().public}
    assert [view.name for view, path in wanted.items() if not path.exists()] == []


def test_launches_of_a_case_have_one_order():
    """Those that tie may come either way, and the two engines choose as they like."""
    keys = ("run_id", "device_id", "start_ps", "launch", "duration_ps")
    for case in cases():
        launches = [tuple(row.get(key) for key in keys) for row in case.given.get("launches", ())]
        assert len(launches) == len(set(launches)), case
