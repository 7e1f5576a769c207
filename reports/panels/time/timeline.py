"""What every device does, instant by instant, in the median prefill and the median decode step."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.columns import (
    DEVICE_COLUMN,
    PHASE_COLUMN,
    count_column,
    ps_column,
    text_column,
)
from xlahouse.reports.charts.devices import FEW_DEVICES, WORST_DEVICES
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.palette import CATEGORY_COLOURS
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.phases import MEASURED, PHASE, by_phase, phase_order
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import ZOOM_NOTE, colour, finish, zoom_in_time
from xlahouse.reports.charts.units import PICOSECONDS, Unit, plural, show_ps, suit

# Marks of a step; two steps with their tooltips are then about 2 MB of a page.
MAX_MARKS_OF_STEP = 6_000
MAX_TIMELINE_DEVICES = 32
# Without an outline a bar far below a pixel is too faint to be seen.
STROKE_PX = 0.6

# A step of median span (row ceil(n / 2)) represents its phase; without markers, where a step may be any
# small program, the one in which half the time of all is reached. A mark begins where no interval of its
# lane is before it or after one of the longest gaps, as many as there may be marks; shorter ones are closed.
SQL = f"""
with ranked as (
    select
        *,
        {PHASE} as phase_name,
        row_number() over (partition by phase order by span_ps, request, step) as place,
        sum(span_ps) over (
            partition by phase order by span_ps, request, step
            rows between unbounded preceding and current row
        ) as up_to_ps,
        count(*) over (partition by phase) as steps,
        sum(span_ps) over (partition by phase) as total_ps
    from step_time_v1
    where run_id = $run and {MEASURED}
), chosen as (
    select *
    from ranked
    where case
        when request is not null then place = (steps + 1) // 2
        else 2 * up_to_ps >= total_ps and 2 * (up_to_ps - span_ps) < total_ps
    end
    order by {phase_order("phase_name")}
    limit 2
), stages as (
    select device_id, 'stage ' || coordinate as stage
    from run_mesh_v1
    where run_id = $run and axis = 'pp' and size > 1
), late as (
    select device_id, mean_lag_ps
    from straggler_v2
    where run_id = $run
), ranked_devices as (
    select
        devices.device_id,
        count(*) over () as devices,
        row_number() over (partition by coalesce(stage, host) order by devices.device_id) as in_group,
        min(coalesce(stage, host)) over () is distinct from max(coalesce(stage, host)) over () as grouped,
        mean_lag_ps,
        row_number() over (order by mean_lag_ps desc nulls last, devices.device_id) as lateness
    from devices
    left join stages on stages.device_id = devices.device_id
    left join late on late.device_id = devices.device_id
    where run_id = $run and traced and core is distinct from 'sparsecore'
), shown_devices as (
    select device_id
    from ranked_devices
    where
        devices <= {FEW_DEVICES}
        or in_group <= case when grouped then 1 else {FEW_DEVICES} end
        or (lateness <= {WORST_DEVICES} and mean_lag_ps > 0)
    order by in_group > 1 desc, device_id
    limit {MAX_TIMELINE_DEVICES}
), intervals as (
    select
        phase_name, steps, b.request, b.step, c.span_ps, b.device_id, b.category,
        b.start_ps - c.start_ps as start_ps,
        b.duration_ps
    from busy_intervals as b
    inner join chosen as c
        on b.request is not distinct from c.request and b.step is not distinct from c.step
    where b.run_id = $run and b.device_id in (select device_id from shown_devices)
), gaps as (
    select
        *,
        start_ps + duration_ps as end_ps,
        start_ps - lag(start_ps + duration_ps) over (
            partition by phase_name, device_id, category order by start_ps
        ) as gap_ps
    from intervals
), sized as (
    select *, row_number() over (partition by phase_name order by gap_ps desc nulls first) as place
    from gaps
), opened as (
    select
        *,
        max(case when place = {MAX_MARKS_OF_STEP} + 1 then gap_ps end) over (
            partition by phase_name
        ) as closed_ps,
        case when gap_ps <= closed_ps then 0 else 1 end as opens
    from sized
), numbered as (
    select
        *,
        sum(opens) over (
            partition by phase_name, device_id, category order by start_ps
            rows between unbounded preceding and current row
        ) as mark
    from opened
)
select
    phase_name as phase,
    request,
    step,
    device_id,
    category,
    min(start_ps) as start_ps,
    max(end_ps) as end_ps,
    cast(sum(duration_ps) as bigint) as busy_ps,
    count(*) as intervals,
    any_value(steps) as steps,
    any_value(span_ps) as span_ps,
    any_value(closed_ps) as closed_ps
