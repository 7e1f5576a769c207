"""A file of a run that is not as its ingest wrote it is an error of `check`; ingest writes it again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.ingest.traces import tpu_trace, write
from tests.warehouse import write_warehouse
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.check.check import check_warehouse
from xlahouse.sql.damage import changed_files
from xlahouse.sql.warehouse import Warehouse

CHANGES = {
    "lost": (lambda table: table.slice(0, 1), "it has 1 rows, and its ingest wrote 2"),
    "all lost": (lambda table: table.slice(0, 0), "it has 0 rows, and its ingest wrote 2"),
    "doubled": (
        lambda table: pa.concat_tables([table, table]),
        "it has 4 rows, and its ingest wrote 2",
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_table_with_other_rows_than_were_written(change: str, tmp_path: Path) -> None:
    rows = [{"run_id": run, "device_id": device} for run in ("a", "b") for device in (0, 1)]
    root = write_warehouse(tmp_path, {"runs": [{"run_id": "a", "name": "base"}], "devices": rows})
    [path] = (root / "tables" / "devices" / "run_id=a").iterdir()
    changed, said = CHANGES[change]
    pq.write_table(changed(pq.ParquetFile(path).read()), path)
    name = path.relative_to(root)
    line = f"base: {name} is not as it was written: {said}; ingest the run again"
    with Warehouse(root) as warehouse:
        assert changed_files(warehouse) == [line]


def test_such_a_table_is_an_error_of_check(tmp_path: Path) -> None:
    rows = [{"run_id": "a", "device_id": device} for device in (0, 1)]
    root = write_warehouse(tmp_path, {"devices": rows, "issues": [{"run_id": "a"}]})
    [path] = (root / "tables" / "devices" / "run_id=a").iterdir()
    pq.write_table(pq.ParquetFile(path).read().slice(0, 1), path)
    with Warehouse(root) as warehouse:
        (line,) = changed_files(warehouse)
        report = check_warehouse(warehouse)
    assert f"error    {line}" in report.lines
    assert "warning  a: no code: no text (unknown file, 1)" in report.lines
    assert report.errors >= 1


def test_what_ingest_wrote_is_what_is_there(tmp_path: Path) -> None:
    ingest_paths([write(tmp_path / "a.xplane.pb", tpu_trace())], str(tmp_path / "w"))
    with Warehouse(tmp_path / "w") as warehouse:
        assert changed_files(warehouse) == []
    with Warehouse(write_warehouse(tmp_path / "none", {})) as warehouse:
        assert changed_files(warehouse) == []


def test_a_changed_bit_is_found_and_mended_by_another_ingest(tmp_path: Path) -> None:
    """Readers take most of them for other values."""
    trace, root = write(tmp_path / "a.xplane.pb", tpu_trace()), str(tmp_path / "w")
    ingest_paths([trace], root)
    [path] = (tmp_path / "w" / "tables" / "ops").rglob("*.parquet")
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3] ^= 1
    path.write_bytes(raw)
    with Warehouse(root) as warehouse:
        (line,) = changed_files(warehouse)
    name = path.relative_to(tmp_path / "w")
    assert line.endswith(
        f"{name} is not as it was written: its bytes have changed; ingest the run again"
    )
    (again,) = ingest_paths([trace], root)
    assert not again.unchanged
    with Warehouse(root) as warehouse:
        assert changed_files(warehouse) == []
    assert ingest_paths([trace], root)[0].unchanged
