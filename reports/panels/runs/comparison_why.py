"""Why one parallelism is faster than another: the shares of a step's time, and its wire bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import amount, place_in
from xlahouse.reports.charts.columns import (
    AXIS_COLUMN,
    PHASE_COLUMN,
    SHARE_COLUMNS,
    bytes_column,
    count_column,
    ps_column,
    text_column,
)
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.palette import TIME_COLOURS, axis_colours, present_colours
from xlahouse.reports.charts.panel import Figure, Panel, TableColumn, inline
from xlahouse.reports.charts.phases import by_phase, step_of
from xlahouse.reports.charts.theme import colour, finish, rows_height
from xlahouse.reports.charts.units import (
    BYTES,
    PICOSECONDS,
    show_exact,
    suit,
)
from xlahouse.reports.panels.runs.setups import (
    MEMBERS_SQL,
    RATED_SQL,
    best_setups,
    coverage,
    families,
    left_out,
)
from xlahouse.reports.panels.time.time_split import SHARE_SUMS, long_shares

STEP_TIME_SQL = f"""{MEMBERS_SQL.strip()}, {RATED_SQL}
select
    family,
    subject,
    batch_size,
    label,
    setup_key,
    phase,
    max(chip_tokens_per_s) as chip_tokens_per_s,
    cast(sum(device_steps) as bigint) as steps,
    {SHARE_SUMS},
    sum(window_ps) / nullif(sum(device_steps), 0) as step_ps
from comm_compute_v2
inner join members using (run_id)
left join rated using (setup_key)
where phase in ('prefill', 'decode')
group by family, subject, batch_size, label, setup_key, phase
order by family, phase desc, batch_size, step_ps, label, setup_key
"""

STEP_TIME_COLUMNS = (
    text_column("subject", "Workload"),
    text_column("label", "Parallelism"),
    PHASE_COLUMN,
    count_column("steps", "Device steps"),
    ps_column("step_ps", "Mean step"),
    *SHARE_COLUMNS,
)

# Bytes of a setup's runs over their devices' steps: comparable however many requests a run had.
WIRE_SQL = f"""{MEMBERS_SQL.strip()}, {RATED_SQL}, steps as (
    select setup_key, phase, sum(device_steps) as steps
    from comm_compute_v2
    inner join members using (run_id)
    group by setup_key, phase
), sums as (
    select
        family,
        subject,
        batch_size,
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
    group by family, subject, batch_size, label, setup_key, phase, axis
)
select
    family,
    subject,
    batch_size,
    label,
    sums.setup_key,
    sums.phase,
    axis,
    collectives,
    wire_bytes,
    chip_tokens_per_s,
    cast(steps as bigint) as steps,
    wire_bytes / nullif(steps, 0) as step_bytes,
    collectives / nullif(steps, 0) as step_collectives