from numbered
group by phase_name, request, step, device_id, category, mark
order by {phase_order("phase_name")}, device_id, category, start_ps
"""

COLUMNS = (
    PHASE_COLUMN,
    count_column("request", "Request"),
    count_column("step", "Step"),
    DEVICE_COLUMN,
    text_column("category", "Category"),
    ps_column("start_ps", "Start in step"),
    ps_column("end_ps", "End in step"),
    ps_column("busy_ps", "Busy"),
    count_column("intervals", "Intervals"),
)

# Category of busy_intervals -> lane of a device, top to bottom.
LANES = {
    "compute": "compute",
    "masked": "empty microbatch",
    "communicating": "may communicate",
    "collective": "collective",
    "copy_running": "copy",
    "sync_wait": "wait",
}


def step_chart(rows: pl.DataFrame, title: str) -> alt.Chart:
    """One step: a row of lanes for each device, a bar for each busy interval.

    Args:
        rows: rows of SQL of one step.
        title: the subject, for screen readers.
    """
    unit = suit(rows["span_ps"], PICOSECONDS)
    present = set(rows["category"])
    lanes = [lane for category, lane in LANES.items() if category in present]
    hue = colour("lane", {lane: CATEGORY_COLOURS[lane] for lane in lanes})
    chart = (
        alt.Chart(inline(_bars(rows, unit)))
        .mark_bar(clip=True, strokeWidth=STROKE_PX)
        .encode(
            y=alt.Y("device_id:O", title="Device", scale=alt.Scale(paddingInner=0.15)),
            yOffset=alt.YOffset("lane:N", sort=lanes, scale=alt.Scale(paddingInner=0)),
            x=alt.X(
                "start:Q",
                title=f"Time since the step's start ({unit.symbol})",
                scale=alt.Scale(nice=False),
                axis=alt.Axis(tickCount=8),
            ),
            x2="end",
            color=hue,
            stroke=alt.Stroke("lane:N", scale=hue["scale"], legend=hue["legend"]),
            tooltip=_tooltip(unit.symbol),
        )
        .add_params(zoom_in_time())
    )
    count = rows["device_id"].n_unique() * len(lanes)
    return finish(chart, title, count * min(16, max(4, 480 // count)))


def _bars(rows: pl.DataFrame, unit: Unit) -> pl.DataFrame:
    """One row a bar: its lane, and its ends in `unit`."""
    return rows.select(
        pl.col("category").replace_strict(LANES, return_dtype=pl.String).alias("lane"),
        "device_id",
        (pl.col("start_ps") / unit.factor).alias("start"),
        (pl.col("end_ps") / unit.factor).alias("end"),
        (pl.col("busy_ps") / unit.factor).alias("busy"),
        "intervals",
    )


def _tooltip(unit: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("device_id:O", title="device"),
        alt.Tooltip("lane:N", title="lane"),
        alt.Tooltip("start:Q", title=f"start, {unit}", format=",.6~g"),
        alt.Tooltip("busy:Q", title=f"busy, {unit}", format=",.6~g"),
        alt.Tooltip("intervals:Q", title="intervals", format=","),
    ]


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """A chart for each chosen step."""
    drawn = []
    for phase, part in by_phase(rows):
        first = part.row(0, named=True)
        what = f"{phase.capitalize()}: {_step_name(first)} by device"
        steps = plural(first["steps"], "step")
        note = f"The step of median length, of {steps}. "
        if first["request"] is None:
            note = f"Of {steps}, shortest first, the step that reaches half of their total time. "
        if first["closed_ps"]:
            note += (
                f"Gaps of up to {show_ps(first['closed_ps'])} are closed to keep the page small. "
            )
        note += ZOOM_NOTE
        drawn.append(Figure(what, step_chart(part, what), note, shape="wide"))
    return drawn


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many intervals of how many devices are drawn."""
    devices = rows["device_id"].n_unique()
    drawn = plural(total(rows, "intervals"), "busy interval")
    marks = plural(len(rows), "mark")
    return f"{drawn} of {plural(devices, 'device')} as {marks}."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """What is left out, and how far times are valid."""
    found = []
    devices = len(facts.row["places"] or ())
    if devices > FEW_DEVICES:
        found.append(
            f"Drawn: {plural(rows['device_id'].n_unique(), 'device')} of {devices:,}: "
            "the first of each stage (without a pipeline: of each host), and those that arrive latest."
        )
    if "masked" in set(rows["category"]):
        found.append(
            "Compute on empty microbatches of a pipeline is shown twice: as compute, and in "
            "a lane of its own."
        )
    if "communicating" in set(rows["category"]):
        found.append(
            "Kernels that may communicate by themselves are shown twice: as compute or copy, and in a "
            "lane of their own."
        )
    return found


why_empty = why_no_rows(
    "there is no timeline to draw",
    "No step outside warm-up has an op, so there is no timeline to draw.",
)


def _step_name(row: dict[str, int | None]) -> str:
    if row["step"] is None:
        return "all ops"
    if row["request"] is None:
        return f"execution {row['step']}"
    return f"request {row['request']}, step {row['step']}"


PANEL: Panel[PageFacts] = Panel(
    key="timeline",
    title="Device timeline",
    lede="Each device during one step of median length: compute ops, collectives in flight, "
    "copies, and waits in barriers. Where a device has no bar, it is idle.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
