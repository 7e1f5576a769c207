"""Which windows between axes are long enough to reconfigure a network."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.columns import (
    FROM_AXIS_COLUMN,
    TO_AXIS_COLUMN,
    bytes_column,
    count_column,
    ps_column,
    ratio_column,
    text_column,
)
from xlahouse.reports.charts.distribution import styles
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.log_axes import time_log
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.theme import finish
from xlahouse.reports.charts.units import (
    show_ps,
)
from xlahouse.reports.panels.intervals.transitions import (
    arrow,
    named,
    transition_looks,
    transition_notes,
)
from xlahouse.reports.panels.intervals.windows import SCOPE_ORDER, SCOPES, counted, why_empty

SQL = f"""
select scope, from_axis, to_axis, delay_ps, count, fitting_count, fit_ratio, fitting_bytes, next_bytes
from reconfiguration_fit_v2
where run_id = $run
order by {SCOPE_ORDER}, from_axis, to_axis, delay_ps
"""

COLUMNS = (
    text_column("scope", "Scope", lambda scope: SCOPES[scope]),
    FROM_AXIS_COLUMN,
    TO_AXIS_COLUMN,
    ps_column("delay_ps", "Reconfiguring takes"),
    count_column("count", "Windows"),
    count_column("fitting_count", "Long enough"),
    ratio_column("fit_ratio", "Share"),
    bytes_column("fitting_bytes", "Bytes after long enough windows"),
    bytes_column("next_bytes", "Bytes after all windows"),
)


def fit_chart(rows: pl.DataFrame) -> alt.Chart:
    """Share of windows at least as long as reconfiguring takes, a line a transition."""
    looks = transition_looks(rows.with_columns(pl.col("count").alias("total")))
    names = {pair: arrow(*pair) for pair in looks}
    data = named(rows, names).with_columns((pl.col("delay_ps") / 1e12).alias("delay_s"))
    color, dash = styles("series", {names[pair]: look for pair, look in looks.items()}, 130)
    x = alt.X("delay_s:Q", **time_log(data["delay_s"].to_list(), "Time that reconfiguring takes"))
    y = alt.Y(
        "fit_ratio:Q",
        title="Share of windows at least as long (%)",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format="%", tickCount=5),
    )
    base = alt.Chart(inline(data))
    lines = base.mark_line(strokeWidth=2).encode(x=x, y=y, color=color, strokeDash=dash)
    points = base.mark_circle(size=60, opacity=1).encode(x=x, y=y, color=color, tooltip=_tooltip())
    return finish(alt.layer(lines, points), "Share of windows long enough to reconfigure in", 240)


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """A chart of each scope."""
    drawn = []
    for scope, where in SCOPES.items():
        part = rows.filter(pl.col("scope") == scope)
        if not part.is_empty():
            none = part["fitting_count"].sum() == 0
            note = (
                f"No window is {show_ps(part['delay_ps'].to_list()[0])} or longer." if none else ""
            )
            drawn.append(Figure(f"Windows long enough, {where}", fit_chart(part), note))
    return drawn


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many windows of each scope are judged."""
    once = rows.unique(["scope", "from_axis", "to_axis"], maintain_order=True)
    return f"{counted(once)}, of all phases."


def _tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("from_axis:N", title="from axis"),
        alt.Tooltip("to_axis:N", title="to axis"),
        alt.Tooltip("delay_ps:Q", title="reconfiguring takes, ps", format=","),
        alt.Tooltip("fit_ratio:Q", title="share long enough", format=".4~%"),
        alt.Tooltip("fitting_count:Q", title="windows long enough", format=","),
        alt.Tooltip("count:Q", title="of windows", format=","),
        alt.Tooltip("fitting_bytes:Q", title="bytes after long enough windows", format=",.15~g"),
        alt.Tooltip("next_bytes:Q", title="bytes after all windows", format=",.15~g"),
    ]


PANEL: Panel[PageFacts] = Panel(
    key="reconfiguration",
    title="Would a reconfigurable network fit?",
    lede="If reconfiguring takes this long, this share of the windows between the two axes "
    "is long enough to hide it. A line has the colour of the axis that follows.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=transition_notes,
)
