"""The audits find nothing in sound rows, and each finds the fault it is for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.views.given_expect import Case, cases
from tests.warehouse import write_warehouse
from xlahouse.sql import Warehouse
from xlahouse.sql.audits import AUDITS, run_audits

COLLECTIVE = {
    "device_id": 0,
    "program_id": 7,
    "op": "x",
    "kind": "all-gather",
    "instance": 1,
    "group_index": 0,
    "group_size": 2,
    "payload_bytes": 8,
}
STEP = {"device_id": 0, "request": 0, "step": 0, "category": "compute"}

FAULTS: dict[str, dict[str, list[dict[str, Any]]]] = {
    "coverage_adds_up": {"coverage": [{"events_read": 5, "rows_written": 3, "events_rejected": 1}]},
    # A pair that is listed twice sends twice.
    "matrix_adds_up": {
        "devices": [{"device_id": 0, "world": 0}, {"device_id": 1, "world": 0}],
        "collectives": [{**COLLECTIVE, "kind": "collective-permute"}],
        "permute_pairs": [
            {
                "world": 0,
                "program_id": 7,
                "op": "x",
                "source_device_id": 0,
                "target_device_id": target,
            }
            for target in (1, 2)
        ],
    },
    # Two rows of one device make its collectives count twice.
    "volume_holds_every_collective": {
        "devices": [{"device_id": 0, "world": 0}, {"device_id": 0, "world": 1}],
        "collectives": [COLLECTIVE],
    },
    "busy_intervals_are_merged": {
        "busy_intervals": [
            {**STEP, "start_ps": 0, "duration_ps": 10},
            {**STEP, "start_ps": 9, "duration_ps": 10},
        ]
    },
    "busy_intervals_hold_compute": {
        "ops": [
            {**STEP, "start_ps": 0, "duration_ps": 10},
            {**STEP, "start_ps": 2, "duration_ps": 3},
            {**STEP, "start_ps": 8, "duration_ps": 4},
        ],
        "busy_intervals": [{**STEP, "start_ps": 0, "duration_ps": 11}],
    },
    "instances_fit_their_group": {"collectives": [COLLECTIVE, COLLECTIVE]},
    "times_run_forward": {"launches": [{"device_id": 0, "start_ps": 5, "duration_ps": -1}]},
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found(name: str, tmp_path: Path) -> None:
    with Warehouse(write_warehouse(tmp_path, FAULTS[name])) as warehouse:
        found = run_audits(warehouse)
    assert name in [finding.audit.name for finding in found]


def test_every_audit_has_a_fault_but_the_identity_by_construction() -> None:
    # device_time takes idle as the remainder; only overlapping intervals could break the sum.
    assert {audit.name for audit in AUDITS} - set(FAULTS) == {"window_adds_up"}


@pytest.mark.parametrize(
    "case", [case for case in cases() if case.view == "traffic_matrix_v1"], ids=str
)
def test_matrix_cases_add_up(case: Case, tmp_path: Path) -> None:
    (matrix,) = (audit for audit in AUDITS if audit.name == "matrix_adds_up")
    with Warehouse(write_warehouse(tmp_path, case.given)) as warehouse:
        assert warehouse.query(matrix.sql).rows == []
