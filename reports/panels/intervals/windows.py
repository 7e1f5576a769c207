"""Time between the axes: from the last transfer of one axis to the first of another, as a matrix."""

from __future__ import annotations

import math

import altair as alt
import polars as pl

from xlahouse.capture.commands import STATE_MESH
from xlahouse.reports.charts.columns import (
    FROM_AXIS_COLUMN,
    PHASE_COLUMN,
    SUMMARY_COLUMNS,
    TO_AXIS_COLUMN,
    bytes_column,
    count_column,
    text_column,
)
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.heat import heat_cells, heat_ink, heat_legend
from xlahouse.reports.charts.log_axes import decade_label, decades
from xlahouse.reports.charts.palette import HEAT_RANGE, OVERLAP_COLOUR
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.phases import PHASE, phase_order
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import finish, rows_height
from xlahouse.reports.charts.units import plural, show_count, show_ps

# In the order of charts. A set of peers holds the devices with equal coordinates on the data axes.
SCOPES = {
    "device": "on each device",
    "run": "over all devices",
    "group": "over each set of peers",
    "rail": "on each rail between hosts",
}
SCOPE_ORDER = "case scope when 'device' then 0 when 'run' then 1 when 'group' then 2 else 3 end"

SQL = f"""
select
    scope,
    {PHASE} as phase,
    from_axis,
    to_axis,
    count,
    min_ps,
    p50_ps,
    mean_ps,
    p95_ps,
    p99_ps,
    max_ps,
    next_bytes
from traffic_window_summary_v2
where run_id = $run
order by
    {SCOPE_ORDER},
    {phase_order()},
    from_axis,
    to_axis
"""

COLUMNS = (
    text_column("scope", "Scope", lambda scope: SCOPES[scope]),
    PHASE_COLUMN,
    FROM_AXIS_COLUMN,
    TO_AXIS_COLUMN,
    count_column("count", "Windows"),
    *SUMMARY_COLUMNS,
    bytes_column("next_bytes", "Bytes after"),
)
# Past this a cell has no room for its number on a phone; hovering and the table have it.
MAX_LABELLED_AXES = 5
MAX_MATRICES = 6


def transition_chart(rows: pl.DataFrame, axes: list[str], ticks: list[float]) -> alt.Chart:
    """The median window of each transition, with how many there are.

    Args:
        rows: from_axis, to_axis, count and the window's statistics: one row a cell.
        axes: domain of both sides.
        ticks: decades of seconds, the same for all matrices of the panel, so that colours compare.
    """
    data = rows.with_columns(
        (pl.when(pl.col("p50_ps") > 0).then(pl.col("p50_ps")) / 1e12).alias("p50_s"),
        pl.col("p50_ps").map_elements(show_ps, return_dtype=pl.String).alias("median"),
        ("n = " + pl.col("count").map_elements(show_count, return_dtype=pl.String)).alias("number"),
    )
    cells = heat_cells(data, _hue(data, ticks), _tooltip(), "p50_s", OVERLAP_COLOUR)
    layers = [cells, *(_numbers(data, ticks) if len(axes) <= MAX_LABELLED_AXES else ())]
    side = alt.Scale(domain=axes, padding=0.04)
    y = alt.Y("from_axis:N", title="From axis", scale=side)
    top = alt.Axis(orient="top", labelAngle=0)
    x = alt.X("to_axis:N", title="To axis", scale=side, axis=top)
    whole = alt.layer(*(layer.encode(x=x, y=y) for layer in layers))
    return finish(whole, "Median window by transition", rows_height(len(axes), 56) + 20)


def _numbers(data: pl.DataFrame, ticks: list[float]) -> list[alt.Chart]:
    """The median and the count on each cell."""
    middle = math.sqrt(ticks[0] * ticks[-1])
    ink = heat_ink(f"!(isValid(datum.p50_s) && datum.p50_s < {middle!r})")
    text = alt.Chart(inline(data)).encode(color=ink)
    median = text.mark_text(fontSize=12, dy=-7).encode(text="median:N")
    return [median, text.mark_text(fontSize=11, dy=9).encode(text="number:N")]


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """A matrix of each scope and phase."""
    axes = sorted({*rows["from_axis"], *rows["to_axis"]})
    ticks = decades([median / 1e12 for median in rows["p50_ps"]])
    drawn = []
    for (scope, phase), part in rows.group_by("scope", "phase", maintain_order=True):
        title = f"{str(phase).capitalize()}: windows between axes, {SCOPES[str(scope)]}"
        drawn.append(Figure(title, transition_chart(part, axes, ticks), shape="square"))
    return drawn[:MAX_MATRICES]


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many windows of each scope."""
    return f"{counted(rows)}."


def counted(rows: pl.DataFrame) -> str:
    """How many windows each scope has; those of no set or rail are not named."""
    found = set(rows["scope"])
    return " and ".join(
        f"{plural(total(rows.filter(pl.col('scope') == scope), 'count'), 'window')} {where}"
        for scope, where in SCOPES.items()
        if scope in found
    )


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """What grey cells mean, what is left out, what virtual devices do not show."""
    found = []
    overlapping = rows.filter(pl.col("p50_ps") <= 0)
    if not overlapping.is_empty():
        found.append(
            "Grey: the median is 0 or below, because the next axis starts before the "
            "transfers of the previous axis end."
        )
    left_out = rows.select("scope", "phase").n_unique() - MAX_MATRICES
    if left_out > 0:
        found.append(f"Not drawn: {left_out:,} more scopes and phases; the table has them.")
    return found


def why_empty(facts: PageFacts) -> str:
    """Why there are no windows."""
    if not facts.traced:
        return "The trace has no device events, so when its transfers ran is not known."
    if facts.row["collectives"] == 0:
        return "The trace has no collectives, so there is no time between them."
    if facts.mesh is None:
        return (
            "No mesh is known, so all transfers count as one axis, unclassified, and there "
            f"is no time between axes. {STATE_MESH}."
        )
    return "All transfers are of one axis, so there is no time between axes."


def _hue(data: pl.DataFrame, ticks: list[float]) -> alt.Color:
    look = {"values": ticks, "labelExpr": decade_label("s"), "labelOverlap": "greedy"}
    legend = heat_legend("Median window (log scale)", 200, labelSeparation=6, **look)
    scale = alt.Scale(type="log", domain=[ticks[0], ticks[-1]], range=list(HEAT_RANGE))
    # Where all windows overlap there is no length for a legend to show.
    shown = None if data["p50_s"].null_count() == len(data) else legend
    return alt.Color("p50_s:Q", scale=scale, legend=shown)


def _tooltip() -> list[alt.Tooltip]:
    numbers = {
        "count": "windows",
        "min_ps": "least, ps",
        "p50_ps": "p50, ps",
        "mean_ps": "mean, ps",
        "p95_ps": "p95, ps",
        "p99_ps": "p99, ps",
        "max_ps": "most, ps",
        "next_bytes": "bytes after",
    }
    return [
        alt.Tooltip("from_axis:N", title="from axis"),
        alt.Tooltip("to_axis:N", title="to axis"),
        *(
            alt.Tooltip(f"{name}:Q", title=title, format=",.15~g")
            for name, title in numbers.items()
        ),
    ]


PANEL: Panel[PageFacts] = Panel(
    key="windows",
    title="Windows between axes",
    lede="A burst is a sequence of transfers of one axis. A window is the time from the end "
    "of a burst to the start of the next burst, of another axis: the time in which a "
    "network could be reconfigured. Cells show the median and the number of windows.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
