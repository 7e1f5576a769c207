"""The latency of each decode step, over the requests of a run."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.columns import count_column, dashed_column, s_column
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.log_axes import time_log
from xlahouse.reports.charts.palette import CLOCK_COLOURS
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import finish, rows_height
from xlahouse.reports.charts.units import SECONDS, plural, suit

# At most 500 rows: longer runs put neighbouring steps into one bin. The prefill, step 0, is left out.
# A run without markers has no step latencies; there every execution of a program counts as a step, and where
# they are of several programs, each program has one row.
SQL = """
with launched as (
    -- of a device's steps that are one execution
    select device_id, step, min(module) as program
    from launches
    where run_id = $run and request is null
    group by device_id, step
    having count(*) = 1
), unmarked as (
    select t.step, l.program, max(t.window_ps) / 1e12 as latency_s
    from device_time_v1 as t
    left join launched as l on l.device_id = t.device_id and l.step = t.step
    where t.run_id = $run and t.request is null and t.core is distinct from 'sparsecore'
    group by t.step, l.program
), marked as (
    select step, latency_s
    from step_latency_v1
    where run_id = $run and step > 0
), steps as (
    select step, null as program, latency_s
    from marked
    union all
    select step, program, latency_s
    from unmarked
    where not exists (select 1 from marked)
), sized as (
    select
        *,
        cast(ceil((max(step) over () + 1) / 500.0) as bigint) as width,
        min(program) over () is distinct from max(program) over () as several
    from steps
), binned as (
    select *, case when several then 0 else cast(floor(step / width) as bigint) * width end as first_step
    from sized
    where step is not null
)
select
    program,
    min(step) as first_step,
    max(step) as last_step,
    count(*) as steps,
    count(latency_s) as measured,
    quantile_disc(latency_s, 0.05) as p05_s,
    median(latency_s) as p50_s,
    quantile_disc(latency_s, 0.95) as p95_s,
    max(latency_s) as max_s
from binned
group by program, binned.first_step
order by binned.first_step, sum(latency_s) desc nulls last, program
"""

MOST_PROGRAMS = 20  # drawn: those with the most time

COLUMNS = (
    dashed_column("program", "Program"),
    count_column("first_step", "From step"),
    count_column("last_step", "To step"),
    count_column("measured", "Measured"),
    s_column("p05_s", "p5"),
    s_column("p50_s", "p50"),
    s_column("p95_s", "p95"),
    s_column("max_s", "Longest"),
)


def step_chart(rows: pl.DataFrame, counted: str, title: str) -> alt.Chart:
    """Median length of a step against its number, in a band from the 5th to the 95th percentile.

    Args:
        rows: rows of SQL.
        counted: what the numbers on the x axis count.
        title: of the chart.
    """
    unit = suit(rows["p95_s"], SECONDS)
    data = rows.with_columns(
        *((pl.col(f"{p}_s") / unit.factor).alias(p) for p in ("p05", "p50", "p95"))
    )
    hue = CLOCK_COLOURS["trace"]
    length = f"{title} ({unit.symbol})"
    base = alt.Chart(inline(data)).encode(x=_step_axis(data, counted), tooltip=_tooltip())
    low = alt.Y("p05:Q", title=length, scale=alt.Scale(zero=True))
    middle = alt.Y("p50:Q", title=length)
    band = base.mark_area(color=hue, opacity=0.22).encode(y=low, y2="p95")
    line = base.mark_line(color=hue, strokeWidth=2).encode(y=middle)
    points = base.mark_point(color=hue, filled=True, size=36, opacity=1).encode(y=middle)
    return finish(alt.layer(band, line, points), title, 230)


def program_chart(rows: pl.DataFrame) -> alt.Chart:
    """Length of an execution of each program: median, and a line from the 5th to the 95th percentile.

    Args:
        rows: rows of SQL, one a program.
    """
    hue, names = CLOCK_COLOURS["trace"], {"p05": "p05_s", "p50": "p50_s", "p95": "p95_s"}
    data = rows.with_columns(pl.col("program").fill_null("without a name"))
    x = alt.X("p50_s:Q", **time_log([*rows["p05_s"], *rows["p95_s"]], "Length of an execution"))
    base = alt.Chart(inline(data)).encode(
        y=alt.Y("program:N", title=None, sort=None),
        tooltip=[
            alt.Tooltip("program:N", title="program"),
            alt.Tooltip("steps:Q", title="executions", format=","),
            *(
                alt.Tooltip(f"{name}:Q", title=f"{p}, s", format=".9~g")
                for p, name in names.items()
            ),
        ],
    )
    line = base.mark_rule(color=hue, strokeWidth=2).encode(
        x=alt.X("p05_s:Q", title=None), x2="p95_s"
    )
    point = base.mark_point(color=hue, filled=True, size=80, opacity=1).encode(x=x)
    return finish(alt.layer(point, line), "Length of an execution", rows_height(len(data)))


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
    """One chart over all steps whose latency is known, or over the programs that the steps execute."""
    known = rows.drop_nulls("p50_s")
    if known.is_empty():
        return []
    if known["program"].n_unique() > 1:
        note = (
            "Point: median; line: 5th to 95th percentile. On each device one execution is one step."
        )
        return [
            Figure(
                "Length of an execution",
                program_chart(known.head(MOST_PROGRAMS)),
                note,
                shape="wide",
            )
        ]
    counted = "Decode step (1 is the first after the prefill)"
    title, note = "Latency of each step", "Line and points: median over requests"
    if not facts.marked:
        counted = "Execution"
        title, note = (
            "Length of each execution",
            "Line and points: median over neighbouring executions",
        )
    note += "; band: 5th to 95th percentile."
    return [Figure(title, step_chart(known, counted, title), note, shape="wide")]


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many steps have a latency."""
    measured = f"{total(rows, 'measured'):,} of {plural(total(rows, 'steps'), 'step')}"
    return f"Latency known for {measured}."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """What a step is without markers, and why some have no latency."""
    found = []
    if not facts.marked:
        found.append(
            f"Without markers, each {facts.unmarked_step} counts as a step, and its latency is its longest "
            "window."
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
    title="Steps",
    lede="Latency of a decode step: from the end of the previous step to the end of its own "
    "last op on any device. Without markers: length of an execution of a program.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
