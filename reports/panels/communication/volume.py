"""How many bytes a run sends, by axis, kind and phase."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.capture.commands import STATE_MESH
from xlahouse.reports.charts.bars import amount, stacked_bars
from xlahouse.reports.charts.columns import (
    AXIS_COLUMN,
    KIND_COLUMN,
    PHASE_COLUMN,
    bytes_column,
    count_column,
)
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.palette import axis_colours, kind_colours
from xlahouse.reports.charts.panel import Figure, Panel
from xlahouse.reports.charts.phases import PHASE, phase_order
from xlahouse.reports.charts.sums import known_total, total
from xlahouse.reports.charts.units import (
    BYTES,
    plural,
    show_ratio,
    suit,
)

SQL = f"""
with volumes as (
    select * replace ({PHASE} as phase)
    from traffic_volume_v1
    where run_id = $run
)
select
    phase,
    axis,
    kind,
    count(distinct device_id) as devices,
    cast(sum(collectives) as bigint) as collectives,
    case when count(payload_bytes) = count(*) then cast(sum(payload_bytes) as bigint) end as payload_bytes,
    case when count(wire_bytes) = count(*) then cast(sum(wire_bytes) as double) end as wire_bytes
from volumes
group by phase, axis, kind
order by {phase_order()}, axis, kind
"""

COLUMNS = (
    PHASE_COLUMN,
    AXIS_COLUMN,
    KIND_COLUMN,
    count_column("devices", "Devices"),
    count_column("collectives", "Collectives"),
    bytes_column("payload_bytes", "Payload"),
    bytes_column("wire_bytes", "Wire"),
)


def volume_chart(rows: pl.DataFrame, by: str) -> alt.Chart:
    """Wire bytes by phase, stacked by `axis` or `kind`.

    Args:
        rows: rows of SQL; rows without wire bytes are left out.
        by: `axis` or `kind`.
    """
    known = rows.drop_nulls("wire_bytes").group_by("phase", by, maintain_order=True)
    sums = known.agg(pl.col("wire_bytes", "collectives").sum())
    unit = suit(sums.group_by("phase").agg(pl.col("wire_bytes").sum())["wire_bytes"], BYTES)
    tooltip = [
        alt.Tooltip("phase:N", title="phase"),
        alt.Tooltip(by, type="nominal", title=by),
        alt.Tooltip("wire_bytes:Q", title="wire bytes", format=",.15~g"),
        alt.Tooltip("collectives:Q", title="collectives", format=","),
    ]
    return stacked_bars(
        sums.with_columns((pl.col("wire_bytes") / unit.factor).alias("amount")),
        alt.Y("phase:N", title=None, sort=None),
        amount("amount", f"Wire bytes sent, all devices ({unit.symbol})"),
        by,
        axis_colours(sums[by]) if by == "axis" else kind_colours(sums[by]),
        tooltip,
        f"Wire bytes by phase and {by}",
    )


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """One chart by axis and one by kind; both add up to the same bytes."""
    if rows["wire_bytes"].null_count() == len(rows):
        return []
    return [
        Figure("Traffic by mesh axis", volume_chart(rows, "axis")),
        Figure("Traffic by kind of collective", volume_chart(rows, "kind")),
    ]


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many of the trace's collectives the chart counts."""
    counted, traced = total(rows, "collectives"), facts.row["collectives"]
    if facts.compiled:
        return f"Counts {plural(counted, 'collective')} of the programs."
    return f"Counts {counted:,} of {plural(traced, 'collective')} in the trace."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Why bytes or axes are missing."""
    found = []
    unknown = rows.filter(pl.col("wire_bytes").is_null())
    if not unknown.is_empty():
        kinds = ", ".join(unknown["kind"].fill_null("of unknown kind").unique().sort())
        count = plural(total(unknown, "collectives"), "collective")
        found.append(
            f"Not drawn: {count} ({kinds}) of unknown wire bytes; their sizes, or the devices that they "
            "span, are not known."
        )
    stray = rows.filter(pl.col("axis") == "unclassified")
    if not stray.is_empty():
        share = _share(stray, rows)
        problem = facts.row["mesh_problem"]
        reason = f"{problem}; {STATE_MESH}" if problem else "the groups reach outside the mesh"
        found.append(f"{share} of the payload belongs to no known axis: {reason}.")
    return found


why_empty = why_no_rows(
    "its collectives are not known",
    "The trace has no collectives: these devices sent nothing to each other.",
)


def _share(part: pl.DataFrame, whole: pl.DataFrame) -> str:
    payload, of = known_total(part, "payload_bytes"), known_total(whole, "payload_bytes")
    return show_ratio(payload / of) if payload is not None and of else "An unknown share"


PANEL: Panel[PageFacts] = Panel(
    key="traffic",
    title="Traffic by axis and kind",
    lede="Wire bytes: bytes that devices send; in a ring all-reduce of S bytes among n "
    "devices, each sends 2(n-1)/n S. Payload: the logical size of the tensors.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
