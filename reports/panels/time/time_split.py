"""Where each device's time goes: compute, exposed communication, exposed copies, waiting, idle."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.facts import RunFacts
from xlahouse.reports.charts.palette import TIME_COLOURS
from xlahouse.reports.charts.panel import Column, Figure, Panel, inline
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import BAR_STEP, colour, finish, rows_height
from xlahouse.reports.charts.units import (
    PICOSECONDS,
    plural,
    show_count,
    show_exact,
    show_factor,
    show_ps,
    suit,
)

# A device's steps are added up by phase. SparseCores are left out: their idleness would drown the rest.
SQL = """
with steps as (
    select *, coalesce(phase, 'outside markers') as phase_name
    from device_time_v1
    where run_id = $run and core is distinct from 'sparsecore'
)
select
    phase_name as phase,
    device_id,
    count(*) as steps,
    cast(sum(window_ps) as bigint) as window_ps,
    cast(sum(compute_ps) as bigint) as compute_ps,
    cast(sum(exposed_ps) as bigint) as exposed_ps,
    cast(sum(exposed_copy_ps) as bigint) as exposed_copy_ps,
    cast(sum(sync_wait_ps) as bigint) as sync_wait_ps,
    cast(sum(idle_ps) as bigint) as idle_ps,
    cast(sum(overlapped_ps) as bigint) as overlapped_ps,
    cast(sum(collective_ps) as double) / nullif(sum(compute_ps), 0) as comm_compute_ratio
from steps
group by phase_name, device_id
order by
    case phase_name when 'prefill' then 0 when 'decode' then 1 else 2 end,
    phase_name,
    device_id
"""

COLUMNS = (
    Column("phase", "Phase", numeric=False),
    Column("device_id", "Device", show_count),
    Column("steps", "Steps", show_count),
    Column("window_ps", "Window", show_ps, show_exact),
    Column("compute_ps", "Compute", show_ps, show_exact),
    Column("exposed_ps", "Exposed comm.", show_ps, show_exact),
    Column("exposed_copy_ps", "Exposed copy", show_ps, show_exact),
    Column("sync_wait_ps", "Sync wait", show_ps, show_exact),
    Column("idle_ps", "Idle", show_ps, show_exact),
    Column("overlapped_ps", "Hidden comm.", show_ps, show_exact),
    Column("comm_compute_ratio", "Comm/compute", show_factor, show_exact),
)

# Column -> share, in the order of precedence of METRICS' time split.
SHARES = {
    "compute_ps": "compute",
    "exposed_ps": "exposed communication",
    "exposed_copy_ps": "exposed copy",
    "sync_wait_ps": "sync wait",
    "idle_ps": "idle",
}
# Taller charts are for nobody; the table and the SQL have every device.
MAX_DEVICES = 64
_PLACE = {share: place for place, share in enumerate(SHARES.values())}


def long_shares(rows: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Wide rows -> one row per key and share: keys, share, place, time_ps, ratio of the window.

    Shares that nothing took are left out.
    """
    sums = rows.group_by(keys, maintain_order=True).agg(
        pl.col("steps").sum(), pl.col("window_ps", *SHARES).sum()
    )
    long = sums.unpivot(
        list(SHARES),
        index=[*keys, "steps", "window_ps"],
        variable_name="share",
        value_name="time_ps",
    ).with_columns(pl.col("share").replace_strict(SHARES, return_dtype=pl.String))
    return long.filter(pl.col("time_ps") > 0).with_columns(
        pl.col("share").replace_strict(_PLACE, return_dtype=pl.Int64).alias("place"),
        (pl.col("time_ps") / pl.col("window_ps")).alias("ratio"),
    )


def phase_chart(rows: pl.DataFrame) -> alt.Chart:
    """Shares of the window by phase, all devices together."""
    data = long_shares(rows, ["phase"])
    chart = _bars(data).encode(
        y=alt.Y("phase:N", title=None, sort=None),
        x=alt.X(
            "ratio:Q",
            title="Share of the devices' windows (%)",
            scale=alt.Scale(domain=[0, 1]),
            axis=alt.Axis(format="%", tickCount=5),
        ),
    )
    return finish(chart, "Time split by phase", rows_height(data["phase"].n_unique()))


