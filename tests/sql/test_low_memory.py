"""Where memory runs out, no file is called damaged."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from xlahouse.capture.errors import LowMemoryError
from xlahouse.sql.blame import blame_file
from xlahouse.sql.damage import damaged_rows


def test_no_file_is_damaged_where_memory_ran_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large(*_: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    monkeypatch.setattr("xlahouse.sql.damage.read_parquet", too_large)
    with pytest.raises(LowMemoryError):
        damaged_rows(str(tmp_path), ["a" * 12])
    error = duckdb.OutOfMemoryException(
        "Out of Memory Error: Failed to allocate block of 8192 bytes"
    )
    assert isinstance(blame_file(error, "ops.parquet"), LowMemoryError)
