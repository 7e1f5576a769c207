"""Which files belong to a warehouse: the one place that looks at its folders."""

from __future__ import annotations

import json
from typing import Any

import fsspec
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.schema import BY_NAME, LAYOUT_VERSION
from xlahouse.ingest.settings import read_settings


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
    rows = [_read_row(system, name, schema) for name in found]
    # Sorted here: Arrow's own sort, like its data sets, takes long to load.
    return pa.concat_tables([schema.empty_table(), *sorted(rows, key=_age)])


def _age(row: pa.Table) -> tuple[bool, Any, str]:
    """By capture, runs of unknown date last."""
    captured_at, run_id = row["captured_at"][0].as_py(), row["run_id"][0].as_py()
    return captured_at is None, captured_at, run_id


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
            row = pq.ParquetFile(file).read()
    except (OSError, pa.ArrowException) as error:
        raise WarehouseError(f"{name} is damaged ({error}); ingest the run again") from error
    if row.num_rows != 1 or "run_id" not in row.column_names:
        raise WarehouseError(f"{name} is damaged (it is not one run's row); ingest the run again")
    absent = [field for field in schema if field.name not in row.column_names]
    for field in absent:
        row = row.append_column(field, pa.nulls(row.num_rows, field.type))
    row = row.select(schema.names)
    return row if row.schema.equals(schema) else row.cast(schema)


def files_by_table(root: str, runs: pa.Table) -> dict[str, list[str]]:
    """Table -> its files, as DuckDB opens them, from what the runs list and nothing else."""
    system, path = fsspec.core.url_to_fs(root)
    base = (system.unstrip_protocol(path) if "://" in root else root).rstrip("/")
    found: dict[str, list[str]] = {}
    for run_id in runs.column("run_id").to_pylist():
        found.setdefault("runs", []).append(f"{base}/tables/runs/{run_id}.parquet")
    for files in runs.column("files").to_pylist():
        for file in files or ():
            if file["rows"]:
                found.setdefault(file["table"], []).append(f"{base}/{file['path']}")
    return found


def read_run_settings(root: str, run_ids: list[str]) -> list[tuple[Any, ...]]:
    """Rows of the relation run_settings: one for each run for which something was set."""
    system, path = fsspec.core.url_to_fs(root)
    folder = f"{path.rstrip('/')}/settings"
    if not system.isdir(folder):
        return []
    kept = {name.rpartition("/")[2] for name in system.ls(folder, detail=False)}
    rows = []
    for run_id in run_ids:
        if f"{run_id}.json" in kept:
            settings = read_settings(root, run_id)
            mesh = None if settings.mesh is None else msgspec.to_builtins(settings.mesh)
            rows.append((run_id, mesh, settings.device_kind))
    return rows
