"""Why one parallelism is quicker than another: what a step's time is made of, and what it sends."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from xlahouse.reports.charts.facts import RunFacts
from xlahouse.reports.charts.palette import TIME_COLOURS, axis_colours
from xlahouse.reports.charts.panel import Column, Figure, Panel, inline
from xlahouse.reports.charts.theme import colour, finish, rows_height
from xlahouse.reports.charts.units import (
    BYTES,
    PICOSECONDS,
    show_bytes,
    show_count,
    show_exact,
    show_ps,
    suit,
)
from xlahouse.reports.panels.runs.setups import (
    MEMBERS_SQL,
    coverage,
    left_out,
    subjects,
    virtual_note,
)
from xlahouse.reports.panels.time.time_split import long_shares

PHASES = ("prefill", "decode")

TIME_SQL = f"""{MEMBERS_SQL.strip()}
select
    subject,
    label,
    setup_key,
    phase,
    cast(sum(device_steps) as bigint) as steps,
    cast(sum(window_ps) as bigint) as window_ps,
    cast(sum(compute_ps) as bigint) as compute_ps,
    cast(sum(exposed_ps) as bigint) as exposed_ps,
    cast(sum(exposed_copy_ps) as bigint) as exposed_copy_ps,
    cast(sum(sync_wait_ps) as bigint) as sync_wait_ps,
    cast(sum(idle_ps) as bigint) as idle_ps,
    sum(window_ps) / nullif(sum(device_steps), 0) as step_ps
from comm_compute_v1
inner join members using (run_id)
where phase in ('prefill', 'decode')
group by subject, label, setup_key, phase
order by subject, phase desc, step_ps, label, setup_key
"""

TIME_COLUMNS = (
    Column("subject", "Workload", numeric=False),
    Column("label", "Parallelism", numeric=False),
    Column("phase", "Phase", numeric=False),
    Column("steps", "Device steps", show_count),
    Column("step_ps", "Mean step", show_ps, show_exact),
    Column("compute_ps", "Compute", show_ps, show_exact),
    Column("exposed_ps", "Exposed comm.", show_ps, show_exact),
    Column("exposed_copy_ps", "Exposed copy", show_ps, show_exact),
    Column("sync_wait_ps", "Sync wait", show_ps, show_exact),
    Column("idle_ps", "Idle", show_ps, show_exact),
)

# Bytes of a setup's runs over their devices' steps: comparable however many requests a run had.
WIRE_SQL = f"""{MEMBERS_SQL.strip()}, steps as (
    select setup_key, phase, sum(device_steps) as steps
    from comm_compute_v1
    inner join members using (run_id)
    group by setup_key, phase
), sums as (
    select
        subject,
        label,
        setup_key,
        phase,
        axis,
        cast(sum(collectives) as bigint) as collectives,
        case when count(wire_bytes) = count(*) then cast(sum(wire_bytes) as double) end
            as wire_bytes
    from traffic_volume_v1
    inner join members using (run_id)
    where phase in ('prefill', 'decode')
    group by subject, label, setup_key, phase, axis
)
select
    subject,
    label,
    sums.setup_key,
    sums.phase,
    axis,
    collectives,
    wire_bytes,
    cast(steps as bigint) as steps,
    wire_bytes / nullif(steps, 0) as step_bytes,
    collectives / nullif(steps, 0) as step_collectives
