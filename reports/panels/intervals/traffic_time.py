"""When traffic flows: bytes a second of each axis over the run, to zoom into."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import place_in
from xlahouse.reports.charts.columns import AXIS_COLUMN, bandwidth_column, bytes_column, ps_column
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.palette import axis_colours
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.sums import known_total
from xlahouse.reports.charts.theme import ZOOM_NOTE, colour, finish, zoom_in_time
from xlahouse.reports.charts.units import (
    BANDWIDTH,
    SECONDS,
    Unit,
    plural,
    show_bytes,
    show_ps,
    suit,
)

# Bins without bytes take no mark. Every axis has each bin, so the least start is the run's first transfer.
SQL = """
with bins as (
    select
        axis,
        start_ps,
        start_ps - min(start_ps) over () as since_ps,
        duration_ps,
        bytes,
        bytes * 1e12 / nullif(duration_ps, 0) as rate_bytes_per_s
    from traffic_timeline_v1
    where run_id = $run
)
select axis, start_ps, since_ps, duration_ps, bytes, rate_bytes_per_s
from bins
where bytes is distinct from 0
order by since_ps, axis
"""

COLUMNS = (
    ps_column("since_ps", "Since first transfer"),
    ps_column("duration_ps", "Bin"),
    AXIS_COLUMN,
    bytes_column("bytes", "Bytes sent"),
    bandwidth_column("rate_bytes_per_s", "Rate"),
)


def stacked(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of known bytes with the ends of their bars, stacked by axis in the palette's order."""
    known = rows.drop_nulls("rate_bytes_per_s")
    placed = known.with_columns(place_in(axis_colours(known["axis"]), "axis")).sort(
        "since_ps", "place"
    )
    top = pl.col("rate_bytes_per_s").cum_sum().over("since_ps")
    return placed.with_columns(top.alias("top")).with_columns(
        (pl.col("top") - pl.col("rate_bytes_per_s")).alias("bottom")
    )


def timeline_chart(rows: pl.DataFrame) -> alt.Chart:
    """Bytes a second by bin, stacked by axis; dragging moves along time, the wheel with Ctrl zooms."""
    data = stacked(rows)
    clock = suit((data["since_ps"] + data["duration_ps"]) / 1e12, SECONDS)
    speed = suit(data["top"], BANDWIDTH)
    drawn = _in_units(data, clock, speed)
    rate = f"Bytes sent per second, all devices ({speed.symbol})"
    chart = (
        alt.Chart(inline(drawn))
        .mark_bar(clip=True, binSpacing=0)
        .encode(
            x=alt.X(
                "from:Q",
                title=f"Time since the run's first transfer ({clock.symbol})",
                scale=alt.Scale(domain=[0, float(drawn["to"].to_list()[-1])], nice=False),
                axis=alt.Axis(tickCount=8, labelOverlap=True),
            ),
            x2="to:Q",
            y=alt.Y("bottom:Q", title=rate, axis=alt.Axis(tickCount=5)),
            y2="top:Q",
            color=colour("axis", axis_colours(drawn["axis"]), "Axis", 110),
            tooltip=_tooltip(),
        )
        .add_params(zoom_in_time())
    )
    return finish(chart, "Bytes sent per second over time, by axis", 260)


def _in_units(data: pl.DataFrame, clock: Unit, speed: Unit) -> pl.DataFrame:
    """Rows of stacked() with their corners in the units of the axes."""
    return data.select(
        *("axis", "bytes", "rate_bytes_per_s", "since_ps", "duration_ps"),
        (pl.col("since_ps") / 1e12 / clock.factor).alias("from"),
        ((pl.col("since_ps") + pl.col("duration_ps")) / 1e12 / clock.factor).alias("to"),
        (pl.col("bottom") / speed.factor).alias("bottom"),
        (pl.col("top") / speed.factor).alias("top"),
    )


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """One chart of the whole run."""
    if rows["rate_bytes_per_s"].null_count() == len(rows):
        return []
    width = show_ps(rows["duration_ps"].to_list()[0])
    note = f"A bar spans {width}. {ZOOM_NOTE}"
    return [Figure("Traffic over time, by axis", timeline_chart(rows), note, shape="wide")]


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many bytes are drawn."""
    drawn = known_total(rows.drop_nulls("bytes"), "bytes")
    return f"Draws {show_bytes(drawn)} of wire bytes."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """How bytes are spread, which are missing, and what virtual devices do not show."""
    found = ["A transfer's bytes are spread evenly over its time in flight, including waiting."]
    unknown = rows["bytes"].null_count()
    if unknown:
        found.append(
            f"{plural(unknown, 'bin')} of an axis left out: a transfer of unknown size is in "
            "flight."
        )
    return found


why_empty = why_no_rows(
    "when its transfers ran is not known",
    "The trace has no collective that sends data, so there is no traffic over time.",
)


def _tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("axis:N", title="axis"),
        alt.Tooltip("since_ps:Q", title="since first transfer, ps", format=","),
        alt.Tooltip("duration_ps:Q", title="bin, ps", format=","),
        alt.Tooltip("bytes:Q", title="bytes sent", format=",.15~g"),
        alt.Tooltip("rate_bytes_per_s:Q", title="rate, B/s", format=",.9~g"),
    ]


PANEL: Panel[PageFacts] = Panel(
    key="timeline",
    title="Traffic over time",
    lede="Wire bytes per second of all traced devices together, stacked by mesh axis. The "
    "bins add up to the bytes of the traffic by axis.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
