"""Device time by the parts of the model: its layers and components."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import amount, percent, stacked_bars
from xlahouse.reports.charts.columns import (
    PHASE_COLUMN,
    count_column,
    ps_column,
    ratio_column,
    text_column,
)
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.palette import COMPONENT_COLOURS
from xlahouse.reports.charts.panel import Figure, Panel
from xlahouse.reports.charts.phases import MEASURED, PHASE, by_phase, phase_order
from xlahouse.reports.charts.units import (
    PICOSECONDS,
    plural,
    show_ratio,
    suit,
)

# Waits and control ops do no work for any part of the model.
SQL = f"""
with parts as (
    select *, {PHASE} as phase_name, coalesce(component, 'no component') as part
    from layer_breakdown_v1
    where run_id = $run and category not in ('wait', 'control') and {MEASURED}
)
select
    phase_name as phase,
    layer,
    part as component,
    cast(sum(executions) as bigint) as executions,
    cast(sum(self_ps) as bigint) as self_ps,
    cast(sum(case when category = 'collective' then self_ps else 0 end) as bigint) as collective_ps,
    sum(self_ps) / nullif(sum(sum(self_ps)) over (partition by phase_name), 0) as ratio
from parts
group by phase_name, layer, part
order by {phase_order("phase_name")}, layer nulls last, part
"""

COLUMNS = (
    PHASE_COLUMN,
    count_column("layer", "Layer"),
    text_column("component", "Component"),
    count_column("executions", "Op executions"),
    ps_column("self_ps", "Self time"),
    ps_column("collective_ps", "Collectives"),
    ratio_column("ratio", "Share of phase"),
)

MAX_LAYERS = 100


def component_chart(rows: pl.DataFrame) -> alt.Chart:
    """Share of the ops' time by phase and component, all layers together."""
    data = rows.group_by("phase", "component", maintain_order=True).agg(
        pl.col("self_ps", "collective_ps", "ratio").sum()
    )
    return stacked_bars(
        data.filter(pl.col("self_ps") > 0),
        alt.Y("phase:N", title=None, sort=None),
        percent("ratio", "Share of the ops' time, all devices (%)", 1),
        "component",
        COMPONENT_COLOURS,
        [alt.Tooltip("phase:N", title="phase"), *_tips()],
        "Time by phase and component",
    )


def layer_chart(rows: pl.DataFrame, phase: str) -> alt.Chart:
    """Time of each layer, stacked by component.

    Args:
        rows: rows of SQL of one phase that have a layer.
        phase: its name, for screen readers.
    """
    data = rows.filter(pl.col("self_ps") > 0).with_columns(
        pl.col("layer").cast(pl.String).alias("name")
    )
    unit = suit(data.group_by("name").agg(pl.col("self_ps").sum())["self_ps"], PICOSECONDS)
    return stacked_bars(
        data.with_columns((pl.col("self_ps") / unit.factor).alias("amount")),
        alt.Y("name:N", title="Layer", sort=None),
        amount("amount", f"Time of its ops, all devices and steps ({unit.symbol})"),
        "component",
        COMPONENT_COLOURS,
        [alt.Tooltip("name:N", title="layer"), *_tips()],
        f"Time of each layer in {phase}",
    )


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """Components over phases, and layers of each phase."""
    if rows["layer"].is_null().all() and set(rows["component"]) == {"no component"}:
        return []
    note = "All devices and layers together."
    drawn = [Figure("Time by component", component_chart(rows), note, shape="wide")]
    for phase, whole in by_phase(rows):
        part = whole.drop_nulls("layer")
        layers = part["layer"].unique(maintain_order=True).to_list()
        # The rest is often longer than all layers, which would then be too short to see.
        if not part["self_ps"].sum():
            continue
        outside = show_ratio(float(whole.filter(pl.col("layer").is_null())["ratio"].sum()))
        note = (
            f"{outside} of the phase's time is in no layer: embedding, head, and ops that "
            "name no layer."
        )
        if len(layers) > MAX_LAYERS:
            part = part.filter(pl.col("layer").is_in(layers[:MAX_LAYERS]))
            note = f"The first {MAX_LAYERS} of {plural(len(layers), 'layer')}. {note}"
        drawn.append(
            Figure(f"{phase.capitalize()}: time of each layer", layer_chart(part, phase), note)
        )
    return drawn


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How much of the time has a place in the model."""
    whole = float(rows["self_ps"].sum())
    placed = rows.filter(pl.col("layer").is_not_null() | (pl.col("component") != "no component"))
    share = show_ratio(float(placed["self_ps"].sum()) / whole if whole else None)
    return f"{share} of the ops' time has a layer or a component."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Why parts are not known, and what times are worth."""
    found = []
    if rows["layer"].is_null().all() and set(rows["component"]) == {"no component"}:
        found.append(
            "Not drawn: no op names its module (a path such as model.layers.3.self_attn), so "
            "layers and components are not known."
        )
    return found


why_empty = why_no_rows(
    "the time of the parts of the model is not known",
    "No op ran outside warm-up, so no part of the model has a time.",
)


def _tips() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("component:N", title="component"),
        alt.Tooltip("ratio:Q", title="share of phase", format=".3%"),
        alt.Tooltip("self_ps:Q", title="time, ps", format=","),
        alt.Tooltip("collective_ps:Q", title="of which collectives, ps", format=","),
    ]


PANEL: Panel[PageFacts] = Panel(
    key="layers",
    title="Layers and components",
    lede="Self time (without nested ops) of compute ops, collectives and copies, by layer "
    "and component of the model.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
