"""Which links of the torus carry how much, dimension by dimension, as heat maps."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.columns import (
    bandwidth_column,
    bytes_column,
    dashed_column,
    ratio_column,
    text_column,
)
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.heat import MAX_LABELLED, amount_hue, heat_cells, heat_numbers
from xlahouse.reports.charts.panel import Figure, Panel, TableColumn
from xlahouse.reports.charts.phases import PHASE
from xlahouse.reports.charts.sums import greatest, known_total
from xlahouse.reports.charts.theme import finish, rows_height
from xlahouse.reports.charts.torus import across, line_count, line_name, shape_name, sizes_of
from xlahouse.reports.charts.units import (
    BYTES,
    Unit,
    plural,
    show_bytes,
    show_ratio,
    suit,
)

# Phases are added up; a link's bandwidth and share of its peak are from its busiest phase. A link leads
# forward where it raises the coordinate, or leads around from the last chip to the first.
SQL = f"""
with found as (
    select
        *,
        {PHASE} as phase_name,
        cast(string_split(topology, 'x') as bigint[]) as sizes,
        cast(string_split(trim(source_place, '()'), ',') as bigint[]) as here,
        cast(string_split(trim(target_place, '()'), ',') as bigint[]) as there
    from link_traffic_v1
    where run_id = $run and algorithm in ('ring', 'compiled')
), turned as (
    select
        *,
        case
            when here[1] <> there[1] then 1
            when here[2] <> there[2] then 2
            when here[3] <> there[3] then 3
        end as d
    from found
), directed as (
    select
        *,
        case d when 1 then 'x' when 2 then 'y' when 3 then 'z' end as dimension,
        there[d] = here[d] + 1 or there[d] = 0 and here[d] = sizes[d] - 1 and sizes[d] > 2 as is_forward,
        case d
            when 1 then coalesce(here[3], 0) * sizes[2] + here[2]
            when 2 then coalesce(here[3], 0) * sizes[1] + here[1]
            when 3 then here[2] * sizes[1] + here[1]
        end as line
    from turned
)
select
    algorithm,
    topology,
    dimension,
    is_forward,
    here[d] as source,
    there[d] as target,
    line,
    source_place,
    target_place,
    case when count(bytes) = count(*) then sum(bytes) end as bytes,
    max(sources_seen) as sources_seen,
    max(link_bytes_per_s) as link_bytes_per_s,
    max(utilization_ratio) as utilization_ratio,
    arg_max(phase_name, utilization_ratio) as busiest_phase,
    topology_problem
from directed
group by all
order by algorithm desc, dimension, line, is_forward desc, source, topology_problem
"""

COLUMNS = (
    text_column("algorithm", "Algorithm"),
    text_column("dimension", "Along"),
    dashed_column("source_place", "From chip"),
    dashed_column("target_place", "To chip"),
    bytes_column("bytes", "Bytes, all phases"),
    bandwidth_column("link_bytes_per_s", "Bandwidth, busiest phase"),
    ratio_column("utilization_ratio", "Share of peak, busiest phase"),
    dashed_column("busiest_phase", "Busiest phase"),
    TableColumn("sources_seen", "Sending devices", numeric=True),
)


def link_chart(rows: pl.DataFrame, dimension: str, unit: Unit, top: float) -> alt.Chart:
    """Bytes of each link along a dimension: one column per step along it, one row per line of chips.

    Args:
        rows: rows of SQL of the dimension.
        dimension: x, y or z.
        unit: of the bytes; the same for all dimensions, as is `top`, so that colours compare.
        top: the greatest number of bytes.
    """
    sizes = sizes_of(_topology(rows))
    data = rows.with_columns(
        (pl.col("bytes") / unit.factor).alias("amount"),
        pl.concat_str("source", pl.lit("→"), "target").alias("step"),
        pl.Series("place", [line_name(line, dimension, sizes) for line in rows["line"]]),
    )
    ways = data.sort("is_forward", "source", descending=[True, False], maintain_order=True)
    steps = ways["step"].unique(maintain_order=True).to_list()
    places = [line_name(line, dimension, sizes) for line in range(line_count(dimension, sizes))]
    crowded = len(steps) > MAX_LABELLED
    hue = amount_hue(top / unit.factor, f"Bytes, all phases ({unit.symbol})")
    layers = [heat_cells(data, hue, _tooltip(), crowded=crowded)]
    if not crowded:
        layers.append(heat_numbers(data, top / unit.factor))
    x, y = _step_axis(steps, dimension), _line_axis(places, across(dimension, sizes))
    height = rows_height(len(places), min(40, max(9, 320 // len(places))))
    title = f"Bytes on the links along {dimension}"
    return finish(alt.layer(*(layer.encode(x=x, y=y) for layer in layers)), title, height)


def _step_axis(steps: list[str], dimension: str) -> alt.X:
    return alt.X(
        "step:N",
        title=f"Link along {dimension} (coordinate of source → target)",
        scale=alt.Scale(domain=steps, padding=0.04),
        axis=alt.Axis(
            orient="top", labelAngle=-90 if len(steps) > MAX_LABELLED else 0, labelOverlap=True
        ),
    )


def _line_axis(places: list[str], coordinates: str) -> alt.Y:
    return alt.Y(
        "place:N",
        title=f"Line of chips ({coordinates})",
        scale=alt.Scale(domain=places, padding=0.04),
        axis=alt.Axis(labelOverlap=True),
    )


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """A heat map of each dimension along which there are links with traffic, of a ring, then as compiled."""
    ring, chosen = _by_algorithm(rows)
    return _maps(ring, "") + _maps(chosen, ", as the compiler chose")


def _by_algorithm(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(the rows of a ring, the rows of the compiler's choice)."""
    is_chosen = pl.col("algorithm") == "compiled"
    return rows.filter(~is_chosen), rows.filter(is_chosen)


