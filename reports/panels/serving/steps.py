"""The steps of a server over time, by what they do and how full the batch is."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.columns import (
    PHASE_COLUMN,
    count_column,
    factor_column,
    ratio_column,
    s_column,
)
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.palette import PHASE_COLOURS, present_colours
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import colour, finish
from xlahouse.reports.charts.units import SECONDS, plural, suit

# At most 400 stretches of time, with a row for each phase: longer runs put neighbouring steps into one.
SQL = """
with numbered as (
    select
        *,
        row_number() over (order by start_ps, host) - 1 as place,
        count(*) over () as every
    from serving_step_v1
    where run_id = $run
)
select
    cast(floor(place / ceil(every / 400.0)) as bigint) as stretch,
    phase,
    min(start_ps) / 1e12 as start_s,
    count(*) as steps,
    count(period_ps) as measured,
    avg(requests) as requests,
    avg(tokens) as tokens,
    median(period_ps) / 1e12 as p50_s,
    max(period_ps) / 1e12 as max_s,
    avg(compute_ratio) as compute_ratio,
    avg(exposed_ratio) as exposed_ratio,
    avg(host_gap_ratio) as host_gap_ratio
from numbered
group by stretch, phase
order by start_s, phase
"""

FEW = 10  # whole numbers that have a tick each

COLUMNS = (
    s_column("start_s", "From"),
    PHASE_COLUMN,
    count_column("steps", "Steps"),
    factor_column("requests", "Requests"),
    factor_column("tokens", "Tokens"),
    s_column("p50_s", "Period, median"),
    s_column("max_s", "Longest"),
    ratio_column("compute_ratio", "Compute"),
    ratio_column("exposed_ratio", "Exposed"),
    ratio_column("host_gap_ratio", "Host late"),
)


def phase_colour(rows: pl.DataFrame) -> alt.Color:
    """The colour of each phase that there is."""
    return colour("phase", present_colours(PHASE_COLOURS, rows["phase"]))


def counts(values: pl.Series) -> alt.Axis:
    """An axis of whole numbers: few have a tick each, since half a request has none."""
    most = int(values.max() or 0)  # type: ignore[arg-type]
    if most <= FEW:
        return alt.Axis(values=list(range(most + 1)), format="d")
    return alt.Axis(tickMinStep=1, format="d")


def step_chart(
    rows: pl.DataFrame, name: str, unit: str, subject: str, axis: alt.Axis | None = None
) -> alt.Chart:
    """A column of the steps against time, by phase.

    Args:
        rows: start_s, phase, `value` and the columns of the tooltip.
        name: what the y axis shows.
        unit: of it; may be empty.
        subject: of the chart, for screen readers.
        axis: the y axis; None for the usual one.
    """
    title = f"{name} ({unit})" if unit else name
    since = suit(rows["start_s"], SECONDS)
    rows = rows.with_columns(since=pl.col("start_s") / since.factor)
    y = alt.Y("value:Q", title=title, scale=alt.Scale(zero=True))
    chart = (
        alt.Chart(inline(rows))
        .mark_point(filled=True, size=36, opacity=0.85)
        .encode(
            x=alt.X(
                "since:Q",
                title=f"Time of the run ({since.symbol})",
                scale=alt.Scale(nice=False),
            ),
            y=y if axis is None else y.axis(axis),
            color=phase_colour(rows),
            tooltip=[
                alt.Tooltip("phase:N", title="phase"),
                alt.Tooltip("start_s:Q", title="from, s", format=".6~g"),
                alt.Tooltip("steps:Q", title="steps"),
                alt.Tooltip("requests:Q", title="requests", format=".3~g"),
                alt.Tooltip("tokens:Q", title="tokens", format=".4~g"),
                alt.Tooltip("p50_s:Q", title="median period, s", format=".6~g"),
            ],
        )
    )
    return finish(chart, subject, 210)


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """The period of steps, and how many requests are in the batch, over time."""
    drawn = []
    known = rows.drop_nulls("p50_s")
    if not known.is_empty():
        unit = suit(known["p50_s"], SECONDS)
        data = known.with_columns(value=pl.col("p50_s") / unit.factor)
        chart = step_chart(data, "Period of a step", unit.symbol, "Period of steps over time")
        note = "Each point is a step, or the median of neighbouring steps of a phase."
        drawn.append(Figure("Period of steps over time", chart, note, shape="wide"))
    batch = rows.drop_nulls("requests").with_columns(value="requests")
    if not batch.is_empty():
        name = "Requests in the batch"
        chart = step_chart(batch, name, "", f"{name} over time", counts(batch["value"]))
        drawn.append(Figure("Requests in the batch over time", chart, shape="wide"))
    return drawn


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many steps have a period."""
    measured = f"{total(rows, 'measured'):,} of {plural(total(rows, 'steps'), 'step')}"
    return f"Period known for {measured}."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """What is not known."""
    found = []
    unclear = total(rows.filter(pl.col("phase") == "step"), "steps")
    if unclear:
        found.append(
            f"Whether {plural(unclear, 'step')} prefill or decode is not known: the trace does not state the "
            "tokens of each request, and did not see all requests begin."
        )
    if total(rows, "measured") < total(rows, "steps"):
        found.append("A step has no period if its ops are not in the trace.")
    return found


def why_empty(facts: PageFacts) -> str:
    """Why there is no step of a server."""
    return "No server marks steps that serve several requests in this trace."


PANEL: Panel[PageFacts] = Panel(
    key="server-steps",
    title="Steps of the server",
    lede="A step serves several requests: it prefills, decodes, or does both. Its period is the time that it "
    "takes on its devices: from the end of the previous step to its own end, while requests are open.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
