"""How long an axis of the mesh rests between two of its transfers on a device."""

from __future__ import annotations

import polars as pl

from xlahouse.reports.charts.distribution import DASHES, HIGH, LOW, curves
from xlahouse.reports.charts.facts import RunFacts
from xlahouse.reports.charts.palette import axis_colours
from xlahouse.reports.charts.panel import Column, Figure, Panel
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.units import plural, show_count, show_exact, show_ps, show_ratio

SUMMARY_SQL = """
select
    coalesce(phase, 'outside markers') as phase,
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
from traffic_interval_summary_v1
where run_id = $run
order by case phase when 'prefill' then 0 when 'decode' then 1 else 2 end, phase, axis
"""

# Ten bins a power of ten. Gaps of 0 and below (one transfer overlaps or touches the next) have no place
# on a log axis: one bin for all of them, first in order.
SPREAD_SQL = """
with binned as (
    select
        coalesce(phase, 'outside markers') as phase,
        axis,
        case when gap_ps > 0 then cast(floor(10 * log10(gap_ps)) as integer) end as bin,
        count(*) as gaps
    from traffic_interval_v1
    where run_id = $run and gap_ps is not null
    group by all
)
select
    phase,
    axis,
    pow(10, bin / 10.0) as low_ps,
    pow(10, (bin + 1) / 10.0) as high_ps,
    gaps as count,
    cast(sum(gaps) over (partition by phase, axis order by bin nulls first) as bigint) as up_to,
    cast(sum(gaps) over (partition by phase, axis) as bigint) as total,
    up_to / total as share
from binned
order by
    case phase when 'prefill' then 0 when 'decode' then 1 else 2 end,
    phase,
    axis,
    bin nulls first
"""

SUMMARY_COLUMNS = (
    Column("phase", "Phase", numeric=False),
    Column("axis", "Axis", numeric=False),
    Column("count", "Gaps", show_count),
    Column("overlapping_count", "Below 0", show_count),
    Column("crossing_count", "Across launches", show_count),
    Column("min_ps", "Least", show_ps, show_exact),
    Column("p50_ps", "p50", show_ps, show_exact),
    Column("mean_ps", "Mean", show_ps, show_exact),
    Column("p95_ps", "p95", show_ps, show_exact),
    Column("p99_ps", "p99", show_ps, show_exact),
    Column("max_ps", "Most", show_ps, show_exact),
)
SPREAD_COLUMNS = (
    Column("phase", "Phase", numeric=False),
    Column("axis", "Axis", numeric=False),
    LOW,
    HIGH,
    Column("count", "Gaps", show_count),
    Column("share", "Share so far", show_ratio, show_exact),
)


def spread_figures(rows: pl.DataFrame, facts: RunFacts) -> list[Figure]:
    """A chart of each phase, one curve an axis; phases whose gaps are all 0 or below have none."""
    drawn = []
    for phase in rows["phase"].unique(maintain_order=True):
        part = rows.filter(pl.col("phase") == phase)
        if part["high_ps"].null_count() == len(part):
            continue
        colours = axis_colours(part["axis"])
        totals = dict(part.select("axis", "total").unique().rows())
        names = {axis: f"{axis} ({plural(totals[axis], 'gap')})" for axis in colours}
        looks = {names[axis]: (colours[axis], DASHES[0]) for axis in colours}
        named = part.with_columns(pl.col("axis").replace_strict(names).alias("series"))
        title = f"{phase.capitalize()}: gaps between an axis' transfers"
        drawn.append(Figure(title, curves(named, "series", looks, "gaps", title), _overlap(part)))
    return drawn


def _overlap(part: pl.DataFrame) -> str:
    """What of a phase is not on a log axis, axis by axis."""
    below = part.filter(pl.col("high_ps").is_null())
    shares = [f"{row['axis']} {show_ratio(row['share'])}" for row in below.to_dicts()]
    return f"Overlapping or touching, so below the axis: {', '.join(shares)}." if shares else ""


def coverage(rows: pl.DataFrame, facts: RunFacts) -> str:
    """How many gaps of how many collectives."""
    collectives = plural(facts.row["collectives"], "collective")
    return (
        f"{total(rows, 'count'):,} gaps between {collectives}: the first of an axis on a device "
        f"has none before it; {facts.covered()}"
    )


def why_empty(facts: RunFacts) -> str:
    """Why there are no gaps."""
    if facts.row["traced_devices"] == 0:
        return "The trace holds no device events, so when its transfers ran is not known."
    if facts.row["collectives"] == 0:
        return "The trace holds no collectives, so there is no time between them."
    return "No axis has two transfers on a device, so there is no time between them."


def notes(rows: pl.DataFrame, facts: RunFacts) -> list[str]:
    """What these times are not."""
    if not facts.inferred:
        return []
    return ["On virtual devices the order of transfers is real, the time between them is not."]


SUMMARY: Panel[RunFacts] = Panel(
    key="gaps",
    title="Gaps within an axis, in numbers",
    lede="On one device, the time from the latest end of an axis' transfers so far to the start of its "
    "next one, counted to the phase of the later; below 0 they overlap.",
    sql=SUMMARY_SQL,
    columns=SUMMARY_COLUMNS,
    figures=lambda rows, facts: [],
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
SPREAD: Panel[RunFacts] = Panel(
    key="gap-spread",
    title="Distribution of gaps within an axis",
    lede="How many of an axis' gaps are at most so long. Where a curve rises steeply, many gaps have "
    "that length; where it is flat, none has.",
    sql=SPREAD_SQL,
    columns=SPREAD_COLUMNS,
    figures=spread_figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
