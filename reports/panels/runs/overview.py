"""How much each run sends, and where its time goes: all runs side by side, for the index."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import amount, percent, place_in
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
from xlahouse.reports.charts.labels import NAME_ABOVE, clipped
from xlahouse.reports.charts.palette import (
    CAUSE_COLOURS,
    RESERVE_COLOURS,
    TIME_COLOURS,
    axis_colours,
    present_colours,
)
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.phases import MEASURED, PHASE
from xlahouse.reports.charts.theme import INK, colour, finish, rows_height
from xlahouse.reports.charts.units import (
    BYTES,
    plural,
    show_bytes,
    suit,
)
from xlahouse.reports.panels.time.time_split import SHARES

# More bars are unreadable; the table has every run.
MAX_RUNS = 30

TRAFFIC_SQL = f"""
select
    runs.run_id,
    coalesce(name, runs.run_id) as run,
    axis,
    count(distinct device_id) as devices,
    cast(sum(collectives) as bigint) as collectives,
    case when count(wire_bytes) = count(*) then cast(sum(wire_bytes) as double) end as wire_bytes
from traffic_volume_v1
inner join runs on runs.run_id = traffic_volume_v1.run_id
where list_contains($runs, runs.run_id) and {MEASURED}
group by runs.run_id, name, axis
order by run, runs.run_id, axis
"""

TRAFFIC_COLUMNS = (
    text_column("run", "Run"),
    AXIS_COLUMN,
    count_column("devices", "Devices"),
    count_column("collectives", "Collectives"),
    bytes_column("wire_bytes", "Wire"),
)

RUN_TIME_SQL = f"""
select
    runs.run_id,
    coalesce(name, runs.run_id) as run,
    {PHASE} as phase,
    device_steps as steps,
    window_ps,
    compute_ps,
    exposed_ps,
    exposed_copy_ps,
    sync_wait_ps,
    idle_ps,
    between_steps_ps,
    outside_ps
from comm_compute_v2
inner join runs on runs.run_id = comm_compute_v2.run_id
where list_contains($runs, runs.run_id) and {MEASURED}
order by run, runs.run_id, phase
"""

RUN_TIME_COLUMNS = (
    text_column("run", "Run"),
    PHASE_COLUMN,
    count_column("steps", "Device steps"),
    ps_column("window_ps", "Window"),
    *SHARE_COLUMNS,
    ps_column("between_steps_ps", "Between steps"),
    ps_column("outside_ps", "Ops of no step"),
)
# Column -> part of a device's wall time; the last two are not known where clocks cannot be compared.
_OUTSIDE = {"between_steps_ps": "between steps", "outside_ps": "ops of no step"}
_PARTS = SHARES | _OUTSIDE
_PART_COLOURS = TIME_COLOURS | {
    "between steps": CAUSE_COLOURS["between steps"],
    "ops of no step": RESERVE_COLOURS[4],
}


def traffic_chart(rows: pl.DataFrame) -> alt.Chart:
    """Wire bytes of each run, stacked by axis.

    Args:
        rows: run_id, run, axis, wire_bytes, collectives.
    """
    known = rows.drop_nulls("wire_bytes")
    sums = known.group_by("run_id", maintain_order=True).agg(pl.col("wire_bytes").sum())
    unit = suit(sums["wire_bytes"], BYTES)
    amounts = {run_id: show_bytes(whole) for run_id, whole in sums.iter_rows()}
    colours = axis_colours(known["axis"])
    data = known.with_columns(
        (pl.col("wire_bytes") / unit.factor).alias("amount"), place_in(colours, "axis")
    )
    bars = _bars(data).encode(
        x=amount("amount", f"Wire bytes sent, all devices ({unit.symbol})"),
        color=colour("axis", colours, column_width=110),
        order=alt.Order("place:Q"),
        tooltip=[
            alt.Tooltip("run:N", title="run"),
            alt.Tooltip("axis:N", title="axis"),
            alt.Tooltip("wire_bytes:Q", title="wire bytes", format=",.15~g"),
            alt.Tooltip("collectives:Q", title="collectives", format=","),
        ],
    )
    height = rows_height(data["run_id"].n_unique(), _STEP)
    return finish(alt.layer(bars, _names(data, amounts)), "Wire bytes by run and axis", height)


def time_chart(rows: pl.DataFrame) -> alt.Chart:
    """Shares of the devices' wall time in each run, all phases together.

    Args:
        rows: rows of RUN_TIME_SQL.
    """
    data = time_parts(rows)
    bars = _bars(data).encode(
        x=percent("ratio", "Share of the devices' wall time (%)", 1),
        color=colour("share", present_colours(_PART_COLOURS, data["share"]), column_width=170),
        order=alt.Order("place:Q"),
        tooltip=[
            alt.Tooltip("run:N", title="run"),
            alt.Tooltip("share:N", title="share"),
            alt.Tooltip("ratio:Q", title="of the wall time", format=".2%"),
            alt.Tooltip("time_ps:Q", title="time, ps", format=","),
            alt.Tooltip("steps:Q", title="device steps", format=","),
        ],
    )
    height = rows_height(data["run_id"].n_unique(), _STEP)
    return finish(alt.layer(bars, _names(data)), "Time split by run", height)


def time_parts(rows: pl.DataFrame) -> pl.DataFrame:
    """One row per run and part that took time: run_id, run, steps, share, place, time_ps, ratio.

    The whole is the periods of a run's steps; of a run whose time between steps is not known in every
    phase, their windows.

    Args:
        rows: rows of RUN_TIME_SQL.
    """
    known = pl.all_horizontal(pl.col(*_OUTSIDE).is_not_null().all())
    sums = rows.group_by("run_id", "run", maintain_order=True).agg(
        pl.col("steps", *SHARES).sum(),
        *(pl.when(known).then(pl.col(name).sum()).otherwise(0).alias(name) for name in _OUTSIDE),
    )
    sums = sums.with_columns(pl.sum_horizontal(*_PARTS).alias("whole_ps"))
    long = sums.unpivot(
        list(_PARTS),
        index=["run_id", "run", "steps", "whole_ps"],
        variable_name="share",
        value_name="time_ps",
    ).with_columns(pl.col("share").replace_strict(_PARTS, return_dtype=pl.String))
    return long.filter(pl.col("time_ps") > 0).with_columns(
        place_in(_PARTS.values(), "share"), (pl.col("time_ps") / pl.col("whole_ps")).alias("ratio")
    )


_STEP = 46


def _bars(data: pl.DataFrame) -> alt.Chart:
    # The name is above its bar: beside it, a phone would have no room left for the bar.
    return (
        alt.Chart(inline(data))
        .mark_bar(cornerRadius=1, height=18, yOffset=9)
        .encode(y=alt.Y("run_id:N", sort=None, title=None, axis=None))
    )


def _names(data: pl.DataFrame, amounts: dict[str, str] | None = None) -> alt.Chart:
    """Each run's name above its bar, with its amount: beside a large run a small one has no bar."""
    names = data.select("run_id", "run").unique(maintain_order=True)
    names = names.with_columns(clipped(pl.col("run"), NAME_ABOVE).alias("label"))
    if amounts is not None:
        said = pl.col("run_id").replace_strict(amounts, return_dtype=pl.String)
        names = names.with_columns(pl.concat_str("label", pl.lit(": "), said).alias("label"))
    return (
        alt.Chart(inline(names))
        .mark_text(align="left", baseline="middle", dy=-12, color=INK)
        .encode(
            y=alt.Y("run_id:N", sort=None, axis=None),
            x=alt.value(0),
            text="label:N",
            tooltip="run:N",
        )
    )


