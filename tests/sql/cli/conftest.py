"""A warehouse of one run, which the verbs are tried on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.warehouse import write_warehouse

GIVEN = {
    "runs": [{"run_id": "ab12", "name": "base"}],
    "devices": [
        {"run_id": "ab12", "device_id": device, "logical_id": device, "world": 0}
        for device in (0, 1)
    ],
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_warehouse(tmp_path / "w", GIVEN)
