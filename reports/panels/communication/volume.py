"""How many bytes a run sends, by axis, kind and phase."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.facts import RunFacts
from xlahouse.reports.charts.palette import axis_colours, kind_colours
from xlahouse.reports.charts.panel import Column, Figure, Panel, inline
from xlahouse.reports.charts.sums import known_total, total
from xlahouse.reports.charts.theme import colour, finish, rows_height
from xlahouse.reports.charts.units import (
    BYTES,
    plural,
    show_bytes,
    show_count,
    show_exact,
    show_ratio,
    suit,
)

SQL = """
with volumes as (
    select * replace (coalesce(phase, 'outside markers') as phase)
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
order by case phase when 'prefill' then 0 when 'decode' then 1 else 2 end, phase, axis, kind
"""

COLUMNS = (
    Column("phase", "Phase", numeric=False),
    Column("axis", "Axis", numeric=False),
    Column("kind", "Kind", numeric=False),
    Column("devices", "Devices", show_count),
    Column("collectives", "Collectives", show_count),
    Column("payload_bytes", "Payload", show_bytes, show_exact),
    Column("wire_bytes", "Wire", show_bytes, show_exact),
)


def volume_chart(rows: pl.DataFrame, by: str) -> alt.Chart:
    """Wire bytes by phase, stacked by `axis` or `kind`.

    Args:
        rows: rows of SQL; those without wire bytes are left out.
        by: `axis` or `kind`.
    """
    known = rows.drop_nulls("wire_bytes").group_by("phase", by, maintain_order=True)
    sums = known.agg(pl.col("wire_bytes", "collectives").sum())
    unit = suit(sums.group_by("phase").agg(pl.col("wire_bytes").sum())["wire_bytes"], BYTES)
    names = sums[by].unique().to_list()
    colours = axis_colours(names) if by == "axis" else kind_colours(names)
    order = {name: place for place, name in enumerate(colours)}
    data = sums.with_columns(
        (pl.col("wire_bytes") / unit.factor).alias("amount"),
        pl.col(by).replace_strict(order, return_dtype=pl.Int64).alias("place"),
    ).sort("place", maintain_order=True)
    title = f"Wire bytes sent, all devices ({unit.symbol})"
    chart = (
        alt.Chart(inline(data))
        .mark_bar(cornerRadius=1)
        .encode(
            y=alt.Y("phase", type="nominal", title=None, sort=None),
            x=alt.X("amount", type="quantitative", title=title, axis=alt.Axis(tickCount=5)),
            color=colour(by, colours),
            order=alt.Order("place", type="quantitative"),
            tooltip=[
                alt.Tooltip("phase", type="nominal", title="phase"),
                alt.Tooltip(by, type="nominal", title=by),
                alt.Tooltip("wire_bytes", type="quantitative", title="wire bytes", format=",.15~g"),
                alt.Tooltip("collectives", type="quantitative", title="collectives", format=","),
            ],
        )
    )
    return finish(chart, f"Wire bytes by phase and {by}", rows_height(data["phase"].n_unique()))


def figures(rows: pl.DataFrame, facts: RunFacts) -> list[Figure]:
    """One chart by axis and one by kind; both add up to the same bytes."""
    if rows["wire_bytes"].null_count() == len(rows):
        return []
    return [
        Figure("Traffic by mesh axis", volume_chart(rows, "axis")),
        Figure("Traffic by kind of collective", volume_chart(rows, "kind")),
    ]


def coverage(rows: pl.DataFrame, facts: RunFacts) -> str:
    """How many of the trace's collectives the chart counts."""
    counted, traced = total(rows, "collectives"), facts.row["collectives"]
    return f"Counts {counted:,} of {plural(traced, 'collective')} in the trace; {facts.covered()}"


def notes(rows: pl.DataFrame, facts: RunFacts) -> list[str]:
    """Why bytes or axes are missing."""
    found = []
    unknown = rows.filter(pl.col("wire_bytes").is_null())
    if not unknown.is_empty():
        kinds = ", ".join(sorted(unknown["kind"].unique()))
        count = plural(total(unknown, "collectives"), "collective")
        found.append(
            f"Not drawn: {count} ({kinds}) of unknown wire bytes; the device decides their size."
        )
    stray = rows.filter(pl.col("axis") == "unclassified")
    if not stray.is_empty():
        share = _share(stray, rows)
        reason = facts.row["mesh_problem"] or "the groups reach outside the mesh"
        found.append(f"{share} of the payload is on no known axis: {reason}.")
    return found


def why_empty(facts: RunFacts) -> str:
    """Why a run has no traffic."""
    if facts.row["traced_devices"] == 0:
        return "The trace holds no device events, so its collectives are not known."
    return "The trace holds no collectives: on these devices nothing was sent to another device."


def _share(part: pl.DataFrame, whole: pl.DataFrame) -> str:
    payload, of = known_total(part, "payload_bytes"), known_total(whole, "payload_bytes")
    return show_ratio(payload / of) if payload is not None and of else "An unknown share"


PANEL: Panel[RunFacts] = Panel(
    key="traffic",
    title="Traffic by axis and kind",
    lede="Wire bytes are what devices send: a ring all-reduce of S bytes among n sends 2(n-1)/n S from each. "
    "Payload is the logical size of the tensors.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
