"""Time between the axes: from the last transfer of one axis to the first of another, as a matrix."""

from __future__ import annotations

import math

import altair as alt
import polars as pl

from xlahouse.reports.charts.facts import RunFacts
from xlahouse.reports.charts.log_axes import decade_label, decades
from xlahouse.reports.charts.palette import HEAT_INK, HEAT_RANGE, OVERLAP_COLOUR
from xlahouse.reports.charts.panel import Column, Figure, Panel, inline
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import INK, finish, rows_height
from xlahouse.reports.charts.units import plural, show_bytes, show_count, show_exact, show_ps

SQL = """
select
    scope,
    coalesce(phase, 'outside markers') as phase,
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
from traffic_window_summary_v1
where run_id = $run
order by
    scope,
    case phase when 'prefill' then 0 when 'decode' then 1 else 2 end,
    phase,
    from_axis,
    to_axis
"""

SCOPES = {"device": "on each device", "run": "over all devices"}
COLUMNS = (
    Column("scope", "Scope", lambda scope: SCOPES[scope], numeric=False),
    Column("phase", "Phase", numeric=False),
    Column("from_axis", "From axis", numeric=False),
    Column("to_axis", "To axis", numeric=False),
    Column("count", "Windows", show_count),
    Column("min_ps", "Least", show_ps, show_exact),
    Column("p50_ps", "p50", show_ps, show_exact),
    Column("mean_ps", "Mean", show_ps, show_exact),
    Column("p95_ps", "p95", show_ps, show_exact),
    Column("p99_ps", "p99", show_ps, show_exact),
    Column("max_ps", "Most", show_ps, show_exact),
    Column("next_bytes", "Bytes after", show_bytes, show_exact),
)
# Past this a cell has no room for its number on a phone; hovering and the table have it.
MAX_LABELLED = 5
MAX_MATRICES = 6


def transition_chart(rows: pl.DataFrame, axes: list[str], ticks: list[float]) -> alt.Chart:
    """The median window of each transition, with how many there are.

    Args:
        rows: from_axis, to_axis, count and the window's statistics: one row a cell.
        axes: domain of both sides.
        ticks: decades of seconds, the same for all matrices of the panel, so that colours compare.
    """
    middle = math.sqrt(ticks[0] * ticks[-1])
    data = rows.with_columns(
        (pl.when(pl.col("p50_ps") > 0).then(pl.col("p50_ps")) / 1e12).alias("p50_s"),
        pl.col("p50_ps").map_elements(show_ps, return_dtype=pl.String).alias("median"),
        ("n = " + pl.col("count").map_elements(show_count, return_dtype=pl.String)).alias("number"),
    )
    side = alt.Scale(domain=axes, padding=0.04)
    y = alt.Y("from_axis:N", title="From axis", scale=side)
    top = alt.Axis(orient="top", labelAngle=0)
    x = alt.X("to_axis:N", title="To axis", scale=side, axis=top)
    layers = [_cells(data, ticks).encode(x=x, y=y)]
    if len(axes) <= MAX_LABELLED:
        ink = alt.condition(
            f"isValid(datum.p50_s) && datum.p50_s < {middle!r}",
            alt.value(HEAT_INK[0]),
            alt.value(HEAT_INK[1]),
        )
        text = alt.Chart(inline(data)).encode(x=x, y=y, color=ink)
        layers.append(text.mark_text(fontSize=12, dy=-7).encode(text="median:N"))
        layers.append(text.mark_text(fontSize=11, dy=9).encode(text="number:N"))
    return finish(
        alt.layer(*layers), "Median window by transition", rows_height(len(axes), 56) + 20
    )


def figures(rows: pl.DataFrame, facts: RunFacts) -> list[Figure]:
    """A matrix of each scope and phase."""
    axes = sorted({*rows["from_axis"], *rows["to_axis"]})
    ticks = decades([median / 1e12 for median in rows["p50_ps"]])
    drawn = []
    for (scope, phase), part in rows.group_by("scope", "phase", maintain_order=True):
        title = f"{str(phase).capitalize()}: windows between axes, {SCOPES[str(scope)]}"
        drawn.append(Figure(title, transition_chart(part, axes, ticks), shape="square"))
    return drawn[:MAX_MATRICES]


