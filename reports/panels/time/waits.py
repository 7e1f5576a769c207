"""How long devices wait in barriers, by the axis of the collective that follows."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import amount, stacked_bars
from xlahouse.reports.charts.columns import (
    DEVICE_COLUMN,
    PHASE_COLUMN,
    count_column,
    ps_column,
    ratio_column,
    text_column,
)
from xlahouse.reports.charts.devices import chosen_devices, device_axis
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.palette import axis_colours
from xlahouse.reports.charts.panel import Figure, Panel
from xlahouse.reports.charts.phases import MEASURED, PHASE, by_phase, phase_order, step_of
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.units import (
    PICOSECONDS,
    plural,
    show_ps,
    suit,
)

# Steps without waits have no rows in sync_wait: device_time gives all the steps to take the mean over.
SQL = f"""
with windows as (
    select
        {PHASE} as phase,
        device_id,
        count(*) as steps,
        cast(sum(window_ps) as bigint) as window_ps
    from device_time_v1
    where run_id = $run and core is distinct from 'sparsecore' and {MEASURED}
    group by all
), waits as (
    select
        {PHASE} as phase,
        device_id,
        coalesce(axis, 'no collective') as axis,
        cast(sum(wait_count) as bigint) as waits,
        cast(sum(sync_wait_ps) as bigint) as sync_wait_ps
    from sync_wait_v1
    where run_id = $run and {MEASURED}
    group by all
)
select
    phase, device_id, axis, waits, sync_wait_ps, steps, window_ps,
    sync_wait_ps / nullif(window_ps, 0) as ratio
from waits
inner join windows using (phase, device_id)
order by {phase_order()}, device_id, axis
"""

COLUMNS = (
    PHASE_COLUMN,
    DEVICE_COLUMN,
    text_column("axis", "Before a collective on"),
    count_column("waits", "Waits"),
    ps_column("sync_wait_ps", "Sync wait"),
    count_column("steps", "Steps"),
    ps_column("window_ps", "Window"),
    ratio_column("ratio", "Of the window"),
)


_WAIT_OF_STEP = pl.col("sync_wait_ps").sum() / pl.col("steps").max()


def device_chart(rows: pl.DataFrame, phase: str) -> alt.Chart:
    """Mean wait of a step on each device, stacked by axis.

    Args:
        rows: rows of SQL of one phase.
        phase: its name, for screen readers.
    """
    data = rows.with_columns((pl.col("sync_wait_ps") / pl.col("steps")).alias("step_ps"))
    unit = suit(data.group_by("device_id").agg(pl.col("step_ps").sum())["step_ps"], PICOSECONDS)
    return stacked_bars(
        data.with_columns((pl.col("step_ps") / unit.factor).alias("amount")),
        device_axis(rows),
        amount("amount", f"Mean wait of a step ({unit.symbol})"),
        "axis",
        axis_colours(rows["axis"]),
        [
            alt.Tooltip("device_id:O", title="device"),
            alt.Tooltip("axis:N", title="axis"),
            alt.Tooltip("ratio:Q", title="of the window", format=".3%"),
            alt.Tooltip("sync_wait_ps:Q", title="wait of all steps, ps", format=","),
            alt.Tooltip("waits:Q", title="waits", format=","),
            alt.Tooltip("steps:Q", title="steps", format=","),
        ],
        f"Mean wait of a {step_of(phase)} by device and axis",
    )


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """A chart for each phase."""
    drawn = []
    for phase, part in by_phase(rows):
        shown, left_out = chosen_devices(part, facts, _WAIT_OF_STEP, show_ps)
        note = "The device that waits least arrives last." + left_out
        title = f"{phase.capitalize()}: mean wait of a step by device"
        drawn.append(Figure(title, device_chart(shown, phase), note))
    return drawn


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many waits are drawn."""
    devices = plural(rows["device_id"].n_unique(), "device")
    return f"{plural(total(rows, 'waits'), 'wait')} of {devices}."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Waits of no axis."""
    found = facts.circuit_notes()
    if "no collective" in set(rows["axis"]):
        found.append("Barriers without a collective after them have no axis.")
    return found


def why_empty(facts: PageFacts) -> str:
    """Why no wait is drawn."""
    if not facts.traced:
        return "The trace has no device events, so it does not say when devices waited."
    if facts.inferred:
        return (
            "Virtual devices have no barriers of their own in the trace; their waits are "
            "part of the collectives."
        )
    return "The trace has no barrier within a step; waiting is part of the time of collectives."


PANEL: Panel[PageFacts] = Panel(
    key="waits",
    title="Sync wait",
    lede="Time that a device waits for other devices in barriers (barrier-cores) before a "
    "collective, by the axis of the collective.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
