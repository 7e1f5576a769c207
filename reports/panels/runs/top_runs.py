"""The charts of the index where there are many runs: those that send most, and those that work longest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.panel import Figure, Panel
from xlahouse.reports.charts.units import plural
from xlahouse.reports.panels.runs import overview

# More bars are unreadable; the tables have every run.
MAX_RUNS = 20


def top_runs(rows: pl.DataFrame, metric: str, name: str) -> tuple[pl.DataFrame, str]:
    """Rows of the runs with the most of a metric, in the order of the page, and a sentence on the rest.

    Args:
        rows: several a run.
        metric: their column, added up over a run; a run with an unknown part is last.
        name: of the metric, for people.
    """
    whole = pl.when(pl.col(metric).has_nulls()).then(None).otherwise(pl.col(metric).sum())
    sums = rows.group_by("run_id", maintain_order=True).agg(whole.alias("whole"))
    if len(sums) <= MAX_RUNS:
        return rows, ""
    ranked = sums.sort("whole", descending=True, nulls_last=True, maintain_order=True)
    kept = ranked["run_id"].head(MAX_RUNS).to_list()
    order = {run: place for place, run in enumerate(kept)}
    note = f"The {MAX_RUNS} of {plural(len(sums), 'run')} with the most {name}."
    place = pl.col("run_id").replace_strict(order, return_dtype=pl.Int64)
    return rows.filter(pl.col("run_id").is_in(kept)).sort(place, maintain_order=True), note


def traffic_figures(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[Figure]:
    """One chart over the runs that send most."""
    shown, note = top_runs(rows, "wire_bytes", "wire bytes")
    return [replace(figure, note=note) for figure in overview.traffic_figures(shown, runs)]


def time_figures(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[Figure]:
    """One chart over the runs whose devices work longest."""
    shown, note = top_runs(rows, "window_ps", "time in steps, over devices")
    return [replace(figure, note=note) for figure in overview.time_figures(shown, runs)]


TRAFFIC: Panel[Sequence[PageFacts]] = replace(overview.TRAFFIC, figures=traffic_figures)
TIME: Panel[Sequence[PageFacts]] = replace(overview.TIME, figures=time_figures)
