"""What hosts did while devices had no launch, by activity and by event."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import NAMED_STEP, percent
from xlahouse.reports.charts.columns import (
    PHASE_COLUMN,
    count_column,
    ps_column,
    ratio_column,
    text_column,
)
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.palette import CLOCK_COLOURS
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.phases import PHASE, by_phase, phase_order
from xlahouse.reports.charts.theme import finish
from xlahouse.reports.charts.units import PICOSECONDS, plural, suit

NO_EVENT = "(no event)"
SQL = f"""
with named as (
    select *, {PHASE} as phase_name
    from host_gap_v1
    where run_id = $run
),
counted as (
    select {PHASE} as phase_name, count(distinct (g.device_id, g.start_ps)) as all_gaps
    from host_gaps as g
    inner join launches as l using (run_id, device_id, launch)
    where g.run_id = $run
    group by all
)
select
    phase_name as phase, activity, coalesce(name, '{NO_EVENT}') as name, gap_count, event_count, overlap_ps,
    self_ps, gap_ratio, mean_self_ps, all_gaps
from named
inner join counted using (phase_name)
order by {phase_order("phase_name")}, self_ps desc, name
"""

COLUMNS = (
    PHASE_COLUMN,
    text_column("activity", "Activity"),
    text_column("name", "Event of the enqueuing thread"),
    count_column("gap_count", "Gaps"),
    count_column("event_count", "Events"),
    ps_column("overlap_ps", "Open"),
    ps_column("self_ps", "Innermost"),
    ratio_column("gap_ratio", "Of all gaps"),
    ps_column("mean_self_ps", "A gap"),
)


def activity_chart(rows: pl.DataFrame, phase: str) -> alt.Chart:
    """Share of a phase's gaps by activity.

    Args:
        rows: rows of SQL of one phase.
        phase: its name, for screen readers.
    """
    data = (
        rows.group_by("activity")
        .agg(pl.col("gap_ratio").sum(), pl.col("self_ps").sum())
        .filter(pl.col("self_ps") > 0)
        .sort("self_ps", "activity", descending=[True, False])
    )
    chart = (
        alt.Chart(inline(data))
        .mark_bar(cornerRadius=1, color=CLOCK_COLOURS["trace"])
        .encode(
            y=alt.Y("activity:N", title=None, sort=None),
            x=percent("gap_ratio", "Of the time between launches"),
            tooltip=[
                alt.Tooltip("activity:N", title="activity"),
                alt.Tooltip("gap_ratio:Q", title="of the gaps", format=".1%"),
                alt.Tooltip("self_ps:Q", title="time, ps", format=","),
            ],
        )
    )
    return finish(chart, f"Activity of hosts between launches, {phase}", NAMED_STEP * len(data))


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """A chart for each phase."""
    return [
        Figure(f"Activity of hosts between launches, {phase}", activity_chart(part, phase))
        for phase, part in by_phase(rows)
    ]


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many gaps there are."""
    phases = rows.unique("phase", maintain_order=True)
    return f"{plural(int(phases['all_gaps'].sum()), 'gap')} longer than 10 µs."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """How late each phase's launches are."""
    found = []
    for phase, part in by_phase(rows):
        mean = part["self_ps"].sum() / part["all_gaps"][0]
        unit = suit([mean], PICOSECONDS)
        top = part.sort("self_ps", descending=True).row(0, named=True)
        found.append(
            f"{phase}: {mean / unit.factor:.3g} {unit.symbol} before a launch, on average; the largest "
            f"part is {top['activity']}: {top['name']}, {100 * top['gap_ratio']:.0f} %."
        )
    return found


def why_empty(facts: PageFacts) -> str:
    """Why there is no row."""
    if facts.inferred:
        return "Virtual devices run on the host itself: it is not late for them."
    return "No launch of a device follows its previous one by more than 10 µs."


PANEL: Panel[PageFacts] = Panel(
    key="host-gaps",
    title="What hosts did between launches",
    lede="While no launch is open on a device, its host is late. Each instant of the thread that "
    "enqueued the next launch belongs to its innermost event; a thread that only passes launches "
    "on mostly has none. Time between requests is left out.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
