"""How fast collectives of each size run on each axis."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.columns import (
    AXIS_COLUMN,
    KIND_COLUMN,
    bandwidth_column,
    bytes_column,
    count_column,
    ps_column,
    ratio_column,
)
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.log_axes import size_log
from xlahouse.reports.charts.palette import axis_colours, kind_shapes
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import INK, colour, finish, shape
from xlahouse.reports.charts.units import (
    BANDWIDTH,
    plural,
    show_bandwidth,
    suit,
)

# quantile_disc(x, p) is the value of row ceil(p n): the percentile of every view; a median is the mean of
# the two middle rows. An instance whose transfer may have ended earlier than its done op saw bounds a
# bandwidth and does not measure it.
SQL = """
with instances as (
    select
        *,
        case when not is_bound then transfer_ps end as time_ps,
        case when not is_bound then busbw_bytes_per_s end as busbw,
        case when not is_bound then algbw_bytes_per_s end as algbw,
        case when not is_bound then utilization_ratio end as utilization
    from collective_bandwidth_v3
    where run_id = $run
), peaks as (
    select min(peak_ici_bytes_per_s) as peak_bytes_per_s
    from hardware_peaks_v1
    where run_id = $run
)
select
    axis,
    kind,
    payload_bytes,
    group_size,
    count(*) as instances,
    count(busbw) as measured,
    count(*) filter (where is_bound is distinct from false) as bounded,
    count(*) filter (where is_impossible) as impossible,
    cast(floor(quantile_cont(time_ps, 0.5)) as bigint) as p50_transfer_ps,
    quantile_disc(busbw, 0.05) as p05_busbw_bytes_per_s,
    quantile_cont(busbw, 0.5) as p50_busbw_bytes_per_s,
    quantile_disc(busbw, 0.95) as p95_busbw_bytes_per_s,
    quantile_disc(algbw, 0.05) as p05_algbw_bytes_per_s,
    quantile_cont(algbw, 0.5) as p50_algbw_bytes_per_s,
    quantile_disc(algbw, 0.95) as p95_algbw_bytes_per_s,
    quantile_cont(utilization, 0.5) as p50_utilization_ratio,
    case when count(ici_link_count) > 0 then any_value(peak_bytes_per_s) end as peak_bytes_per_s
