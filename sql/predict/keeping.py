"""Keeps what a prediction says about a measured run in a table of its own, beside the run's."""

from __future__ import annotations

import polars as pl

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.store.store import Store
from xlahouse.sql.predict.loading import Parent


def keep_rows(parent: Parent, table: str, rows: pl.DataFrame) -> None:
    """Write a table of a run, in place of earlier rows of that table.

    Raises:
        WarehouseError: the run is gone, or was ingested with a newer version.
    """
    store = Store(parent.warehouse.root)
    row = store.run_row(parent.row["run_id"])
    if row is None:
        raise WarehouseError(f"{parent.row['name']}: the run is gone; ingest it again")
    store.check_version(row)
    writer = store.begin(row["run_id"])
    try:
        writer.write(table, rows)
        writer.commit(row, kept=[file for file in row["files"] if file["table"] != table])
    except BaseException:
        writer.abandon()
        raise
