"""The metrics of two runs side by side."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from xlahouse.reports.charts.columns import count_column, metric_column, text_column
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.panel import Panel, TableColumn
from xlahouse.reports.charts.units import plural, show_exact
from xlahouse.reports.panels.runs.effects import show_effect
from xlahouse.reports.panels.runs.setups import virtual_note

SQL = """
select
    metric,
    value,
    other_value,
    value_ratio as effect_ratio,
    median,
    other_median,
    spread,
    runs,
    other_runs,
    verdict,
    differing,
    differing_count,
    is_repeat
from run_comparison_v2
where run_id = list_extract($runs, 1) and other_run_id = list_extract($runs, 2)
order by metric
"""

COLUMNS = (
    text_column("metric", "Metric"),
    metric_column("value", "First run"),
    metric_column("other_value", "Second run"),
    TableColumn("effect_ratio", "Effect", show_effect, show_exact),
    metric_column("median", "Median of its setup"),
    metric_column("other_median", "then"),
    metric_column("spread", "Spread"),
    count_column("runs", "Repeats"),
    count_column("other_runs", "then"),
    text_column("verdict", "Verdict"),
)


def verdict(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[str]:
    """In what the setups differ."""
    differing, count = rows.row(0, named=True)["differing"], rows["differing_count"][0]
    if rows["is_repeat"].all():
        return ["The runs are repeats of one setup: no verdict can favour one of them."]
    if not differing:
        return ["No setting of the runs is known to differ."]
    if count == 1:
        return [f"The setups differ in {differing}."]
    return [
        f"The setups differ in {count} things, {differing}: no difference can be attributed to one of them."
    ]


PANEL: Panel[Sequence[PageFacts]] = Panel(
    key="versus-metrics",
    title="Metrics of both runs",
    lede="Values of each run, and beside them the medians over the repeats of its setup. The verdict on the "
    "second run compares the medians; a time is inconclusive within the spread of the repeats, or where a "
    "setup has one run.",
    sql=SQL,
    columns=COLUMNS,
    figures=lambda rows, runs: [],
    coverage=lambda rows, runs: f"{plural(len(rows), 'metric')} that both runs have.",
    why_empty=lambda runs: "The runs have no metric in common.",
    verdict=verdict,
    notes=lambda rows, runs: virtual_note(runs),
)