def coverage(rows: pl.DataFrame, facts: RunFacts) -> str:
    """How many windows of each scope."""
    counts = [
        f"{plural(total(rows.filter(pl.col('scope') == scope), 'count'), 'window')} {where}"
        for scope, where in SCOPES.items()
    ]
    return f"{' and '.join(counts)}; {facts.covered()}"


def notes(rows: pl.DataFrame, facts: RunFacts) -> list[str]:
    """What grey cells mean, what is left out, what virtual devices do not tell."""
    found = []
    overlapping = rows.filter(pl.col("p50_ps") <= 0)
    if not overlapping.is_empty():
        found.append(
            "Grey: at the median the next axis starts before the last one's transfers are over, so there "
            "is no window (times of 0 and below)."
        )
    left_out = rows.select("scope", "phase").n_unique() - MAX_MATRICES
    if left_out > 0:
        found.append(f"Not drawn: {left_out:,} more scopes and phases; the table has them.")
    if facts.inferred:
        found.append(
            "On virtual devices the order of axes is real, the time between them is not: devices take "
            "turns on the machine's cores, so windows over all devices overlap."
        )
    return found


def why_empty(facts: RunFacts) -> str:
    """Why there are no windows."""
    if facts.row["traced_devices"] == 0:
        return "The trace holds no device events, so when its transfers ran is not known."
    if facts.row["collectives"] == 0:
        return "The trace holds no collectives, so there is no time between them."
    if facts.mesh is None:
        return (
            "No mesh is known, so all transfers count as one axis, unclassified, and there is no time "
            "between axes: set one with xlahouse set mesh."
        )
    return "All transfers are of one axis, so there is no time between one axis and another."


def _cells(data: pl.DataFrame, ticks: list[float]) -> alt.Chart:
    legend = alt.Legend(
        title="Median window (log scale)",
        orient="bottom",
        direction="horizontal",
        gradientLength=200,
        values=ticks,
        labelExpr=decade_label("s"),
        labelOverlap="greedy",
        labelSeparation=6,
    )
    scale = alt.Scale(type="log", domain=[ticks[0], ticks[-1]], range=list(HEAT_RANGE))
    # Where all windows overlap there is no length for a legend to show.
    shown = None if data["p50_s"].null_count() == len(data) else legend
    hue = alt.Color("p50_s:Q", scale=scale, legend=shown)
    numbers = {"count": "windows"} | {
        f"{name}_ps": f"{title}, ps"
        for name, title in (
            ("min", "least"),
            ("p50", "p50"),
            ("mean", "mean"),
            ("p95", "p95"),
            ("p99", "p99"),
            ("max", "most"),
        )
    }
    tooltip = [
        alt.Tooltip("from_axis:N", title="from axis"),
        alt.Tooltip("to_axis:N", title="to axis"),
        *(
            alt.Tooltip(name, type="quantitative", title=title, format=",.15~g")
            for name, title in numbers.items()
        ),
        alt.Tooltip("next_bytes:Q", title="bytes after", format=",.15~g"),
    ]
    color = alt.condition("!isValid(datum.p50_s)", alt.value(OVERLAP_COLOUR), hue)
    return (
        alt.Chart(inline(data))
        .mark_rect(cornerRadius=2, stroke=INK, strokeOpacity=0.25, invalid="show")
        .encode(color=color, tooltip=tooltip)
    )


PANEL: Panel[RunFacts] = Panel(
    key="windows",
    title="Windows between axes",
    lede="Transfers of one axis in a row are a burst. A window is the time from the latest end of one "
    "axis' burst to the start of the next one, of another axis: what a network would have to be set "
    "up anew in. Cells show the median and the number of windows.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