def _first_runs(rows: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    runs = rows["run_id"].unique(maintain_order=True)
    note = f"The first {MAX_RUNS} of {plural(len(runs), 'run')}." if len(runs) > MAX_RUNS else ""
    return rows.filter(pl.col("run_id").is_in(runs.head(MAX_RUNS).to_list())), note


def traffic_figures(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[Figure]:
    """One chart over runs."""
    shown, note = _first_runs(rows)
    if shown["wire_bytes"].is_null().all():
        return []
    return [
        Figure("Wire bytes of each run, by mesh axis", traffic_chart(shown), note, shape="wide")
    ]


def time_figures(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[Figure]:
    """One chart over runs."""
    shown, note = _first_runs(rows)
    return [Figure("Where each run's time goes", time_chart(shown), note, shape="wide")]


def coverage(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> str:
    """How many of the runs have rows, and how much of them was traced."""
    traced = sum(facts.row["traced_devices"] for facts in runs)
    named = sum(facts.row["named_devices"] for facts in runs)
    seen = f"{rows['run_id'].n_unique():,} of {plural(len(runs), 'run')}"
    return f"{seen}; {traced:,} of {plural(named, 'device')} traced; warm-up left out."


def time_notes(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[str]:
    """Runs whose bars have their steps alone."""
    part = rows.filter(pl.any_horizontal(pl.col(*_OUTSIDE).is_null()))
    names = ", ".join(part["run"].unique(maintain_order=True))
    if not names:
        return []
    return [f"The time between steps is not known, so these bars are the steps alone: {names}."]


def traffic_notes(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[str]:
    """What is missing."""
    lost = rows.filter(pl.col("wire_bytes").is_null())
    names = ", ".join(lost["run"].unique(maintain_order=True))
    return [f"Not drawn: traffic of unknown size in {names}."] if names else []


TRAFFIC: Panel[Sequence[PageFacts]] = Panel(
    key="traffic",
    title="Traffic by run",
    lede="Wire bytes that all traced devices of a run send, by the mesh axis that their collectives span.",
    sql=TRAFFIC_SQL,
    columns=TRAFFIC_COLUMNS,
    figures=traffic_figures,
    coverage=coverage,
    why_empty=lambda runs: "No run has a collective in its trace.",
    notes=traffic_notes,
)

TIME: Panel[Sequence[PageFacts]] = Panel(
    key="time",
    title="Time by run",
    lede="Shares of the devices' time in steps and between them. Exposed communication: not hidden by a "
    "compute op. Idle: within a step.",
    sql=RUN_TIME_SQL,
    columns=RUN_TIME_COLUMNS,
    figures=time_figures,
    coverage=coverage,
    why_empty=lambda runs: "No run has device events in its trace.",
    notes=time_notes,
)
