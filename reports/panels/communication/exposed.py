"""Which collectives keep devices from computing: their exposed time, by axis, kind and layer."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import amount, stacked_bars
from xlahouse.reports.charts.columns import (
    AXIS_COLUMN,
    KIND_COLUMN,
    PHASE_COLUMN,
    count_column,
    ps_column,
    ratio_column,
    text_column,
)
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.palette import kind_colours
from xlahouse.reports.charts.panel import Figure, Panel
from xlahouse.reports.charts.phases import PHASE, by_phase, phase_order
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.units import PICOSECONDS, plural, show_ratio, suit

SQL = f"""
with parts as (
    select * replace ({PHASE} as phase)
    from exposed_collective_v1
    where run_id = $run
)
select
    phase,
    axis,
    kind,
    layer,
    component,
    count(distinct op) as ops,
    cast(sum(count) as bigint) as count,
    cast(sum(in_flight_ps) as bigint) as in_flight_ps,
    cast(round(sum(exposed_ps)) as bigint) as exposed_ps,
    sum(exposed_ratio) as ratio
from parts
group by phase, axis, kind, layer, component
order by
    {phase_order()},
    exposed_ps desc,
    axis,
    kind,
    layer,
    component
"""

COLUMNS = (
    PHASE_COLUMN,
    AXIS_COLUMN,
    KIND_COLUMN,
    count_column("layer", "Layer"),
    text_column("component", "Component"),
    count_column("ops", "Instructions"),
    count_column("count", "Collectives"),
    ps_column("in_flight_ps", "In flight"),
    ps_column("exposed_ps", "Exposed"),
    ratio_column("ratio", "Share of the period"),
)

MAX_BARS = 20
# The overview counts a prefill from its marker.
_PREFILL_PERIOD = (
    "; a period begins at the end of the device's previous step, not at the request's marker"
)


def _label(row: dict[str, object]) -> str:
    """Axis, and where the collective stands in the model."""
    layer = None if row["layer"] is None else f"layer {row['layer']}"
    parts = (row["axis"] or "no pair", layer, row["component"], row["kind"])
    return ", ".join(str(part) for part in parts if part is not None)


def ranked_chart(rows: pl.DataFrame, phase: str) -> alt.Chart:
    """Exposed time, the longest first, coloured by kind.

    Args:
        rows: rows of SQL of one phase with exposed time, in their order.
        phase: its name, for screen readers.
    """
    unit = suit(rows["exposed_ps"], PICOSECONDS)
    data = rows.with_columns(
        pl.Series("name", [_label(row) for row in rows.iter_rows(named=True)]),
        (pl.col("exposed_ps") / unit.factor).alias("amount"),
        pl.col("kind").fill_null("unknown"),
    )
    tooltip = [
        alt.Tooltip("name:N", title="collectives"),
        alt.Tooltip("exposed_ps:Q", title="exposed, ps", format=","),
        alt.Tooltip("in_flight_ps:Q", title="in flight, ps", format=","),
        alt.Tooltip("ratio:Q", title="share of the period", format=".4~%"),
        alt.Tooltip("count:Q", title="collectives", format=","),
    ]
    return stacked_bars(
        data,
        alt.Y("name:N", title=None, sort=data["name"].to_list(), axis=alt.Axis(labelLimit=260)),
        amount("amount", f"Exposed time, all devices and steps ({unit.symbol})"),
        "kind",
        kind_colours(data["kind"]),
        tooltip,
        f"Exposed time of collectives in {phase}",
    )


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """A ranking of each phase that has exposed time."""
    drawn = []
    for phase, whole in by_phase(rows):
        part = whole.filter(pl.col("exposed_ps") > 0)
        if part.is_empty():
            continue
        more = len(part) - MAX_BARS
        note = f"The longest {MAX_BARS} of {len(part):,}." if more > 0 else ""
        title = f"{phase.capitalize()}: exposed time by axis, kind and layer"
        drawn.append(Figure(title, ranked_chart(part.head(MAX_BARS), phase), note))
    return drawn


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many collectives stand in steps."""
    traced = plural(facts.row["collectives"], "collective")
    return f"{total(rows, 'count'):,} of {traced} in the trace lie in steps."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """How much of each phase is exposed, and what has no owner."""
    found = facts.circuit_notes()
    for phase, part in by_phase(rows):
        if not part["ratio"].has_nulls():
            share = show_ratio(float(part["ratio"].sum()))
            since = _PREFILL_PERIOD if phase == "prefill" else ""
            found.append(
                f"{str(phase).capitalize()}: {share} of the steps' periods is exposed{since}."
            )
    if rows["kind"].has_nulls():
        found.append(
            "Rows without a kind: ops of collectives whose start or done is missing, so that "
            "the transfer is not known."
        )
    return found


why_empty = why_no_rows(
    "which collectives are exposed is not known",
    "No step has a collective, so no time is exposed.",
)


PANEL: Panel[PageFacts] = Panel(
    key="exposed",
    title="Exposed collectives",
    lede="Exposed: in flight while the device runs no compute op. Where several are in flight at "
    "once, each has an equal part of the time, so that all add up to the exposed time of the steps.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
