"""How long a mesh axis is idle between two of its transfers on a device."""

from __future__ import annotations

import polars as pl

from xlahouse.reports.charts.columns import (
    AXIS_COLUMN,
    PHASE_COLUMN,
    SUMMARY_COLUMNS,
    count_column,
    ratio_column,
)
from xlahouse.reports.charts.distribution import DASHES, HIGH, LOW, bins_sql, curves, overlap_note
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.palette import axis_colours
from xlahouse.reports.charts.panel import Figure, Panel
from xlahouse.reports.charts.phases import PHASE, by_phase, phase_order
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.units import plural

GAP_SUMMARY_SQL = f"""
select
    {PHASE} as phase,
    axis,
    count,
    crossing_count,
    overlapping_count,
    mean_ps,
    min_ps,
    p50_ps,
    p95_ps,
    p99_ps,
    max_ps
from traffic_interval_summary_v2
where run_id = $run
order by {phase_order()}, axis
"""

GAP_SPREAD_SQL = bins_sql("traffic_interval_v1", "gap_ps", "axis", "gap_ps is not null")

GAP_SUMMARY_COLUMNS = (
    PHASE_COLUMN,
    AXIS_COLUMN,
    count_column("count", "Gaps"),
    count_column("overlapping_count", "Below 0"),
    count_column("crossing_count", "Across launches"),
    *SUMMARY_COLUMNS,
)
GAP_SPREAD_COLUMNS = (
    PHASE_COLUMN,
    AXIS_COLUMN,
    LOW,
    HIGH,
    count_column("count", "Gaps"),
    ratio_column("share", "Cumulative share"),
)


def spread_figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """A chart of each phase, one curve an axis; phases whose gaps are all 0 or below have none."""
    drawn = []
    for phase, part in by_phase(rows):
        if part["high_ps"].null_count() == len(part):
            continue
        colours = axis_colours(part["axis"])
        totals = dict(part.select("axis", "total").unique().rows())
        names = {axis: f"{axis} ({plural(totals[axis], 'gap')})" for axis in colours}
        looks = {names[axis]: (colours[axis], DASHES[0]) for axis in colours}
        named = part.with_columns(pl.col("axis").replace_strict(names).alias("series"))
        title = f"{phase.capitalize()}: gaps between an axis's transfers"
        drawn.append(
            Figure(
                title,
                curves(named, "series", looks, "gaps", title),
                overlap_note(part, lambda row: row["axis"]),
            )
        )
    return drawn


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many gaps of how many collectives."""
    collectives = plural(facts.row["collectives"], "collective")
    return (
        f"{total(rows, 'count'):,} gaps between {collectives}: the first transfer of an axis "
        f"on a device has no gap before it."
    )


def why_empty(facts: PageFacts) -> str:
    """Why there are no gaps."""
    if not facts.traced:
        return "The trace has no device events, so when its transfers ran is not known."
    if facts.row["collectives"] == 0:
        return "The trace has no collectives, so there is no time between them."
    return "No axis has two transfers on a device, so there is no time between them."


SUMMARY: Panel[PageFacts] = Panel(
    key="gaps",
    title="Gaps within an axis, in numbers",
    lede="On one device, the time from the latest end of an axis's transfers so far to the "
    "start of its next transfer. A gap has the phase of that transfer. Below 0, transfers overlap.",
    sql=GAP_SUMMARY_SQL,
    columns=GAP_SUMMARY_COLUMNS,
    figures=lambda rows, facts: [],
    coverage=coverage,
    why_empty=why_empty,
)
SPREAD: Panel[PageFacts] = Panel(
    key="gap-spread",
    title="Distribution of gaps within an axis",
    lede="Share of an axis's gaps up to each length. Where a curve is steep, many gaps have "
    "that length; where it is flat, no gap has.",
    sql=GAP_SPREAD_SQL,
    columns=GAP_SPREAD_COLUMNS,
    figures=spread_figures,
    coverage=coverage,
    why_empty=why_empty,
)