from sums
left join steps on steps.setup_key = sums.setup_key and steps.phase = sums.phase
order by subject, sums.phase desc, label, sums.setup_key, axis
"""

WIRE_COLUMNS = (
    Column("subject", "Workload", numeric=False),
    Column("label", "Parallelism", numeric=False),
    Column("phase", "Phase", numeric=False),
    Column("axis", "Axis", numeric=False),
    Column("step_collectives", "Collectives a step", show_exact),
    Column("step_bytes", "Wire a step", show_bytes, show_exact),
    Column("collectives", "Collectives", show_count),
    Column("wire_bytes", "Wire", show_bytes, show_exact),
)


def time_chart(rows: pl.DataFrame) -> alt.Chart:
    """Mean time of a device's step by setup, stacked by share; the quickest first.

    Args:
        rows: rows of TIME_SQL of one subject and phase, with `shown`.
    """
    data = long_shares(rows, ["setup_key", "shown", "label"]).with_columns(
        (pl.col("time_ps") / pl.col("steps")).alias("step_ps")
    )
    unit = suit(rows["step_ps"], PICOSECONDS)
    data = data.with_columns((pl.col("step_ps") / unit.factor).alias("amount"))
    present = {share: hue for share, hue in TIME_COLOURS.items() if share in set(data["share"])}
    chart = _bars(data, f"Mean step of a device ({unit.symbol})").encode(
        color=colour("share", present, column_width=170),
        tooltip=[
            alt.Tooltip("label:N", title="parallelism"),
            alt.Tooltip("share:N", title="share"),
            alt.Tooltip("ratio:Q", title="of the window", format=".2%"),
            alt.Tooltip("step_ps:Q", title="a step, ps", format=",.0f"),
            alt.Tooltip("steps:Q", title="device steps", format=","),
        ],
    )
    return finish(chart, "Time of a step by parallelism", _height(data))


def wire_chart(rows: pl.DataFrame) -> alt.Chart:
    """Wire bytes that a device sends in a step by setup, stacked by axis; the fewest first.

    Args:
        rows: rows of WIRE_SQL of one subject and phase, with `shown`.
    """
    known = rows.drop_nulls("step_bytes")
    sums = known.group_by("setup_key").agg(pl.col("step_bytes").sum().alias("whole"))
    unit = suit(sums["whole"], BYTES)
    colours = axis_colours(known["axis"])
    place = {axis: k for k, axis in enumerate(colours)}
    data = (
        known.join(sums, on="setup_key")
        .with_columns(
            (pl.col("step_bytes") / unit.factor).alias("amount"),
            pl.col("axis").replace_strict(place, return_dtype=pl.Int64).alias("place"),
        )
        .sort("whole", "setup_key", "place")
    )
    chart = _bars(data, f"Wire bytes a device sends in a step ({unit.symbol})").encode(
        color=colour("axis", colours, column_width=90),
        tooltip=[
            alt.Tooltip("label:N", title="parallelism"),
            alt.Tooltip("axis:N", title="axis"),
            alt.Tooltip("step_bytes:Q", title="wire bytes a step", format=",.9~g"),
            alt.Tooltip("step_collectives:Q", title="collectives a step", format=",.4~g"),
        ],
    )
    return finish(chart, "Wire bytes of a step by parallelism and axis", _height(data))


def _bars(data: pl.DataFrame, title: str) -> alt.Chart:
    return (
        alt.Chart(inline(data))
        .mark_bar(cornerRadius=1)
        .encode(
            y=alt.Y("shown:N", sort=None, title=None),
            x=alt.X("amount:Q", title=title, axis=alt.Axis(tickCount=5)),
            order=alt.Order("place:Q"),
        )
    )


def _height(data: pl.DataFrame) -> int:
    return rows_height(data["setup_key"].n_unique(), 24)


def time_figures(rows: pl.DataFrame, runs: Sequence[RunFacts]) -> list[Figure]:
    """Per workload a chart of each phase."""
    return [
        Figure(f"A {phase} step: {subject}", time_chart(part.filter(pl.col("phase") == phase)))
        for subject, part in subjects(rows)
        for phase in PHASES
        if phase in set(part["phase"])
    ]


def wire_figures(rows: pl.DataFrame, runs: Sequence[RunFacts]) -> list[Figure]:
    """Per workload a chart of each phase of which bytes are known."""
    known = rows.drop_nulls("step_bytes")
    return [
        Figure(f"Sent in a {phase} step: {subject}", wire_chart(part.filter(pl.col("phase") == phase)))
        for subject, part in (subjects(known) if len(known) else [])
        for phase in PHASES
        if phase in set(part["phase"])
    ]  # fmt: skip


def time_notes(rows: pl.DataFrame, runs: Sequence[RunFacts]) -> list[str]:
    """What times are not, and what is left out."""
    return [*virtual_note(runs), *left_out(rows)]


def wire_notes(rows: pl.DataFrame, runs: Sequence[RunFacts]) -> list[str]:
    """What is missing."""
    lost = rows.filter(pl.col("step_bytes").is_null())
    names = ", ".join(lost["label"].unique(maintain_order=True))
    unknown = [f"Not drawn: traffic of unknown size in {names}."] if names else []
    return [*unknown, *left_out(rows)]


TIME: Panel[Sequence[RunFacts]] = Panel(
    key="step-time",
    title="Why: what a step's time is made of",
    lede="Mean over the steps of all traced devices of a setup's runs; exposed communication is what no "
    "compute op hides.",
    sql=TIME_SQL,
    columns=TIME_COLUMNS,
    figures=time_figures,
    coverage=coverage,
    why_empty=lambda runs: (
        "No run has steps that are marked as prefill or decode on a traced device."
    ),
    notes=time_notes,
)

WIRE: Panel[Sequence[RunFacts]] = Panel(
    key="step-wire",
    title="Why: what a step sends",
    lede="Mean wire bytes that a traced device sends in a step, by the mesh axis that its collectives span. "
    "A setup without a bar sends nothing.",
    sql=WIRE_SQL,
    columns=WIRE_COLUMNS,
    figures=wire_figures,
    coverage=coverage,
    why_empty=lambda runs: "No run has a collective in a step that is marked as prefill or decode.",
    notes=wire_notes,
)
