"""The latency of each decode step, over the requests of a run."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.columns import count_column, s_column
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.palette import CLOCK_COLOURS
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import finish
from xlahouse.reports.charts.units import SECONDS, plural, suit

# At most 500 rows: longer runs put neighbouring steps into one bin. The prefill, step 0, is left out.
# A run without markers has no step latencies; there every execution of a program counts as a step.
SQL = """
with unmarked as (
    select step, max(window_ps) / 1e12 as latency_s
    from device_time_v1
    where run_id = $run and request is null and core is distinct from 'sparsecore'
    group by step
), marked as (
    select step, latency_s
    from step_latency_v1
    where run_id = $run and step > 0
), steps as (
    select step, latency_s
    from marked
    union all
    select step, latency_s
    from unmarked
    where not exists (select 1 from marked)
), sized as (
    select *, cast(ceil((max(step) over () + 1) / 500.0) as bigint) as width
    from steps
), binned as (
    select *, cast(floor(step / width) as bigint) * width as first_step
    from sized
    where step is not null
)
select
    min(step) as first_step,
    max(step) as last_step,
    count(*) as steps,
    count(latency_s) as measured,
    quantile_disc(latency_s, 0.05) as p05_s,
    median(latency_s) as p50_s,
    quantile_disc(latency_s, 0.95) as p95_s,
    max(latency_s) as max_s
from binned
group by binned.first_step
order by binned.first_step
"""

COLUMNS = (
    count_column("first_step", "From step"),
    count_column("last_step", "To step"),
    count_column("measured", "Measured"),
    s_column("p05_s", "p5"),
    s_column("p50_s", "p50"),
    s_column("p95_s", "p95"),
    s_column("max_s", "Longest"),
)


def step_chart(rows: pl.DataFrame, title: str) -> alt.Chart:
    """Median length of a step against its number, in a band from the 5th to the 95th percentile.

    Args:
        rows: rows of SQL.
        title: what the numbers on the x axis count.
    """
    unit = suit(rows["p95_s"], SECONDS)
    data = rows.with_columns(
        *((pl.col(f"{p}_s") / unit.factor).alias(p) for p in ("p05", "p50", "p95"))
    )
    hue = CLOCK_COLOURS["trace"]
    length = f"Latency of a step ({unit.symbol})"
    base = alt.Chart(inline(data)).encode(x=_step_axis(data, title), tooltip=_tooltip())
    low = alt.Y("p05:Q", title=length, scale=alt.Scale(zero=True))
    middle = alt.Y("p50:Q", title=length)
    band = base.mark_area(color=hue, opacity=0.22).encode(y=low, y2="p95")
    line = base.mark_line(color=hue, strokeWidth=2).encode(y=middle)
    points = base.mark_point(color=hue, filled=True, size=36, opacity=1).encode(y=middle)
    return finish(alt.layer(band, line, points), "Latency of each step", 230)


def _step_axis(data: pl.DataFrame, title: str) -> alt.X:
    # With few steps, Vega would also label what is halfway between two of them.
    few = len(data) <= 12
    ticks = {"values": data["first_step"].to_list()} if few else {"tickCount": 8}
    axis = alt.Axis(format="d", **ticks)
    return alt.X("first_step:Q", title=title, scale=alt.Scale(nice=False), axis=axis)


def _tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("first_step:Q", title="from step"),
        alt.Tooltip("last_step:Q", title="to step"),
        alt.Tooltip("steps:Q", title="steps"),
        alt.Tooltip("p05_s:Q", title="p5, s", format=".9~g"),
        alt.Tooltip("p50_s:Q", title="p50, s", format=".9~g"),
        alt.Tooltip("p95_s:Q", title="p95, s", format=".9~g"),
    ]


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """One chart over all steps whose latency is known."""
    known = rows.drop_nulls("p50_s")
    if known.is_empty():
        return []
    title = "Decode step (1 is the first after the prefill)" if facts.marked else "Execution"
    note = "Line and points: median over requests; band: 5th to 95th percentile."
    return [Figure("Latency of each step", step_chart(known, title), note, shape="wide")]


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many steps have a latency."""
    measured = f"{total(rows, 'measured'):,} of {plural(total(rows, 'steps'), 'step')}"
    return f"Latency known for {measured}."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """What a step is without markers, and why some have no latency."""
    found = []
    if not facts.marked:
        found.append(
            "Without markers, each execution of a program counts as a step, and its latency "
            "is its longest window."
        )
    if total(rows, "measured") < total(rows, "steps"):
        found.append(
            "A step has no latency if its ops, or those of the previous step, are not in the trace."
        )
    return found


why_empty = why_no_rows(
    "the latency of a step is not known",
    "The trace has no decode step outside warm-up.",
)


PANEL: Panel[PageFacts] = Panel(
    key="steps",
    title="Decode steps",
    lede="Latency of a decode step: from the end of the previous step to the end of its own "
    "last op on any device.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