def device_chart(rows: pl.DataFrame, phase: str) -> alt.Chart:
    """Mean time of a step on each device, stacked by share.

    Args:
        rows: rows of SQL of one phase.
        phase: its name, for the description.
    """
    data = long_shares(rows, ["device_id"]).with_columns(
        (pl.col("time_ps") / pl.col("steps")).alias("step_ps")
    )
    totals = data.group_by("device_id").agg(pl.col("step_ps").sum())
    unit = suit(totals["step_ps"], PICOSECONDS)
    data = data.with_columns((pl.col("step_ps") / unit.factor).alias("amount"))
    title = f"Mean time of a step ({unit.symbol})"
    chart = _bars(data, alt.Tooltip("device_id:O", title="device")).encode(
        y=alt.Y("device_id:O", title="Device"),
        x=alt.X("amount:Q", title=title, axis=alt.Axis(tickCount=5)),
    )
    step = BAR_STEP if totals.height <= 16 else 12
    return finish(chart, f"Mean time of a {phase} step by device", rows_height(totals.height, step))


def figures(rows: pl.DataFrame, facts: RunFacts) -> list[Figure]:
    """One chart over all phases, and for each phase one over devices."""
    drawn = [
        Figure("Time split by phase", phase_chart(rows), "All devices together.", shape="wide")
    ]
    shape = "half" if rows["phase"].n_unique() > 1 else "wide"
    for phase in rows["phase"].unique(maintain_order=True):
        part = rows.filter(pl.col("phase") == phase)
        count = plural(total(part, "steps"), "device step")
        note = f"Mean over {count}."
        if len(part) > MAX_DEVICES:
            part = part.head(MAX_DEVICES)
            note += f" The first {MAX_DEVICES} devices are drawn."
        title = f"{phase.capitalize()}: mean step by device"
        drawn.append(Figure(title, device_chart(part, phase), note, shape))
    return drawn


def coverage(rows: pl.DataFrame, facts: RunFacts) -> str:
    """How many steps and devices the split is over."""
    devices = plural(rows["device_id"].n_unique(), "device")
    steps = plural(total(rows, "steps"), "device step")
    return f"{steps} on {devices}; {facts.covered()}"


def notes(rows: pl.DataFrame, facts: RunFacts) -> list[str]:
    """What the marks can and cannot say."""
    found = []
    if not facts.marked:
        found.append(
            "The trace has no markers of requests, so every execution of a program counts as a step."
        )
    if facts.inferred:
        found.append(
            "Virtual devices share the cores of one machine: the order of events is real, the shares are not."
        )
    if rows["comm_compute_ratio"].has_nulls():
        found.append("Comm/compute is not known where no compute op ran.")
    return found


def why_empty(facts: RunFacts) -> str:
    """Why there is no split."""
    if facts.row["traced_devices"] == 0:
        return (
            "The trace holds no device events, so it does not say where devices spent their time."
        )
    return "No device has a step with ops, so there is no window to split."


def _bars(data: pl.DataFrame, *keys: alt.Tooltip) -> alt.Chart:
    shown = {share: hue for share, hue in TIME_COLOURS.items() if share in set(data["share"])}
    tooltip = [
        *(keys or [alt.Tooltip("phase:N", title="phase")]),
        alt.Tooltip("share:N", title="share"),
        alt.Tooltip("ratio:Q", title="of the window", format=".2%"),
        alt.Tooltip("time_ps:Q", title="time, ps", format=","),
        alt.Tooltip("steps:Q", title="device steps", format=","),
    ]
    return (
        alt.Chart(inline(data.sort("place")))
        .mark_bar(cornerRadius=1)
        .encode(
            color=colour("share", shown, column_width=170),
            order=alt.Order("place:Q"),
            tooltip=tooltip,
        )
    )


PANEL: Panel[RunFacts] = Panel(
    key="time",
    title="Where the time goes",
    lede="Each instant of a device's step belongs to the first that applies: a compute op runs, a "
    "collective is in flight (exposed communication), a copy runs (exposed copy), the "
    "device waits in a barrier (sync wait), nothing (idle).",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
