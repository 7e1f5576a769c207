"""What a pipeline costs each stage: idle time, work on empty microbatches, filling and draining."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import bars_height, parts
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
from xlahouse.reports.charts.palette import PIPELINE_COLOURS
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.phases import MEASURED, PHASE, by_phase, phase_order, step_of
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import INK, finish
from xlahouse.reports.charts.units import (
    plural,
    show_ratio,
)

# Steps of a run without a pipeline have an ideal of 0 and nothing to show.
SQL = f"""
with steps as (
    select *, {PHASE} as phase_name
    from bubble_v2
    where run_id = $run and cause = 'pipeline' and ideal_ratio > 0 and {MEASURED}
)
select
    phase_name as phase,
    device_id,
    count(*) as steps,
    cast(sum(window_ps) as bigint) as window_ps,
    case when count(idle_ps) = count(*) then cast(sum(idle_ps) as bigint) end as idle_ps,
    case when count(masked_ps) = count(*) then cast(sum(masked_ps) as bigint) end as masked_ps,
    case when count(fill_drain_ps) = count(*) then cast(sum(fill_drain_ps) as bigint) end
        as fill_drain_ps,
    case
        when count(pipeline_ratio) = count(*)
            then sum(idle_ps + masked_ps + fill_drain_ps) / nullif(sum(window_ps + fill_drain_ps), 0)
    end as pipeline_ratio,
    max(ideal_ratio) as ideal_ratio,
    string_agg(distinct replace(masked_source, '_', ' '), ', ') as masked_source
from steps
group by phase_name, device_id
order by {phase_order("phase_name")}, device_id
"""

COLUMNS = (
    PHASE_COLUMN,
    DEVICE_COLUMN,
    count_column("steps", "Steps"),
    ps_column("window_ps", "Window"),
    ps_column("idle_ps", "Idle, other stages busy"),
    ps_column("masked_ps", "Empty microbatches"),
    ps_column("fill_drain_ps", "Filling, draining"),
    ratio_column("pipeline_ratio", "Pipeline bubble"),
    ratio_column("ideal_ratio", "Ideal"),
    text_column("masked_source", "Masked work known by"),
)

PIPELINE_PARTS = {
    "masked_ps": "empty microbatches",
    "idle_ps": "idle, other stages busy",
    "fill_drain_ps": "filling and draining",
}


_COST = (pl.sum_horizontal("idle_ps", "masked_ps", "fill_drain_ps") / pl.col("window_ps")).max()


def device_chart(rows: pl.DataFrame, phase: str) -> alt.Chart:
    """Shares of each device's step that the pipeline costs, beside the ideal.

    Args:
        rows: rows of SQL of one phase; parts that are not known are left out.
        phase: its name, for screen readers.
    """
    title = "Share of the step (%)"
    y = device_axis(rows)
    x = alt.X("ratio:Q", title=title, axis=alt.Axis(format="%", tickCount=5))
    tips = [
        alt.Tooltip("device_id:O", title="device"),
        alt.Tooltip("part:N", title="part"),
        alt.Tooltip("ratio:Q", title="of the step", format=".3%"),
        alt.Tooltip("ps:Q", title="in all steps, ps", format=","),
        alt.Tooltip("steps:Q", title="steps", format=","),
    ]
    bars = parts(_known_parts(rows), y, x, "part", PIPELINE_COLOURS, tips)
    ticks = alt.Chart(inline(rows.select(*device_keys(rows), "ideal_ratio")))
    ideal = ticks.mark_tick(color=INK, thickness=2, opacity=0.9).encode(
        y=y,
        x=alt.X("ideal_ratio:Q", title=title),
        tooltip=[alt.Tooltip("ideal_ratio:Q", title="ideal bubble", format=".3%")],
    )
    subject = f"What the pipeline costs in a {step_of(phase)}"
    return finish(alt.layer(bars, ideal), subject, bars_height(len(rows)))


def _known_parts(rows: pl.DataFrame) -> pl.DataFrame:
    """One row a device and part that is known: device_id, steps, whole_ps, part, ps, ratio."""
    whole = pl.col("window_ps") + pl.col("fill_drain_ps").fill_null(0)
    long = rows.with_columns(whole.alias("whole_ps")).unpivot(
        list(PIPELINE_PARTS),
        index=[*device_keys(rows), "steps", "whole_ps"],
        variable_name="part",
        value_name="ps",
    )
    return long.drop_nulls("ps").with_columns(
        pl.col("part").replace_strict(PIPELINE_PARTS, return_dtype=pl.String),
        (pl.col("ps") / pl.col("whole_ps")).alias("ratio"),
    )


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """A chart for each phase of which any part is known."""
    drawn = []
    for phase, part in by_phase(rows):
        if all(part[name].is_null().all() for name in PIPELINE_PARTS):
            continue
        shown, left_out = chosen_devices(part, facts, _COST, show_ratio)
        note = "The tick is the ideal bubble (p-1)/(m+p-1) of p stages and m microbatches."
        title = f"{phase.capitalize()}: what the pipeline costs"
        drawn.append(Figure(title, device_chart(shown, phase), note + left_out))
    return drawn


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many device steps the shares are of."""
    known = total(rows.drop_nulls("pipeline_ratio"), "steps")
    steps = plural(total(rows, "steps"), "device step")
    return f"The whole bubble is known for {known:,} of {steps}."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Where masked work comes from, and what is not known."""
    found = []
    sources = ", ".join(rows["masked_source"].drop_nulls().unique().sort())
    if "no tick markers" in sources:
        found.append("Where ticks are not marked, work on empty microbatches is not measured.")
    if "unknown pipeline" in sources:
        found.append(
            "Neither a manifest nor the programs tell whether stages are stacked in one program "
            "or separate."
        )
    hidden = [PIPELINE_PARTS[name] for name in PIPELINE_PARTS if rows[name].has_nulls()]
    if hidden:
        why = (
            "the identities of virtual devices were deduced"
            if facts.inferred
            else "stages, ticks or clocks of some steps are not known"
        )
        found.append(
            f"Not known: {', '.join(hidden)}; {why}. So the whole bubble is not known either."
        )
    return found


why_empty = why_no_rows(
    "the cost of a pipeline is not known",
    "The run's mesh has no pipeline (no axis pp of more than one stage), so no stage waits for another.",
)


PANEL: Panel[PageFacts] = Panel(
    key="pipeline",
    title="Pipeline bubble and masked work",
    lede="A pipeline fills and drains: a stage idles while only other stages work, or, where "
    "all stages run one program, computes on empty microbatches whose results are "
    "masked out.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
