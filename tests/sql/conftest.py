"""A warehouse of two runs, which test files query unless they have a `root` of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.warehouse import write_warehouse
from xlahouse.ingest.schema import BY_NAME

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


def mend_row(root: Path, change: Callable[[dict[str, pa.Array]], None], run: str = "ab12") -> None:
    """Rewrite a run's row with other columns."""
    path = root / "tables" / "runs" / f"{run}.parquet"
    columns = pq.ParquetFile(path).read().to_pydict()
    schema = BY_NAME["runs"].schema
    arrays = {field.name: pa.array(columns[field.name], field.type) for field in schema}
    change(arrays)
    pq.write_table(pa.table(arrays), path)
