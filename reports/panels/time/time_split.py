"""Where each device's time goes: compute, exposed communication, exposed copies, waiting, idle."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import bars_height
from xlahouse.reports.charts.columns import (
    DEVICE_COLUMN,
    PHASE_COLUMN,
    SHARE_COLUMNS,
    count_column,
    factor_column,
    ps_column,
)
from xlahouse.reports.charts.devices import chosen_devices, device_axis, device_keys
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.palette import TIME_COLOURS, present_colours
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.phases import PHASE, by_phase, phase_order, step_of
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import colour, finish, rows_height
from xlahouse.reports.charts.units import (
    PICOSECONDS,
    plural,
    show_ps,
    suit,
)

# Column -> share, in the order of precedence of METRICS' time split.
SHARES = {
    "compute_ps": "compute",
    "exposed_ps": "exposed communication",
    "exposed_copy_ps": "exposed copy",
    "sync_wait_ps": "sync wait",
    "idle_ps": "idle",
}
# The window and its shares, added up.
SHARE_SUMS = ",\n    ".join(
    f"cast(sum({column}) as bigint) as {column}" for column in ("window_ps", *SHARES)
)

# A device's steps are added up by phase. SparseCores are left out: their idleness would drown the rest.
SQL = f"""
with steps as (
    select *, {PHASE} as phase_name
    from device_time_v1
    where run_id = $run and core is distinct from 'sparsecore'
)
select
    phase_name as phase,
    device_id,
    count(*) as steps,
    {SHARE_SUMS},
    cast(sum(overlapped_ps) as bigint) as overlapped_ps,
    cast(sum(collective_ps) as double) / nullif(sum(compute_ps), 0) as comm_compute_ratio
from steps
group by phase_name, device_id
order by
    {phase_order("phase_name")},
    device_id
"""

COLUMNS = (
    PHASE_COLUMN,
    DEVICE_COLUMN,
    count_column("steps", "Steps"),
    ps_column("window_ps", "Window"),
    *SHARE_COLUMNS,
    ps_column("overlapped_ps", "Hidden comm."),
    factor_column("comm_compute_ratio", "Comm/compute"),
)

_PLACE = {share: place for place, share in enumerate(SHARES.values())}


_MEAN_STEP = pl.col("window_ps").sum() / pl.col("steps").sum()


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
    data = long_shares(rows, device_keys(rows)).with_columns(
        (pl.col("time_ps") / pl.col("steps")).alias("step_ps")
    )
    totals = data.group_by("device_id").agg(pl.col("step_ps").sum())
    unit = suit(totals["step_ps"], PICOSECONDS)
    data = data.with_columns((pl.col("step_ps") / unit.factor).alias("amount"))
    title = f"Mean time of a step ({unit.symbol})"
    keys = [
        alt.Tooltip("device_id:O", title="device"),
        alt.Tooltip("amount:Q", title=f"mean of a step, {unit.symbol}", format=",.4~g"),
    ]
    chart = _bars(data, *keys).encode(
        y=device_axis(rows),
        x=alt.X("amount:Q", title=title, axis=alt.Axis(tickCount=5)),
    )
    return finish(chart, f"Mean time of a {step_of(phase)} by device", bars_height(totals.height))


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """One chart over all phases, and for each phase one over devices."""
    drawn = [
        Figure("Time split by phase", phase_chart(rows), "All devices together.", shape="wide")
    ]
    shape = "half" if rows["phase"].n_unique() > 1 else "wide"
    for phase, part in by_phase(rows):
        count = plural(total(part, "steps"), "device step")
        shown, left_out = chosen_devices(part, facts, _MEAN_STEP, show_ps)
        title = f"{phase.capitalize()}: mean step by device"
        drawn.append(
            Figure(title, device_chart(shown, phase), f"Mean over {count}.{left_out}", shape)
        )
    return drawn


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many steps and devices the split is over."""
    devices = plural(rows["device_id"].n_unique(), "device")
    steps = plural(total(rows, "steps"), "device step")
    return f"{steps} on {devices}."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """What the shares count, and how far they are valid."""
    found = facts.circuit_notes()
    if not facts.marked:
        counted = (
            "all time of a device"
            if "step" not in rows["phase"]
            else f"every {facts.unmarked_step}"
        )
        found.append(f"The trace has no markers of requests, so {counted} counts as a step.")
    if rows["comm_compute_ratio"].has_nulls():
        found.append("Comm/compute is not known where no compute op ran.")
    return found


why_empty = why_no_rows(
    "it does not say where devices spent their time",
    "No device has a step with ops, so there is no window to split.",
)


def _bars(data: pl.DataFrame, *keys: alt.Tooltip) -> alt.Chart:
    shown = present_colours(TIME_COLOURS, data["share"])
    tooltip = [
        *(keys or [alt.Tooltip("phase:N", title="phase")]),
        alt.Tooltip("share:N", title="share"),
        alt.Tooltip("ratio:Q", title="of the window", format=".2%"),
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


PANEL: Panel[PageFacts] = Panel(
    key="time",
    title="Where the time within steps goes",
    lede="From the first op of a device's step to its last; the time between steps is left out, and the "
    "overview has it. Each instant counts as the first of these that applies: a "
    "compute op runs (compute), a collective is in flight (exposed communication), a "
    "copy runs (exposed copy), the device waits in a barrier (sync wait), none of these "
    "(idle).",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
