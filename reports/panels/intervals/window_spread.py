"""How windows between axes are distributed, transition by transition."""

from __future__ import annotations

import polars as pl

from xlahouse.reports.charts.distribution import HIGH, LOW, curves
from xlahouse.reports.charts.facts import RunFacts
from xlahouse.reports.charts.panel import Column, Figure, Panel
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.units import plural, show_count, show_exact, show_ratio
from xlahouse.reports.panels.intervals.transitions import (
    arrow,
    named,
    transition_looks,
    transition_notes,
)
from xlahouse.reports.panels.intervals.windows import why_empty

# Ten bins a power of ten; windows of 0 and below are one bin, first in order.
SQL = """
with binned as (
    select
        coalesce(phase, 'outside markers') as phase,
        from_axis,
        to_axis,
        case when window_ps > 0 then cast(floor(10 * log10(window_ps)) as integer) end as bin,
        count(*) as windows
    from traffic_window_v1
    where run_id = $run and scope = 'device'
    group by all
)
select
    phase,
    from_axis,
    to_axis,
    pow(10, bin / 10.0) as low_ps,
    pow(10, (bin + 1) / 10.0) as high_ps,
    windows as count,
    cast(
        sum(windows) over (partition by phase, from_axis, to_axis order by bin nulls first) as bigint
    ) as up_to,
    cast(sum(windows) over (partition by phase, from_axis, to_axis) as bigint) as total,
    up_to / total as share
from binned
order by
    case phase when 'prefill' then 0 when 'decode' then 1 else 2 end,
    phase,
    from_axis,
    to_axis,
    bin nulls first
"""

COLUMNS = (
    Column("phase", "Phase", numeric=False),
    Column("from_axis", "From axis", numeric=False),
    Column("to_axis", "To axis", numeric=False),
    LOW,
    HIGH,
    Column("count", "Windows", show_count),
    Column("share", "Share so far", show_ratio, show_exact),
)


def figures(rows: pl.DataFrame, facts: RunFacts) -> list[Figure]:
    """A chart of each phase, one curve a transition."""
    drawn = []
    for phase in rows["phase"].unique(maintain_order=True):
        part = rows.filter(pl.col("phase") == phase)
        if part["high_ps"].null_count() == len(part):
            continue
        totals = {row[:2]: row[2] for row in part.select("from_axis", "to_axis", "total").rows()}
        names = {
            pair: f"{arrow(*pair)} ({plural(totals[pair], 'window')})"
            for pair in transition_looks(part)
        }
        looks = {names[pair]: look for pair, look in transition_looks(part).items()}
        title = f"{phase.capitalize()}: windows between axes, on each device"
        chart = curves(named(part, names), "series", looks, "windows", title)
        drawn.append(Figure(title, chart, _overlap(part)))
    return drawn


def coverage(rows: pl.DataFrame, facts: RunFacts) -> str:
    """How many windows are drawn."""
    return f"{plural(total(rows, 'count'), 'window')} on traced devices; {facts.covered()}"


def _overlap(part: pl.DataFrame) -> str:
    """What of a phase is not on a log axis, transition by transition."""
    shares = [
        f"{arrow(row['from_axis'], row['to_axis'])} {show_ratio(row['share'])}"
        for row in part.filter(pl.col("high_ps").is_null()).to_dicts()
    ]
    return f"Of 0 or below (the axes overlap or touch): {', '.join(shares)}." if shares else ""


PANEL: Panel[RunFacts] = Panel(
    key="window-spread",
    title="Distribution of windows between axes",
    lede="How many of a transition's windows are at most so long. A line has the colour of the axis that "
    "follows.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=transition_notes,
)
