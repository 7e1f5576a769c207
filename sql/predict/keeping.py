"""Keeps what a prediction says about a run in tables of its own, beside the run's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import polars as pl

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.store.store import Store

if TYPE_CHECKING:
    from xlahouse.ingest.table import RunRow
    from xlahouse.sql.warehouse import Warehouse


def keep_rows(warehouse: Warehouse, run: RunRow, tables: Mapping[str, pl.DataFrame]) -> None:
    """Write tables of a run, in place of earlier rows of these tables.

    Raises:
        WarehouseError: the run is gone, or was ingested with a newer version.
    """
    store = Store(warehouse.root)
    row = store.run_row(run["run_id"])
    if row is None:
        raise WarehouseError(f"{run['name']}: the run is gone; ingest it again")
    store.check_version(row)
    writer = store.begin(row["run_id"])
    try:
        for table, rows in tables.items():
            writer.write(table, rows)
        writer.commit(row, kept=[file for file in row["files"] if file["table"] not in tables])
    except BaseException:
        writer.abandon()
        raise
