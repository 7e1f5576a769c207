"""Finds the files of runs that are not as their ingest wrote them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlahouse.ingest.store.store import Store

if TYPE_CHECKING:
    from xlahouse.sql.warehouse import Warehouse


def changed_files(warehouse: Warehouse) -> list[str]:
    """A line for each file of a run that is gone or damaged, or has other rows than its ingest wrote.

    Raises:
        WarehouseError: the warehouse cannot be read.
    """
    store = Store(warehouse.root)
    listed = "select coalesce(name, run_id) as run, files from runs order by run, run_id"
    return [
        f"{row['run']}: {file['path']} is not as it was written: {fault}; drop the run and ingest it again"
        for row in warehouse.query(listed).dicts()
        for file in row["files"] or ()
        if (fault := store.fault_of(file))
    ]
