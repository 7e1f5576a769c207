"""Cumulative distributions of times, as curves: one way to draw every distribution of a page.

Rows are bins, ten a power of ten, so that a curve has at most some hundred points. Times of 0 and
below are one bin, whose share is stated in the note.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import altair as alt
import polars as pl

from xlahouse.reports.charts.log_axes import time_log
from xlahouse.reports.charts.panel import TableColumn, inline
from xlahouse.reports.charts.phases import PHASE, phase_order
from xlahouse.reports.charts.theme import finish, legend_columns
from xlahouse.reports.charts.units import show_exact, show_ps, show_ratio

# Of a series: a solid line first.
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [4, 6])
# Bounds of a bin.
LOW = TableColumn(
    "low_ps", "From", lambda low: "0 or below" if low is None else show_ps(low), show_exact
)
HIGH = TableColumn("high_ps", "To", lambda high: "0" if high is None else show_ps(high), show_exact)
Look = tuple[str, list[int]]  # colour and dash of a line


def bins_sql(view: str, time: str, keys: str, where: str) -> str:
    """The query of a distribution: ten bins a power of ten of a run's times, by phase and `keys`.

    Args:
        view: its view.
        time: the column of the times, in picoseconds.
        keys: other columns that distinguish curves.
        where: a condition on its rows, beside the run.
    """
    part = f"phase, {keys}"
    return f"""
with binned as (
    select
        {PHASE} as phase,
        {keys},
        case when {time} > 0 then cast(floor(10 * log10({time})) as integer) end as bin,
        count(*) as times
    from {view}
    where run_id = $run and {where}
    group by all
)
select
    {part},
    pow(10, bin / 10.0) as low_ps,
    pow(10, (bin + 1) / 10.0) as high_ps,
    times as count,
    cast(sum(times) over (partition by {part} order by bin nulls first) as bigint) as up_to,
    cast(sum(times) over (partition by {part}) as bigint) as total,
    up_to / total as share
from binned
order by {phase_order()}, {keys}, bin nulls first
"""


def overlap_note(rows: pl.DataFrame, name: Callable[[dict[str, str]], str]) -> str:
    """The shares that are not on the log axis, of one phase: the bin of times of 0 and below."""
    below = rows.filter(pl.col("high_ps").is_null())
    shares = [f"{name(row)} {show_ratio(row['share'])}" for row in below.to_dicts()]
    return f"Below the log axis (overlapping or touching): {', '.join(shares)}." if shares else ""


def curve_points(rows: pl.DataFrame, series: str) -> pl.DataFrame:
    """Bins -> the corners of their curves.

    Args:
        rows: `series`, low_ps, high_ps (NULL in the bin of times of 0 and below), count, up_to (times
            in this bin and the bins before it), total.
        series: the column that distinguishes curves.
    """
    bins = rows.drop_nulls("high_ps")
    ends = [
        bins.select(
            series,
            (pl.col(edge) / 1e12).alias("at_s"),
            (reached / pl.col("total")).alias("share"),
            pl.col("up_to"),
            pl.col("total"),
        )
        for edge, reached in (
            ("low_ps", pl.col("up_to") - pl.col("count")),
            ("high_ps", pl.col("up_to")),
        )
    ]
    return (
        pl.concat(ends)
        .sort(series, "at_s", "share")
        .unique([series, "at_s", "share"], keep="last", maintain_order=True)
    )


def curves(
    rows: pl.DataFrame, series: str, looks: Mapping[str, Look], noun: str, subject: str
) -> alt.Chart:
    """One line for each value of `series`: the share of `noun` that are at most as long.

    Args:
        rows: as of curve_points.
        looks: value of `series` -> colour and dash, in the order of the legend.
        noun: what is counted, in the plural.
        subject: of the chart, for screen readers.
    """
    data = curve_points(rows, series)
    x = alt.X("at_s:Q", **time_log(data["at_s"].to_list(), f"Length of the {noun.rstrip('s')}"))
    y = alt.Y(
        "share:Q",
        title=f"Share of {noun} at most as long (%)",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format="%", tickCount=5),
    )
    color, dash = styles(series, looks, 170)
    base = alt.Chart(inline(data))
    lines = base.mark_line(strokeWidth=2).encode(x=x, y=y, color=color, strokeDash=dash)
    tooltip = [
        alt.Tooltip(series, type="nominal", title="of"),
        alt.Tooltip("at_s:Q", title="at most, s", format=".4~g"),
        alt.Tooltip("share:Q", title="share", format=".4~%"),
        alt.Tooltip("up_to:Q", title=noun, format=","),
        alt.Tooltip("total:Q", title="of all", format=","),
    ]
    points = base.mark_circle(size=26, opacity=0.9).encode(x=x, y=y, color=color, tooltip=tooltip)
    return finish(alt.layer(lines, points), subject, 240)


def styles(
    series: str, looks: Mapping[str, Look], column_width: int
) -> tuple[alt.Color, alt.StrokeDash]:
    """Colour and dash of each line, with one legend for both; an entry has `column_width` px or more."""
    legend = alt.Legend(
        title=None,
        symbolType="stroke",
        symbolStrokeWidth=2.5,
        symbolSize=300,
        columns=legend_columns(column_width, looks),
    )
    names = list(looks)
    hues, dashes = (list(part) for part in zip(*looks.values(), strict=True))
    return (
        alt.Color(series, type="nominal", scale=alt.Scale(domain=names, range=hues), legend=legend),
        alt.StrokeDash(
            series, type="nominal", scale=alt.Scale(domain=names, range=dashes), legend=legend
        ),
    )
