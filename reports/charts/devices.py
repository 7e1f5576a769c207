"""How many devices a chart with a bar for each device shows."""

from __future__ import annotations

import polars as pl

from xlahouse.reports.charts.units import plural

# More bars are unreadable; the table and the SQL have every device.
MAX_DEVICES = 64


def first_devices(rows: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Rows of the first MAX_DEVICES devices, and, after a space, a sentence on the devices left out."""
    devices = rows["device_id"].unique(maintain_order=True)
    if len(devices) <= MAX_DEVICES:
        return rows, ""
    kept = pl.col("device_id").is_in(devices.head(MAX_DEVICES).to_list())
    note = f" The first {MAX_DEVICES} of {plural(len(devices), 'device')} are drawn."
    return rows.filter(kept), note
