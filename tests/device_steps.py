"""Fills the table device_steps of small warehouses from their ops and busy intervals, as ingest does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from xlahouse.ingest.device_steps import device_steps

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
_INTEGERS = ("device_id", "request", "step", "start_ps", "duration_ps")
_TEXTS = ("run_id", "phase", "category")


def with_device_steps(tables: Rows) -> dict[str, Sequence[Mapping[str, Any]]]:
    """The tables and device_steps, where they have ops and do not give it themselves."""
    if "device_steps" in tables or not tables.get("ops"):
        return dict(tables)
    ops, busy = (_frame(tables.get(name, ())) for name in ("ops", "busy_intervals"))
    spans = ops.filter(pl.col("category") != "control").with_columns(
        end_ps=pl.col("start_ps") + pl.col("duration_ps")
    )
    rows = [
        {"run_id": run_id, **row}
        for run_id in spans["run_id"].unique(maintain_order=True)
        for row in device_steps(*(each.filter(run_id=run_id) for each in (spans, busy))).to_dicts()
    ]
    return {**tables, "device_steps": rows}


def _frame(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    schema = dict.fromkeys(_INTEGERS, pl.Int64) | dict.fromkeys(_TEXTS, pl.String)
    given = [{name: row.get(name) for name in schema} for row in rows]
    return pl.DataFrame(given, schema=schema).with_columns(pl.col("run_id").fill_null("r"))