from sums
left join steps on steps.setup_key = sums.setup_key and steps.phase = sums.phase
left join rated on rated.setup_key = sums.setup_key
order by family, sums.phase desc, batch_size, label, sums.setup_key, axis
"""

WIRE_COLUMNS = (
    text_column("subject", "Workload"),
    text_column("label", "Parallelism"),
    PHASE_COLUMN,
    AXIS_COLUMN,
    TableColumn("step_collectives", "Collectives per step", show_exact),
    bytes_column("step_bytes", "Wire bytes per step"),
    count_column("collectives", "Collectives"),
    bytes_column("wire_bytes", "Wire"),
)


def time_chart(rows: pl.DataFrame) -> alt.Chart:
    """Mean time of a device's step by batch and setup, stacked by share; the quickest of a batch first.

    Args:
        rows: rows of STEP_TIME_SQL of one family and phase, with `shown`.
    """
    data = long_shares(rows, ["setup_key", "shown", "label"]).with_columns(
        (pl.col("time_ps") / pl.col("steps")).alias("step_ps")
    )
    unit = suit(rows["step_ps"], PICOSECONDS)
    data = data.with_columns((pl.col("step_ps") / unit.factor).alias("amount"))
    present = present_colours(TIME_COLOURS, data["share"])
    chart = _bars(data, f"Mean step of a device ({unit.symbol})").encode(
        color=colour("share", present, column_width=210),
        tooltip=[
            alt.Tooltip("label:N", title="parallelism"),
            alt.Tooltip("share:N", title="share"),
            alt.Tooltip("ratio:Q", title="of the window", format=".2%"),
            alt.Tooltip("amount:Q", title=f"per step, {unit.symbol}", format=",.4~g"),
            alt.Tooltip("steps:Q", title="device steps", format=","),
        ],
    )
    return finish(chart, "Time of a step by parallelism", _height(data))


def wire_chart(rows: pl.DataFrame) -> alt.Chart:
    """Wire bytes that a device sends in a step by batch and setup, stacked by axis; the fewest first.

    Args:
        rows: rows of WIRE_SQL of one family and phase, with `shown`.
    """
    known = rows.drop_nulls("step_bytes")
    sums = known.group_by("setup_key").agg(pl.col("step_bytes").sum().alias("whole"))
    unit = suit(sums["whole"], BYTES)
    colours = axis_colours(known["axis"])
    data = (
        known.join(sums, on="setup_key")
        .with_columns(
            (pl.col("step_bytes") / unit.factor).alias("amount"),
            place_in(colours, "axis"),
        )
        .sort("batch_size", "whole", "setup_key", "place")
    )
    chart = _bars(data, f"Wire bytes a device sends in a step ({unit.symbol})").encode(
        color=colour("axis", colours, column_width=90),
        tooltip=[
            alt.Tooltip("label:N", title="parallelism"),
            alt.Tooltip("axis:N", title="axis"),
            alt.Tooltip("amount:Q", title=f"wire bytes per step, {unit.symbol}", format=",.4~g"),
            alt.Tooltip("step_collectives:Q", title="collectives per step", format=",.4~g"),
        ],
    )
    return finish(chart, "Wire bytes of a step by parallelism and axis", _height(data))


def _bars(data: pl.DataFrame, title: str) -> alt.Chart:
    return (
        alt.Chart(inline(data))
        .mark_bar(cornerRadius=1)
        .encode(
            y=alt.Y("shown:N", sort=None, title=None),
            x=amount("amount", title),
            order=alt.Order("place:Q"),
        )
    )


def _height(data: pl.DataFrame) -> int:
    return rows_height(data["setup_key"].n_unique(), 24)


def time_figures(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[Figure]:
    """Per model and lengths a chart of each phase."""
    return [
        Figure(f"Time of a {step_of(phase)}: {family}", time_chart(part))
        for family, phase, part in _by_family_and_phase(rows)
    ]


def wire_figures(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[Figure]:
    """Per model and lengths a chart of each phase of which bytes are known."""
    known = rows.drop_nulls("step_bytes")
    return [
        Figure(f"Wire bytes of a {step_of(phase)}: {family}", wire_chart(part))
        for family, phase, part in _by_family_and_phase(known)
    ]


def _by_family_and_phase(rows: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    for family, whole in families(rows) if len(rows) else ():
        # Rows have the phases in this order, too.
        for phase, part in by_phase(best_setups(whole)):
            yield family, phase, part


def wire_notes(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[str]:
    """What is missing."""
    lost = rows.filter(pl.col("step_bytes").is_null())
    names = ", ".join(lost["label"].unique(maintain_order=True))
    unknown = [f"Not drawn: traffic of unknown size in {names}."] if names else []
    return [*unknown, *left_out(rows)]


TIME: Panel[Sequence[PageFacts]] = Panel(
    key="step-time",
    title="Why: where the time within a step goes",
    lede="Mean over the steps of all traced devices of a setup's runs, from the first op of a step to its "
    "last. The time between steps, which is part of TPOT, is left out. Exposed communication: not hidden by "
    "a compute op.",
    sql=STEP_TIME_SQL,
    columns=STEP_TIME_COLUMNS,
    figures=time_figures,
    coverage=coverage,
    why_empty=lambda runs: (
        "No run has steps that are marked as prefill or decode on a traced device."
    ),
    notes=lambda rows, runs: left_out(rows),
)

WIRE: Panel[Sequence[PageFacts]] = Panel(
    key="step-wire",
    title="Why: wire bytes of a step",
    lede="Mean wire bytes that a traced device sends in a step, by the mesh axis that its collectives span. "
    "A setup without a bar sends nothing.",
    sql=WIRE_SQL,
    columns=WIRE_COLUMNS,
    figures=wire_figures,
    coverage=coverage,
    why_empty=lambda runs: "No run has a collective in a step that is marked as prefill or decode.",
    notes=wire_notes,
)
