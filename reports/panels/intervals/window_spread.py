"""How windows between axes are distributed, transition by transition."""

from __future__ import annotations

import polars as pl

from xlahouse.reports.charts.columns import (
    FROM_AXIS_COLUMN,
    PHASE_COLUMN,
    TO_AXIS_COLUMN,
    count_column,
    ratio_column,
)
from xlahouse.reports.charts.distribution import HIGH, LOW, bins_sql, curves, overlap_note
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.panel import Figure, Panel
from xlahouse.reports.charts.phases import by_phase
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.units import plural
from xlahouse.reports.panels.intervals.transitions import (
    arrow,
    named,
    transition_looks,
    transition_notes,
)
from xlahouse.reports.panels.intervals.windows import why_empty

SQL = bins_sql("traffic_window_v2", "window_ps", "from_axis, to_axis", "scope = 'device'")

COLUMNS = (
    PHASE_COLUMN,
    FROM_AXIS_COLUMN,
    TO_AXIS_COLUMN,
    LOW,
    HIGH,
    count_column("count", "Windows"),
    ratio_column("share", "Cumulative share"),
)


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """A chart of each phase, one curve a transition."""
    drawn = []
    for phase, part in by_phase(rows):
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
        note = overlap_note(part, lambda row: arrow(row["from_axis"], row["to_axis"]))
        drawn.append(Figure(title, chart, note))
    return drawn


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many windows are drawn."""
    return f"{plural(total(rows, 'count'), 'window')} on traced devices."


PANEL: Panel[PageFacts] = Panel(
    key="window-spread",
    title="Distribution of windows between axes",
    lede="Share of a transition's windows up to each length. A line has the colour of the "
    "axis that follows.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=transition_notes,
)
