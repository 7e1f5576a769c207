"""Every view against rows given and rows expected, both written by hand."""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from tests.each import check_each
from tests.views.given_expect import FOLDER, Case, cases, differences
from tests.views.together import answers, own_rows, write_together
from xlahouse.sql import Warehouse
from xlahouse.sql.library import shipped

CASES = {view: list(its) for view, its in groupby(cases(), key=lambda case: case.view)}


@pytest.mark.parametrize("view", CASES)
def test_view(view: str, tmp_path: Path) -> None:
    """The cases of a view are runs of one warehouse, and the view is computed once for all."""
    with Warehouse(write_together(tmp_path / "warehouse", CASES[view])) as warehouse:
        result = warehouse.query(own_rows(view, shipped().views[view].column_names))
        numbered = dict(enumerate(CASES[view]))
        found = answers(result.columns, result.rows, numbered)
    check_each(
        "cases", {case.name: partial(_check, case, found[n]) for n, case in numbered.items()}
    )


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
