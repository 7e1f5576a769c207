"""A warehouse of two runs, which test files query unless they have a `root` of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.warehouse import write_warehouse

TWO_RUNS = {
    "runs": [
        {"run_id": "ab12", "name": "base", "model": "m", "mesh": [{"axis": "tp", "size": 2}]},
        {"run_id": "ab34", "name": "other", "model": "m"},
    ],
    "devices": [
        {"run_id": run, "device_id": device, "logical_id": device, "world": 0}
        for run in ("ab12", "ab34")
        for device in (0, 1)
    ],
    "ops": [{"run_id": "ab12", "op": "x"}],
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_warehouse(tmp_path / "w", TWO_RUNS)
