"""How long the steps of a compiled run would take, as intervals, and what they rest on."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.columns import count_column, dashed_column, ps_column, text_column
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.palette import TIME_COLOURS
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.theme import finish, rows_height
from xlahouse.reports.charts.units import PICOSECONDS, show_ps, suit

SQL = """
select
    f.phase, f.metric, f.change, f.optimistic_ps, f.pessimistic_ps, f.clock_hz, f.clock_source, c.part,
    c.origin, c.executions, c.optimistic_ps as part_optimistic_ps, c.pessimistic_ps as part_pessimistic_ps
from forecast as f
left join forecast_costs as c
    on c.run_id = f.run_id and c.phase = f.phase and c.change is not distinct from f.change
where f.run_id = $run
order by f.change nulls first, f.metric desc, c.pessimistic_ps desc, c.part, c.origin
"""

COLUMNS = (
    text_column("metric", "Step", str.upper),
    dashed_column("change", "Change"),
    text_column("part", "Part"),
    text_column("origin", "At worst by"),
    count_column("executions", "Executions"),
    ps_column("part_optimistic_ps", "At best"),
    ps_column("part_pessimistic_ps", "At worst"),
)


def interval_chart(steps: pl.DataFrame) -> alt.Chart:
    """A bar from the best to the worst time of each step."""
    unit = suit(steps["pessimistic_ps"], PICOSECONDS)
    data = steps.with_columns(
        pl.concat_str(
            pl.col("metric").str.to_uppercase(), "change", separator=", ", ignore_nulls=True
        ),
        (pl.col("optimistic_ps") / unit.factor).alias("best"),
        (pl.col("pessimistic_ps") / unit.factor).alias("worst"),
    )
    chart = (
        alt.Chart(inline(data))
        .mark_bar(
            fillOpacity=0, stroke=TIME_COLOURS["compute"], strokeWidth=2, cornerRadius=1, height=14
        )
        .encode(
            y=alt.Y("metric:N", title=None, sort=None),
            x=alt.X("best:Q", title=f"Predicted time of a step ({unit.symbol})"),
            x2="worst:Q",
            tooltip=[
                alt.Tooltip("metric:N", title="step"),
                alt.Tooltip("best:Q", title=f"at best, {unit.symbol}", format=",.4~g"),
                alt.Tooltip("worst:Q", title=f"at worst, {unit.symbol}", format=",.4~g"),
            ],
        )
    )
    return finish(chart, "Predicted time of a step, from best to worst", rows_height(data.height))


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """One chart of all steps."""
    note = "Hollow: predicted."
    return [Figure("Predicted steps", interval_chart(_steps(rows)), note, shape="wide")]


def verdict(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """The intervals, and whether any hardware has confirmed them."""
    said = [
        f"{row['metric'].upper()}{_with(row['change'])} would lie between "
        f"{show_ps(row['optimistic_ps'])} and {show_ps(row['pessimistic_ps'])} on the devices."
        for row in _steps(rows).iter_rows(named=True)
    ]
    return said if facts.compared else [*said, "Not validated on hardware."]


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """What the intervals leave out, and the clock."""
    first = rows.row(0, named=True)
    return [
        "Without the host, skew between devices, and requests that wait.",
        f"Cycles are times at {first['clock_hz'] / 1e9:.4g} GHz ({first['clock_source']}).",
    ]


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """What is forecast."""
    return "One execution of each compiled program; parts are before any overlap."


def why_empty(facts: PageFacts) -> str:
    """It was not asked for yet."""
    return f"No forecast was made: `xlahouse predict {facts.run_id}` makes one."


def _steps(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.unique(["phase", "change"], keep="first", maintain_order=True)


def _with(change: str | None) -> str:
    return f" with {change}" if change else ""


PANEL: Panel[PageFacts] = Panel(
    key="forecast",
    title="Forecast",
    lede="The time of a step that never ran, as an interval: at best by the peaks of math, HBM and links, "
    "with all overlap of the schedule; at worst by the compiler's cycles and transfers one after another.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    verdict=verdict,
    notes=notes,
    applies=lambda facts: facts.compiled,
)
