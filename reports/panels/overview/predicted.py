"""Where the time of a predicted run's steps goes, beside the measured run that was replayed."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.columns import PHASE_COLUMN, count_column, ps_column, text_column
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.palette import (
    CAUSE_COLOURS,
    CIRCUIT_COLOUR,
    TIME_COLOURS,
    present_colours,
)
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.phases import PHASE, by_phase, phase_order, step_of
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import colour, finish, rows_height
from xlahouse.reports.charts.units import PICOSECONDS, plural, show_ps, suit

PARTS = TIME_COLOURS | {
    "circuit wait": CIRCUIT_COLOUR,
    "before the step": CAUSE_COLOURS["between steps"],
}
_PLACES = " ".join(f"when '{part}' then {place}" for place, part in enumerate(PARTS))

SQL = f"""
select phase_name as phase, part, steps, measured_ps, predicted_ps, predicted_ps - measured_ps as change_ps
from (select *, {PHASE} as phase_name from predicted_split where run_id = $run)
order by {phase_order("phase_name")}, case part {_PLACES} end
"""

COLUMNS = (
    PHASE_COLUMN,
    text_column("part", "Part of a step"),
    count_column("steps", "Device steps"),
    ps_column("measured_ps", "Measured"),
    ps_column("predicted_ps", "Predicted"),
    ps_column("change_ps", "Difference"),
)


def parts_chart(rows: pl.DataFrame, phase: str) -> alt.Chart:
    """Each part of a phase's mean step: filled as measured, hollow as predicted."""
    long = rows.unpivot(
        ["measured_ps", "predicted_ps"], index="part", variable_name="of", value_name="time_ps"
    ).drop_nulls("time_ps")
    unit = suit(long["time_ps"], PICOSECONDS)
    data = long.with_columns((pl.col("time_ps") / unit.factor).alias("amount"))
    y = alt.Y("part:N", title=None, sort=list(PARTS))
    x = alt.X(
        "amount:Q", title=f"Mean of a device's step ({unit.symbol})", axis=alt.Axis(tickCount=5)
    )
    hue = colour("part", present_colours(PARTS, data["part"]), column_width=170)
    layers = []
    for name, filled in (("measured_ps", True), ("predicted_ps", False)):
        said = name.removesuffix("_ps")
        tooltip = [
            alt.Tooltip("part:N", title="part"),
            alt.Tooltip("amount:Q", title=f"{said}, {unit.symbol}", format=",.4~g"),
        ]
        points = alt.Chart(inline(data.filter(pl.col("of") == name)))
        points = points.mark_point(
            filled=filled, size=90 if filled else 200, opacity=1, strokeWidth=2
        )
        layers.append(points.encode(x=x, y=y, color=hue, tooltip=tooltip))
    title = f"Parts of a {step_of(phase)}, measured and predicted"
    return finish(alt.layer(*layers), title, rows_height(data["part"].n_unique()))


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """A chart of each phase."""
    return [
        Figure(
            f"{phase.capitalize()}: parts of a step",
            parts_chart(part, phase),
            "Filled: measured. Hollow: predicted.",
        )
        for phase, part in by_phase(rows)
    ]


def verdict(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """What a device's mean step becomes; the page's banner says that no hardware has confirmed it."""
    said = []
    for phase, part in by_phase(rows):
        before, after = total(part, "measured_ps"), total(part, "predicted_ps")
        if before and part.drop_nulls(["measured_ps", "predicted_ps"]).height == part.height:
            change = f"{100 * (after / before - 1):+.1f} %"
            said.append(
                f"A {step_of(phase)}'s mean period of a device is {show_ps(before)} measured and "
                f"{show_ps(after)} predicted ({change})."
            )
    return said


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many steps the means are over."""
    once = rows.unique(["phase"], maintain_order=True)
    return f"{plural(total(once, 'steps'), 'device step')}."


def why_empty(facts: PageFacts) -> str:
    """An older xlahouse wrote the run."""
    return "The run was predicted by an earlier xlahouse; predict it again."


PANEL: Panel[PageFacts] = Panel(
    key="predicted",
    title="Measured and predicted",
    lede="The mean period of a device's step in parts: as measured in the run that was replayed, and as "
    "predicted. Each instant counts once, in this order; the time before the step is that since the "
    "device's previous step, so a device's first step has none. Over optical circuits, time that was "
    "exposed, or waited for a device, until circuits were ready is circuit wait instead.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    verdict=verdict,
    open_table=True,
    applies=lambda facts: facts.predicted,
)
