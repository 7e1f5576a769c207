"""Builds small warehouses from rows given as mappings; columns that are not given are NULL."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.device_steps import with_device_steps
from xlahouse.ingest.schema import BY_NAME, INGEST_VERSION, LAYOUT_VERSION

Rows = Mapping[str, Sequence[Mapping[str, Any]]]


def write_warehouse(root: Path, tables: Rows) -> Path:
    """A warehouse at `root` that holds the rows, laid out as ingest does.

    `run_id` is `r` where a row has none; every run that a row names gets a row in `runs`. The
    pseudo-table `run_settings` becomes the settings files. The table `device_steps` is made from ops
    and busy intervals, as ingest makes it, unless it is given.
    """
    root.mkdir(parents=True, exist_ok=True)
    marker = {"layout_version": LAYOUT_VERSION, "xlahouse_version": "0"}
    (root / "warehouse.json").write_text(json.dumps(marker))
    tables = with_device_steps(tables)
    rows = {name: [{"run_id": "r", **row} for row in given] for name, given in tables.items()}
    for row in rows.pop("run_settings", []):
        _write_settings(root, row)
    runs = {row["run_id"]: row for row in rows.pop("runs", [])}
    for given in rows.values():
        for row in given:
            runs.setdefault(row["run_id"], {"run_id": row["run_id"]})
    by_run = {name: _by_run(name, given) for name, given in rows.items()}
    for run_id, run in (runs or {"r": {"run_id": "r"}}).items():
        held = {name: given[run_id] for name, given in by_run.items() if run_id in given}
        files = [_write(root, name, run_id, mine) for name, mine in held.items()]
        row = {"name": run_id, "ingest_version": INGEST_VERSION, **run, "files": files}
        path = root / "tables" / "runs" / f"{run_id}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist([row], BY_NAME["runs"].schema), path)
    return root


def _by_run(table: str, rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """run_id -> its rows of a table, all of whose columns exist."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        unknown = set(row) - set(BY_NAME[table].schema.names)
        assert not unknown, f"{table} has no column {unknown}"
        found.setdefault(row["run_id"], []).append(row)
    return found


def _write(root: Path, table: str, run_id: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    path = root / "tables" / table / f"run_id={run_id}" / "part-0.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, BY_NAME[table].schema), path)
    return {"table": table, "path": str(path.relative_to(root)), "rows": len(rows)}


def _write_settings(root: Path, row: dict[str, Any]) -> None:
    path = root / "settings" / f"{row['run_id']}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({key: value for key, value in row.items() if key != "run_id"}))
