"""Whether idle time is many short gaps or few long ones."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import percent, stacked_bars
from xlahouse.reports.charts.columns import count_column, ps_column, ratio_column, text_column
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.palette import CAUSE_COLOURS
from xlahouse.reports.charts.panel import Figure, Panel
from xlahouse.reports.charts.phases import MEASURED
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.units import plural, show_ps

# A bin for each power of ten of a gap's length.
SQL = f"""
with gaps as (
    select
        cast(floor(log10(duration_ps) + 1e-9) as integer) as decade,
        replace(cause, '_', ' ') as cause,
        duration_ps
    from idle_gap_v2
    where run_id = $run and duration_ps > 0 and {MEASURED}
)
select
    decade,
    cast(pow(10, decade) as bigint) as from_ps,
    cast(pow(10, decade + 1) as bigint) as to_ps,
    cause,
    count(*) as gaps,
    cast(sum(duration_ps) as bigint) as idle_ps,
    max(duration_ps) as longest_ps,
    sum(duration_ps) / sum(sum(duration_ps)) over () as ratio
from gaps
group by decade, cause
order by decade, cause
"""

COLUMNS = (
    ps_column("from_ps", "Gaps from"),
    ps_column("to_ps", "Up to"),
    text_column("cause", "Main cause"),
    count_column("gaps", "Gaps"),
    ps_column("idle_ps", "Idle"),
    ps_column("longest_ps", "Longest"),
    ratio_column("ratio", "Share of idle time"),
)


def gap_chart(rows: pl.DataFrame) -> alt.Chart:
    """Share of the idle time by length of gap, stacked by the gap's main cause."""
    names = [
        f"{show_ps(low)} to {show_ps(high)}"
        for low, high in zip(rows["from_ps"], rows["to_ps"], strict=True)
    ]
    return stacked_bars(
        rows.with_columns(pl.Series("length", names)),
        alt.Y("length:N", title=None, sort=None),
        percent("ratio", "Share of the idle time (%)"),
        "cause",
        CAUSE_COLOURS,
        [
            alt.Tooltip("length:N", title="length of gaps"),
            alt.Tooltip("cause:N", title="main cause"),
            alt.Tooltip("gaps:Q", title="gaps", format=","),
            alt.Tooltip("idle_ps:Q", title="idle, ps", format=","),
            alt.Tooltip("longest_ps:Q", title="longest, ps", format=","),
            alt.Tooltip("ratio:Q", title="share of idle time", format=".3%"),
        ],
        "Idle time by length of gap",
    )


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """One chart over all gaps."""
    note = "Gaps of 100 ns or more, all devices and phases; coloured by the main cause."
    return [Figure("Idle time by length of gap", gap_chart(rows), note, shape="wide")]


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many gaps are drawn."""
    return f"{plural(total(rows, 'gaps'), 'gap')} of 100 ns or more."


why_empty = why_no_rows(
    "it does not say when devices were idle",
    "No device was idle for 100 ns or more at a time.",
)


PANEL: Panel[PageFacts] = Panel(
    key="idle",
    title="Length of idle gaps",
    lede="Idle time in many short gaps comes from launches and scheduling on the device; in "
    "few long gaps, from waiting for the host or for other devices.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
)
