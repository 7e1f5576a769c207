"""Why devices are idle: time by cause, and by the length of the gaps."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import amount, percent, stacked_bars
from xlahouse.reports.charts.columns import (
    DEVICE_COLUMN,
    PHASE_COLUMN,
    count_column,
    ps_column,
    ratio_column,
    text_column,
)
from xlahouse.reports.charts.devices import chosen_devices, device_axis, device_keys
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.palette import CAUSE_COLOURS
from xlahouse.reports.charts.panel import Figure, Panel
from xlahouse.reports.charts.phases import MEASURED, PHASE, by_phase, phase_order, step_of
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.units import (
    PICOSECONDS,
    plural,
    show_ps,
    suit,
)

# A cause that is not known in one step of a device is not known for that device.
SQL = f"""
with parts as (
    select *, {PHASE} as phase_name
    from bubble_v2
    where run_id = $run and {MEASURED}
)
select
    phase_name as phase,
    device_id,
    replace(cause, '_', ' ') as cause,
    count(*) as steps,
    case when count(idle_ps) = count(*) then cast(sum(idle_ps) as bigint) end as idle_ps,
    cast(sum(period_ps) as bigint) as period_ps,
    case when count(idle_ps) = count(*) then sum(idle_ps) / nullif(sum(period_ps), 0) end as ratio
from parts
group by phase_name, device_id, parts.cause
order by {phase_order("phase_name")}, device_id, parts.cause
"""

COLUMNS = (
    PHASE_COLUMN,
    DEVICE_COLUMN,
    text_column("cause", "Cause"),
    count_column("steps", "Steps"),
    ps_column("idle_ps", "Idle"),
    ps_column("period_ps", "Wall time"),
    ratio_column("ratio", "Of wall time"),
)

_SHARE = (
    pl.when(pl.col("period_ps") > 0).then(pl.col("idle_ps") / pl.col("period_ps")).alias("ratio")
)
# Each cause of a device has the same steps.
_IDLE_OF_STEP = pl.col("idle_ps").sum() / pl.col("steps").max()
_BETWEEN = "between steps"  # each device step has one row of it


def phase_chart(rows: pl.DataFrame) -> alt.Chart:
    """Idle share of wall time by phase and cause, all devices together."""
    data = _known(rows, ["phase", "cause"]).with_columns(_SHARE)
    return stacked_bars(
        data,
        alt.Y("phase:N", title=None, sort=None),
        percent("ratio", "Idle share of the devices' wall time (%)"),
        "cause",
        CAUSE_COLOURS,
        [alt.Tooltip("phase:N", title="phase"), *_tips("idle, ps")],
        "Idle time by phase and cause",
    )


def device_chart(rows: pl.DataFrame, phase: str) -> alt.Chart:
    """Mean idle time of a step on each device, by cause, gaps before the step included.

    Args:
        rows: rows of SQL of one phase.
        phase: its name, for screen readers.
    """
    data = _known(rows, [*device_keys(rows), "cause"]).with_columns(
        (pl.col("idle_ps") / pl.col("steps")).alias("step_ps"),
        _SHARE,
    )
    unit = suit(data.group_by("device_id").agg(pl.col("step_ps").sum())["step_ps"], PICOSECONDS)
    data = data.with_columns((pl.col("step_ps") / unit.factor).alias("amount"))
    return stacked_bars(
        data,
        device_axis(rows),
        amount("amount", f"Mean idle time of a step ({unit.symbol})"),
        "cause",
        CAUSE_COLOURS,
        [alt.Tooltip("device_id:O", title="device"), *_tips("idle of all steps, ps")],
        f"Mean idle time of a {step_of(phase)} by device and cause",
    )


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """One chart over phases, and for each phase one over devices."""
    drawn = []
    if total(rows.drop_nulls("idle_ps"), "idle_ps"):
        note = (
            "All devices together; the end of a bar is the share of wall time in which devices "
            "are idle, without the time between requests."
        )
        drawn.append(Figure("Idle time by phase and cause", phase_chart(rows), note, shape="wide"))
    for phase, part in by_phase(rows):
        if not total(part.drop_nulls("idle_ps"), "idle_ps"):
            continue
        shown, left_out = chosen_devices(part, facts, _IDLE_OF_STEP, show_ps)
        note = "Between steps: before the step, outside its window." + left_out
        title = f"{phase.capitalize()}: mean idle time of a step by device"
        drawn.append(Figure(title, device_chart(shown, phase), note))
    return drawn


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many device steps have causes."""
    one = rows.filter(pl.col("cause") == _BETWEEN)
    return f"{plural(total(one, 'steps'), 'device step')} outside warm-up."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Which causes are not known, and whether anything was idle."""
    found = []
    unknown = rows.filter(pl.col("idle_ps").is_null())["cause"].unique().sort().to_list()
    if unknown:
        why = (
            "they need known peers, and the identities of virtual devices were deduced"
            if facts.inferred
            else "they need peers in a known mesh"
        )
        found.append(f"Not known for some devices: the causes {' and '.join(unknown)}; {why}.")
    if not total(rows.drop_nulls("idle_ps"), "idle_ps"):
        found.append("No device was idle, within steps or between them.")
    return found


why_empty = why_no_rows(
    "it does not say when devices were idle",
    "No device has a step with ops outside warm-up, so there is no window to be idle in.",
)


def _known(rows: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Sums over what is known; a cause that a device of the group does not know is left out."""
    sums = rows.group_by(keys, maintain_order=True).agg(
        pl.col("steps", "period_ps", "idle_ps").sum(),
        pl.col("idle_ps").is_null().any().alias("hole"),
    )
    return sums.filter(~pl.col("hole") & (pl.col("idle_ps") > 0)).drop("hole")


def _tips(idle: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("cause:N", title="cause"),
        alt.Tooltip("ratio:Q", title="of wall time", format=".3%"),
        alt.Tooltip("idle_ps:Q", title=idle, format=","),
        alt.Tooltip("steps:Q", title="device steps", format=","),
    ]


PANEL: Panel[PageFacts] = Panel(
    key="bubbles",
    title="Idle time by cause",
    lede="Each idle instant of a device has one cause. No device works: the device has an "
    "open launch (device) or none (host). A device of the same pipeline stage works: "
    "imbalance. Only other stages work: pipeline. Or the instant is between two steps.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
