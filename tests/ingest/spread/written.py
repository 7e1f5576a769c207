"""What an ingest wrote, whatever the names of its files."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq


def written(root: Path | str) -> dict[str, Any]:
    """Table -> its rows of `runs`, or the bytes of its files by run and part, hashed."""
    found: dict[str, Any] = {}
    for table in sorted((Path(root) / "tables").iterdir()):
        if table.name == "runs":
            rows = [
                row for file in table.rglob("*.parquet") for row in pq.read_table(file).to_pylist()
            ]
            found["runs"] = sorted((_plain(row) for row in rows), key=lambda row: row["run_id"])
        else:
            found[table.name] = {
                (file.parent.name, file.stem.split("-")[1]): sha256(file.read_bytes()).hexdigest()
                for file in table.rglob("*.parquet")
            }
    return found


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row without when it was written, and the names of its files."""
    files = sorted((file["table"], file["rows"]) for file in row["files"])
    return row | {"ingested_at": None, "files": files}


def strays(root: Path | str) -> list[str]:
    """Files of tables that no run's row lists."""
    tables = Path(root) / "tables"
    rows = [
        row
        for file in (tables / "runs").rglob("*.parquet")
        for row in pq.read_table(file).to_pylist()
    ]
    listed = {file["path"] for row in rows for file in row["files"]}
    there = {str(file.relative_to(root)) for file in tables.rglob("*.parquet")}
    return sorted(path for path in there - listed if not path.startswith("tables/runs/"))
