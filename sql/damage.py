"""Finds the damaged rows of `runs`, one by one, after reading all rows at once has failed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pyarrow as pa

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.events.files import open_fs, read_parquet
from xlahouse.ingest.schema import BY_NAME
from xlahouse.ingest.store.run_index import row_path

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem


def damaged_rows(root: str, run_ids: Iterable[str]) -> dict[str, str]:
    """run_id -> the line on its damaged row, for rows that cannot be used."""
    system, path = open_fs(root)
    schema = BY_NAME["runs"].schema
    found = {}
    for run_id in run_ids:
        try:
            _check_row(system, f"{path.rstrip('/')}/{row_path(run_id)}", run_id, schema)
        except FileNotFoundError:
            continue  # dropped this moment: gone, not damaged
        except WarehouseError as error:
            found[run_id] = str(error)
    return found


def _check_row(system: AbstractFileSystem, name: str, run_id: str, schema: pa.Schema) -> None:
    """Refuse a file that is not one run's row of the schema's types; older rows may lack columns.

    Raises:
        WarehouseError: states the fault.
    """
    try:
        row = read_parquet(system, name)
    except FileNotFoundError:
        raise
    except Exception as error:  # of Parquet, or of the object store
        said = error.strerror if isinstance(error, OSError) else None
        said = (said or str(error).strip() or type(error).__name__).splitlines()[0]
        raise _damaged(name, said) from error
    for field in schema:
        if field.name not in row.column_names:
            continue
        kind = (
            row.schema.field(field.name).type if row.column_names.count(field.name) == 1 else None
        )
        if kind is None or not kind.equals(field.type):
            raise _damaged(name, f"{field.name} is {kind or 'there twice'}, not {field.type}")
    if row.num_rows != 1 or "run_id" not in row.column_names or row["run_id"][0].as_py() != run_id:
        raise _damaged(name, "it is not the row of this one run")
    files = row["files"][0].as_py() if "files" in row.column_names else None
    for file in files or ():
        if not str(file["path"]).startswith("tables/") or ".." in file["path"].split("/"):
            raise _damaged(name, f"it lists {file['path']}, which is not of this warehouse")


def _damaged(name: str, reason: str) -> WarehouseError:
    return WarehouseError(
        f"{name} is damaged ({reason}): its run is left out; remove the file and ingest the run again"
    )
