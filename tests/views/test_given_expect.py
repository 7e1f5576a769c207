"""Every view against rows given and rows expected, both written by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.views.given_expect import FOLDER, Case, cases, differences
from tests.warehouse import write_warehouse
from xlahouse.sql import Warehouse
from xlahouse.sql.library import View, shipped


@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_view(case: Case, tmp_path: Path) -> None:
    root = write_warehouse(tmp_path / "warehouse", case.given)
    with Warehouse(root) as warehouse:
        found = warehouse.query(f"select {', '.join(case.columns)} from {case.view}").rows
    assert not differences(case, found), f"got {found}"


@pytest.mark.parametrize("view", shipped().public, ids=lambda view: view.name)
def test_every_view_has_cases(view: View) -> None:
    assert (FOLDER / view.folder / f"{view.name}.yaml").exists(), "write given/expect cases for it"


def test_launches_of_a_case_have_one_order():
    """Those that tie may come either way, and the two engines choose as they like."""
    keys = ("run_id", "device_id", "start_ps", "launch", "duration_ps")
    for case in cases():
        launches = [tuple(row.get(key) for key in keys) for row in case.given.get("launches", ())]
        assert len(launches) == len(set(launches)), case
