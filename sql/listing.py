"""Which files belong to a warehouse: the one place that looks at its folders."""

from __future__ import annotations

import json
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.schema import BY_NAME, LAYOUT_VERSION
from xlahouse.ingest.settings import read_settings
from xlahouse.sql.library import RUN_SETTINGS


def read_runs(root: str) -> pa.Table:
    """All rows of `runs`, oldest capture first, with every column of its schema.

    Raises:
        WarehouseError: there is no warehouse, a newer xlahouse wrote it, or a row is unreadable.
    """
    system, path = fsspec.core.url_to_fs(root)
    _check_layout(system, path, root)
    schema = BY_NAME["runs"].schema
    folder = f"{path.rstrip('/')}/tables/runs"
    if not system.isdir(folder):
        return schema.empty_table()
    found = [name for name in sorted(system.ls(folder, detail=False)) if name.endswith(".parquet")]
    tables = [_read_row(system, name, schema) for name in found]
    runs = pa.concat_tables([schema.empty_table(), *tables])
    return runs.sort_by([("captured_at", "ascending"), ("run_id", "ascending")])


def _check_layout(system: Any, path: str, root: str) -> None:
    try:
        text = system.cat_file(f"{path.rstrip('/')}/warehouse.json")
    except (FileNotFoundError, NotADirectoryError):
        raise WarehouseError(
            f"{root} is not a warehouse: it has no warehouse.json; make one with "
            f"`xlahouse ingest TRACES -w {root}`, or name another with -w"
        ) from None
    try:
        version = int(json.loads(text)["layout_version"])
    except (ValueError, KeyError, TypeError) as error:
        raise WarehouseError(
            f"{root}/warehouse.json has no layout_version; restore the file, or ingest anew"
        ) from error
    if version > LAYOUT_VERSION:
        raise WarehouseError(
            f"{root} has layout {version}; this xlahouse knows up to {LAYOUT_VERSION}: upgrade it"
        )


def _read_row(system: Any, name: str, schema: pa.Schema) -> pa.Table:
    """One run's row; columns that an older ingest did not write are NULL."""
    try:
        with system.open(name, "rb") as file:
            row = pq.read_table(file)
    except (OSError, pa.ArrowException) as error:
        raise WarehouseError(f"{name} is damaged ({error}); ingest the run again") from error
    absent = [field for field in schema if field.name not in row.column_names]
    for field in absent:
        row = row.append_column(field, pa.nulls(row.num_rows, field.type))
    return row.select(schema.names).cast(schema)


def files_by_table(root: str, runs: pa.Table) -> dict[str, list[str]]:
    """Table -> its files, as DuckDB opens them, from what the runs list and nothing else."""
    base = root.rstrip("/")
    found: dict[str, list[str]] = {}
    for files in runs.column("files").to_pylist():
        for file in files or ():
            if file["rows"]:
                found.setdefault(file["table"], []).append(f"{base}/{file['path']}")
    return found


def read_run_settings(root: str, run_ids: list[str]) -> pa.Table:
    """The relation run_settings: a row for each run for which something was set."""
    system, path = fsspec.core.url_to_fs(root)
    folder = f"{path.rstrip('/')}/settings"
    schema = RUN_SETTINGS.schema
    if not system.isdir(folder):
        return schema.empty_table()
    kept = {name.rpartition("/")[2] for name in system.ls(folder, detail=False)}
    rows = []
    for run_id in run_ids:
        if f"{run_id}.json" in kept:
            settings = read_settings(root, run_id)
            mesh = None
            if settings.mesh is not None:
                mesh = [{"axis": axis.axis, "size": axis.size} for axis in settings.mesh]
            rows.append({"run_id": run_id, "mesh": mesh, "device_kind": settings.device_kind})
    return pa.Table.from_pylist(rows, schema=schema)