from instances
cross join peaks
group by axis, kind, payload_bytes, group_size
order by axis, kind, payload_bytes, group_size
"""

COLUMNS = (
    AXIS_COLUMN,
    KIND_COLUMN,
    bytes_column("payload_bytes", "Payload"),
    count_column("group_size", "Group size"),
    count_column("instances", "Instances"),
    count_column("measured", "Measured"),
    ps_column("p50_transfer_ps", "Transfer p50"),
    bandwidth_column("p05_busbw_bytes_per_s", "Bus bandwidth p5"),
    bandwidth_column("p50_busbw_bytes_per_s", "p50"),
    bandwidth_column("p95_busbw_bytes_per_s", "p95"),
    bandwidth_column("p50_algbw_bytes_per_s", "Algorithm bandwidth p50"),
    ratio_column("p50_utilization_ratio", "Busiest link p50"),
)
# What is drawn: the column's stem, and its name in the chart.
BANDWIDTH_NAMES = {"busbw": "Bus bandwidth", "algbw": "Algorithm bandwidth"}


def bandwidth_chart(rows: pl.DataFrame, measure: str) -> alt.Chart:
    """Median bandwidth against payload, with a bar from the 5th to the 95th percentile.

    Args:
        rows: rows of SQL with a median and a payload above 0.
        measure: one of BANDWIDTH_NAMES. Only bus bandwidth is compared with the links' peak.
    """
    name = BANDWIDTH_NAMES[measure]
    peak = rows["peak_bytes_per_s"].drop_nulls().head(1).to_list() if measure == "busbw" else []
    speed = suit([*rows[f"p50_{measure}_bytes_per_s"], *peak], BANDWIDTH)
    data = rows.with_columns(
        (pl.col(f"{p}_{measure}_bytes_per_s") / speed.factor).alias(p)
        for p in ("p05", "p50", "p95")
    )
    x = alt.X("payload_bytes:Q", **size_log(data["payload_bytes"], "Payload"))
    y = alt.Y("p50:Q", title=f"{name} ({speed.symbol})", scale=alt.Scale(zero=True))
    color = colour("axis", axis_colours(rows["axis"]), "Axis", 110, hollow=True)
    shapes = shape("kind", kind_shapes(rows["kind"]), "Kind", 160, hollow=True)
    base = alt.Chart(inline(data))
    spread = base.mark_rule(strokeWidth=2, opacity=0.5).encode(
        x=x, y=alt.Y("p05:Q"), y2="p95", color=color
    )
    # Outlines: an all-gather and a reduce-scatter of one size often lie on each other.
    points = base.mark_point(filled=False, size=90, strokeWidth=2, opacity=1).encode(
        x=x, y=y, color=color, shape=shapes, tooltip=_tooltip(measure)
    )
    layers = [spread, points]
    if peak:
        line = alt.Chart(inline(pl.DataFrame({"peak": [peak[0] / speed.factor]})))
        layers.append(line.mark_rule(color=INK, strokeDash=[4, 3]).encode(y="peak:Q"))
    return finish(alt.layer(*layers), f"{name} against payload", 260)


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """Bus and algorithm bandwidth, of the sizes whose bandwidth is known."""
    known = rows.drop_nulls("p50_busbw_bytes_per_s").filter(pl.col("payload_bytes") > 0)
    if known.is_empty():
        return []
    note = "Point: median over instances of one size; line through it: 5th to 95th percentile."
    peak = known["peak_bytes_per_s"].drop_nulls().to_list()
    drawn = dict.fromkeys(BANDWIDTH_NAMES, note)
    if peak:
        drawn["busbw"] += f" Dashed: peak of one link in one direction, {show_bandwidth(peak[0])}."
    return [
        Figure(f"{BANDWIDTH_NAMES[measure]} against payload", bandwidth_chart(known, measure), text)
        for measure, text in drawn.items()
    ]


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many instances have a bandwidth."""
    measured, instances = total(rows, "measured"), total(rows, "instances")
    return f"Bandwidth is known for {measured:,} of {plural(instances, 'instance')}."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Why bandwidth or its share of the peak is missing."""
    found = []
    bounded = total(rows, "bounded")
    if bounded:
        count = plural(bounded, "instance")
        found.append(
            f"{count} left out: no done op waited, so the transfer ended earlier than the "
            "trace shows."
        )
    if total(rows, "measured") == 0:
        found.append(
            "No bandwidth is known: no instance has both a known size and a transfer time."
        )
    impossible = total(rows, "impossible")
    if impossible:
        found.append(
            f"{plural(impossible, 'instance')} faster than all links of their chips together at "
            "peak: the kind of chip, its peaks or the places of the chips are wrong."
        )
    if rows["p50_utilization_ratio"].null_count() == len(rows):
        found.append(f"The share of the busiest link's peak is not known: {_no_peak(facts)}.")
    else:
        found.append(
            "The busiest link is known for permutes, which go along their pairs, and for groups of "
            "two, of which every algorithm is the same exchange; of larger groups where the TPU's "
            "compiler states the rings that it sends over."
        )
    return found


why_empty = why_no_rows(
    "there is no transfer to time",
    "The trace has no collectives, so there is no bandwidth to measure.",
)


def _no_peak(facts: PageFacts) -> str:
    if facts.inferred:
        return "these devices are virtual and have no links"
    return (
        "the peak of the links, the places of the chips, or the route of groups of more than two is "
        "not known"
    )


def _tooltip(measure: str) -> list[alt.Tooltip]:
    exact, name = ",.9~g", BANDWIDTH_NAMES[measure].lower()
    return [
        alt.Tooltip("axis:N", title="axis"),
        alt.Tooltip("kind:N", title="kind"),
        alt.Tooltip("group_size:Q", title="group size"),
        alt.Tooltip("payload_bytes:Q", title="payload, bytes", format=","),
        alt.Tooltip("instances:Q", title="instances", format=","),
        alt.Tooltip(f"p50_{measure}_bytes_per_s:Q", title=f"{name} p50, B/s", format=exact),
        alt.Tooltip(f"p05_{measure}_bytes_per_s:Q", title="p5, B/s", format=exact),
        alt.Tooltip(f"p95_{measure}_bytes_per_s:Q", title="p95, B/s", format=exact),
        alt.Tooltip(
            "p50_utilization_ratio:Q", title="busiest link, share of peak p50", format=".4~%"
        ),
    ]


PANEL: Panel[PageFacts] = Panel(
    key="bandwidth",
    title="Bandwidth of collectives",
    lede="Bus bandwidth (busbw): bytes that the busiest participant sends, over transfer "
    "time. Algorithm bandwidth (algbw): payload over transfer time. Transfer time "
    "excludes waiting for late devices: it is the shortest among participants, where nccl-tests "
    "averages.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
