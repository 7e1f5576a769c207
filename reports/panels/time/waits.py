"""How long devices wait in barriers for others, by the axis of the collective that follows."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import amount, stacked_bars
from xlahouse.reports.charts.facts import RunFacts
from xlahouse.reports.charts.palette import axis_colours
from xlahouse.reports.charts.panel import Column, Figure, Panel
from xlahouse.reports.charts.phases import MEASURED, PHASE, phase_order
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.units import (
    PICOSECONDS,
    plural,
    show_count,
    show_exact,
    show_ps,
    show_ratio,
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
    Column("phase", "Phase", numeric=False),
    Column("device_id", "Device", show_count),
    Column("axis", "Before a collective on", numeric=False),
    Column("waits", "Waits", show_count),
    Column("sync_wait_ps", "Sync wait", show_ps, show_exact),
    Column("steps", "Steps", show_count),
    Column("window_ps", "Window", show_ps, show_exact),
    Column("ratio", "Of the window", show_ratio, show_exact),
)

MAX_DEVICES = 64


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
        alt.Y("device_id:O", title="Device"),
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
        f"Mean wait of a {phase} step by device and axis",
    )


def figures(rows: pl.DataFrame, facts: RunFacts) -> list[Figure]:
    """A chart for each phase."""
    drawn = []
    for phase in rows["phase"].unique(maintain_order=True):
        part = rows.filter(pl.col("phase") == phase)
        devices = part["device_id"].unique(maintain_order=True).to_list()
        note = "Who waits least comes last."
        if len(devices) > MAX_DEVICES:
            part = part.filter(pl.col("device_id").is_in(devices[:MAX_DEVICES]))
            note += f" The first {MAX_DEVICES} of {plural(len(devices), 'device')} are drawn."
        title = f"{phase.capitalize()}: mean wait of a step by device"
        drawn.append(Figure(title, device_chart(part, phase), note))
    return drawn


def coverage(rows: pl.DataFrame, facts: RunFacts) -> str:
    """How many waits are drawn."""
    devices = plural(rows["device_id"].n_unique(), "device")
    return f"{plural(total(rows, 'waits'), 'wait')} of {devices}; {facts.covered()}"


def notes(rows: pl.DataFrame, facts: RunFacts) -> list[str]:
    """Waits of no axis."""
    if "no collective" in set(rows["axis"]):
        return ["Barriers that stand before no collective have no axis."]
    return []


def why_empty(facts: RunFacts) -> str:
    """Why no wait is drawn."""
    if facts.row["traced_devices"] == 0:
        return "The trace holds no device events, so it does not say when devices waited."
    if facts.inferred:
        return (
            "Virtual devices have no barriers of their own in the trace; their waits are "
            "part of the collectives."
        )
    return "The trace holds no barrier within a step; what devices wait is part of their collectives' time."


PANEL: Panel[RunFacts] = Panel(
    key="waits",
    title="Sync wait",
    lede="Time in barriers (barrier-cores) before a collective, while the device holds still for others, by "
    "the collective's axis.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
