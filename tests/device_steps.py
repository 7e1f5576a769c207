"""Fills device_steps and busy_stretches of small warehouses from their other tables, as ingest does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from xlahouse.ingest.events.spans import merge_spans
from xlahouse.ingest.tables.device_steps import split_steps
from xlahouse.ingest.tables.stretches import busy_stretches, inside_windows

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
_INTEGERS = ("device_id", "request", "step", "start_ps", "duration_ps")
_TEXTS = ("run_id", "phase", "category")


def with_device_steps(tables: Rows) -> dict[str, Sequence[Mapping[str, Any]]]:
    """The tables, with device_steps of ops and busy_stretches of steps for runs that are not given any."""
    given = {name: list(tables.get(name, ())) for name in ("device_steps", "busy_stretches")}
    has_steps, has_stretches = (set(map(_run, rows)) for rows in given.values())
    ops = [row for row in tables.get("ops", ()) if _run(row) not in has_steps]
    steps, stretches = _split({**tables, "ops": ops})
    stretches += _stretches(tables)
    made = {
        "device_steps": given["device_steps"] + steps,
        "busy_stretches": given["busy_stretches"]
        + [row for row in stretches if row["run_id"] not in has_stretches],
    }
    return {**tables, **{name: rows for name, rows in made.items() if rows}}


def _run(row: Mapping[str, Any]) -> str:
    return str(row.get("run_id") or "r")


def both_tables(
    spans: pl.DataFrame, busy: pl.DataFrame, launches: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """device_steps and busy_stretches of a run, without run_id."""
    split = split_steps(spans, busy)
    return split.table, busy_stretches(split.windows, split.busy, launches)


def _split(tables: Rows) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    ops, *rest = (_frame(tables.get(name, ())) for name in ("ops", "busy_intervals", "launches"))
    spans = ops.filter(pl.col("category") != "control").with_columns(
        end_ps=pl.col("start_ps") + pl.col("duration_ps")
    )
    steps, stretches = [], []
    of_run = [_by_run(each) for each in (spans, *rest)]
    for run_id in spans["run_id"].unique(maintain_order=True):
        mine = (runs.get(run_id, runs[None]) for runs in of_run)
        for rows, table in zip((steps, stretches), both_tables(*mine), strict=True):
            rows += [{"run_id": run_id, **row} for row in table.to_dicts()]
    return steps, stretches


def _stretches(tables: Rows) -> list[dict[str, Any]]:
    steps, busy, launches = (
        _frame(tables.get(name, ())) for name in ("device_steps", "busy_intervals", "launches")
    )
    rows = []
    steps = steps.with_columns(end_ps=pl.col("start_ps") + pl.col("duration_ps"))
    windows_of, launches_of = _by_run(steps), _by_run(launches)
    busy_of = _by_run(busy.filter(pl.col("category") != "masked"))
    for run_id in steps["run_id"].unique(maintain_order=True):
        windows = windows_of[run_id].with_row_index("number")
        inside = inside_windows(windows, busy_of.get(run_id, busy_of[None]))
        merged = merge_spans(*inside.spans)
        found = busy_stretches(windows, merged, launches_of.get(run_id, launches_of[None]))
        rows += [{"run_id": run_id, **row} for row in found.to_dicts()]
    return rows


def _by_run(frame: pl.DataFrame) -> dict[str | None, pl.DataFrame]:
    """Run -> its rows, in their order; None -> no rows, as of a run that has none."""
    parts = frame.partition_by("run_id", maintain_order=True, as_dict=True)
    return {None: frame.clear(), **{str(run_id): rows for (run_id,), rows in parts.items()}}


def _frame(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    schema = dict.fromkeys(_INTEGERS, pl.Int64) | dict.fromkeys(_TEXTS, pl.String)
    given = [{name: row.get(name) for name in schema} for row in rows]
    return pl.DataFrame(given, schema=schema).with_columns(pl.col("run_id").fill_null("r"))
