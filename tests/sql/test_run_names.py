"""Runs of a warehouse: found by id, prefix or name, listed by age and filtered."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.warehouse import write_warehouse
from xlahouse.capture.errors import QueryError, WarehouseError
from xlahouse.sql import Warehouse


@pytest.mark.parametrize(
    ("text", "run"), [("ab12", "ab12"), ("ab1", "ab12"), ("base", "ab12"), ("other", "ab34")]
)
def test_runs_are_named_by_id_prefix_or_name(root: Path, text: str, run: str) -> None:
    assert Warehouse(root).resolve_run(text) == run


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ab", r"ab could be any of ab12 \(base\), ab34 \(other\)"),
        ("bas", "did you mean base"),
        ("zzz", "see `xlahouse runs -w .*w`"),
        ("", "see `xlahouse runs -w .*w`"),
    ],
)
def test_a_run_that_is_not_clear(root: Path, text: str, message: str) -> None:
    with pytest.raises(WarehouseError, match=message):
        Warehouse(root).resolve_run(text)


def test_a_name_that_two_runs_share_is_not_clear(tmp_path: Path) -> None:
    runs = [{"run_id": "a1", "name": "same"}, {"run_id": "b2", "name": "same"}]
    with pytest.raises(WarehouseError, match="any of a1"):
        Warehouse(write_warehouse(tmp_path, {"runs": runs})).resolve_run("same")


def test_runs_are_listed_by_age_and_filtered(tmp_path: Path) -> None:
    dates = {
        "a": None,
        "b": datetime(2026, 2, 1, tzinfo=UTC),
        "c": datetime(2026, 1, 1, tzinfo=UTC),
    }
    runs = [
        {"run_id": run_id, "captured_at": at, "model": "m", "batch_size": len(run_id)}
        for run_id, at in dates.items()
    ]
    warehouse = Warehouse(write_warehouse(tmp_path, {"runs": runs}))
    assert [run["run_id"] for run in warehouse.runs()] == ["c", "b", "a"]
    assert [run["run_id"] for run in warehouse.runs(run_id="b", model="m")] == ["b"]
    assert warehouse.runs(model="q") == []
    with pytest.raises(QueryError, match="no column modell; did you mean model"):
        warehouse.runs(modell="m")
