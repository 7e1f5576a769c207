"""Which files belong to a warehouse: the one place that looks at its folders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from xlahouse.capture.errors import WarehouseError, XlahouseError
from xlahouse.ingest.files import open_fs
from xlahouse.ingest.schema import BY_NAME, LAYOUT_VERSION
from xlahouse.ingest.settings import Peaks, read_settings


@dataclass(frozen=True)
class Listing:
    """The rows of `runs`, oldest capture first, and a line for each row that cannot be read."""

    runs: pa.Table
    damaged: tuple[str, ...]


def read_runs(root: str) -> Listing:
    """All runs, with every column of their schema; a damaged row costs its own run and no other.

    Raises:
        WarehouseError: there is no warehouse, it cannot be read, or a newer xlahouse wrote it.
    """
    system, path = open_fs(root)
    schema = BY_NAME["runs"].schema
    folder = f"{path.rstrip('/')}/tables/runs"
    rows, damaged = [], []
    with _reading(root):
        _check_layout(system, path, root)
        names = sorted(system.ls(folder, detail=False)) if system.isdir(folder) else []
    for name in names:
        if name.endswith(".parquet"):
            try:
                rows.append(_read_row(system, name, schema))
            except WarehouseError as error:
                damaged.append(str(error))
    # Sorted here: Arrow's own sort, like its data sets, takes long to load.
    runs = pa.concat_tables([schema.empty_table(), *sorted(rows, key=_age)])
    return Listing(runs, tuple(damaged))


@contextmanager
def _reading(root: str) -> Iterator[None]:
    """Whatever a file system raises inside comes out as ours: each has its own errors."""
    try:
        yield
    except XlahouseError:
        raise
    except OSError as error:
        where = error.filename or root
        raise WarehouseError(
            f"{where} cannot be read: {error.strerror or error}; see what it is and who may read it"
        ) from error
    except Exception as error:
        raise WarehouseError(f"{root} cannot be read: {_one_line(error)}; try again") from error


def _one_line(error: Exception) -> str:
    said = error.strerror if isinstance(error, OSError) else None
    return (said or str(error).strip() or type(error).__name__).splitlines()[0]


def _age(row: pa.Table) -> tuple[bool, int, str]:
    """By capture, runs of unknown date last; as a number, since years may be beyond Python's."""
    captured_at, run_id = row["captured_at"][0], row["run_id"][0].as_py()
    return not captured_at.is_valid, captured_at.value or 0, run_id


def _check_layout(system: Any, path: str, root: str) -> None:
    try:
        text = system.cat_file(f"{path.rstrip('/')}/warehouse.json")
    except (FileNotFoundError, NotADirectoryError):
        raise WarehouseError(
            f"{root} is not a warehouse: it has no warehouse.json; make one with "
            f"`xlahouse ingest TRACES -w {root}`, or name another with -w"
        ) from None
    version = _layout_version(text)
    if version is None:
        raise WarehouseError(
            f"{root}/warehouse.json has no layout_version; restore the file, or ingest anew"
        )
    if version > LAYOUT_VERSION:
        raise WarehouseError(
            f"{root} has layout {version}; this xlahouse knows up to {LAYOUT_VERSION}: upgrade it"
        )


def _layout_version(text: bytes) -> int | None:
    try:
        version = msgspec.json.decode(text, type=dict[str, Any])["layout_version"]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
        return None
    return version if type(version) is int and version > 0 else None


def _read_row(system: Any, name: str, schema: pa.Schema) -> pa.Table:
    """One run's row; columns that an older ingest did not write are NULL.

    Raises:
        WarehouseError: it is not one run's row, of the types of the schema.
    """
    try:
        with system.open(name, "rb") as file:
            row = pq.ParquetFile(file).read()
    except Exception as error:  # those of Parquet, and of whatever store it lies in
        raise _damaged(name, _one_line(error)) from error
    present = [field for field in schema if field.name in row.column_names]
    for field in present:
        found = row.schema.field(field.name).type
        if row.column_names.count(field.name) > 1 or not found.equals(field.type):
            raise _damaged(name, f"{field.name} is {found}, not {field.type}")
    run_id = name.rpartition("/")[2].removesuffix(".parquet")
    if row.num_rows != 1 or "run_id" not in row.column_names or row["run_id"][0].as_py() != run_id:
        raise _damaged(name, "it is not the row of this one run")
    for field in schema:
        if field not in present:
            row = row.append_column(field, pa.nulls(row.num_rows, field.type))
    row = row.select(schema.names)
    row = row if row.schema.equals(schema) else row.cast(schema)
    for file in row["files"][0].as_py() or ():
        if not str(file["path"]).startswith("tables/") or ".." in file["path"].split("/"):
            raise _damaged(name, f"it lists {file['path']}, which is not of this warehouse")
    return row


def _damaged(name: str, reason: str) -> WarehouseError:
    return WarehouseError(
        f"{name} is damaged ({reason}): its run is left out; remove the file and ingest the run again"
    )


def files_by_table(root: str, runs: pa.Table) -> dict[str, list[str]]:
    """Table -> its files, as DuckDB opens them, from what the runs list and nothing else."""
    system, path = open_fs(root)
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
    """Rows of the relation run_settings: one for each run for which something was set.

    Raises:
        WarehouseError: a settings file is not valid, or cannot be read.
    """
    system, path = open_fs(root)
    folder = f"{path.rstrip('/')}/settings"
    rows = []
    with _reading(root):
        found = system.ls(folder, detail=False) if system.isdir(folder) else []
        kept = {name.rpartition("/")[2] for name in found}
        for run_id in run_ids:
            if f"{run_id}.json" in kept:
                settings = read_settings(root, run_id)
                mesh = None if settings.mesh is None else msgspec.to_builtins(settings.mesh)
                peaks = settings.peaks or Peaks()
                numbers = (peaks.bf16_flops, peaks.hbm_bytes_per_s, peaks.ici_bytes_per_s)
                rows.append((run_id, mesh, settings.device_kind, *numbers))
    return rows