def _maps(rows: pl.DataFrame, how: str) -> list[Figure]:
    linked = rows.drop_nulls("topology")
    if linked["bytes"].null_count() == len(linked):
        return []
    top = greatest(linked, "bytes")
    unit = suit([top], BYTES)
    return [
        Figure(
            f"Links along {dimension} of the {shape_name(_topology(linked))} torus{how}",
            link_chart(linked.filter(pl.col("dimension") == dimension), dimension, unit, top),
        )
        for dimension in linked["dimension"].unique(maintain_order=True)
    ]


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many links carry how much, of a ring."""
    rows, _ = _by_algorithm(rows)
    linked = rows.drop_nulls("topology")
    if linked.is_empty():
        return "No link is known."
    sent = known_total(linked, "bytes")
    carried = "an unknown number of bytes" if sent is None else show_bytes(sent)
    return (
        f"{plural(len(linked), 'link')} carry {carried}, each transfer counted on every link "
        f"of its route."
    )


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """The busiest link, what empty cells mean, why links are not known, and the compiler's choice."""
    rows, chosen = _by_algorithm(rows)
    found = []
    linked = rows.drop_nulls("topology")
    if not linked.is_empty():
        found.append(_busiest(linked))
        whose = "any device" if facts.compiled else "a traced device"
        untraced = "" if facts.compiled else " Devices that were not traced may use any link."
        found.append(f"Empty cell: no bytes of {whose} cross that link.{untraced}")
    if linked["bytes"].has_nulls():
        found.append("Grey cell: a collective of unknown size crosses that link.")
    known = linked.drop_nulls("utilization_ratio")
    if facts.compiled and not linked.is_empty():
        found.append("The share of the links' peak is not known: nothing ran.")
    elif not linked.is_empty() and known.is_empty():
        found.append(
            "The share of the links' peak is not known: the table of peaks has no entry for "
            "this chip."
        )
    reasons = rows["topology_problem"].drop_nulls().unique(maintain_order=True)
    found += [f"Links are not known: {reason}." for reason in reasons]
    return found + _notes_on_choice(chosen, set(reasons))


def _notes_on_choice(chosen: pl.DataFrame, told: set[str]) -> list[str]:
    """The busiest link as the compiler chose, and what its links lack. told: reasons that stand already."""
    linked = chosen.drop_nulls("topology")
    found = [] if linked.is_empty() else [f"As the compiler chose: {_busiest(linked)}"]
    reasons = chosen["topology_problem"].drop_nulls().unique(maintain_order=True)
    lacking = [reason for reason in reasons if reason not in told]
    return found + [f"Transfers lack there, since {reason}." for reason in lacking]


why_empty = why_no_rows(
    "the traffic on its links is not known",
    "No collective sends data to another device, so no link carries traffic.",
)


def _busiest(linked: pl.DataFrame) -> str:
    row = linked.sort("bytes", descending=True, nulls_last=True, maintain_order=True).to_dicts()[0]
    text = (
        f"Busiest link: {show_bytes(row['bytes'])} from chip {row['source_place']} to "
        f"{row['target_place']}"
    )
    if row["utilization_ratio"] is None:
        return f"{text}."
    share = show_ratio(row["utilization_ratio"])
    return (
        f"{text}; in its busiest phase ({row['busiest_phase']}), {share} of a link's peak in "
        "one direction."
    )


def _topology(rows: pl.DataFrame) -> str:
    """Such as `4x2`; a run has one."""
    return str(rows["topology"].to_list()[0])


def _tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("source_place:N", title="from chip"),
        alt.Tooltip("target_place:N", title="to chip"),
        alt.Tooltip("bytes:Q", title="bytes", format=",.15~g"),
        alt.Tooltip("link_bytes_per_s:Q", title="B/s, busiest phase", format=",.9~g"),
        alt.Tooltip("utilization_ratio:Q", title="share of a link's peak", format=".4~%"),
        alt.Tooltip("sources_seen:Q", title="sending devices", format=","),
    ]


PANEL: Panel[PageFacts] = Panel(
    key="links",
    title="Traffic on the links",
    lede="The traffic matrix, routed through the torus of chips: along x, then y, then z, "
    "the shorter way each time; where the TPU's compiler states how it sends, its "
    "choice is drawn as well. One map per dimension: a row is a line of chips, a "
    "column a link from one chip to the next.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
