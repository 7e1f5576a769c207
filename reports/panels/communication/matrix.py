"""Which device sends to which: the traffic matrix as heat maps, whole, by axis and by phase."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.columns import bytes_column, dashed_column, text_column
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.heat import MAX_LABELLED, amount_hue, heat_cells, heat_numbers
from xlahouse.reports.charts.palette import UNKNOWN_COLOUR
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.phases import PHASE, phase_order
from xlahouse.reports.charts.sums import greatest, known_total
from xlahouse.reports.charts.theme import finish, rows_height
from xlahouse.reports.charts.units import BYTES, plural, show_bytes, suit

# Every named device has a row, whether it sends or not: a device that sends nothing (0) differs from one
# that was not traced (NULL). SparseCores that send nothing are left out. Past 64 devices neighbours share
# a cell, so that a map has at most 4,096 of them.
SQL = f"""
with traffic as (
    select
        {PHASE} as phase, axis, algorithm, source_device_id, target_device_id, bytes, target_problem
    from traffic_matrix_v1
    where run_id = $run and algorithm in ('ring', 'compiled')
), numbered as (
    select
        device_id,
        traced,
        row_number() over (partition by run_id order by device_id) - 1 as place,
        count(*) over (partition by run_id) as named
    from devices
    where run_id = $run and (
        core is distinct from 'sparsecore' or device_id in (select source_device_id from traffic)
    )
), placed as (
    select device_id, traced, cast(floor(place / ceil(named / 64.0)) as bigint) as block
    from numbered
), blocks as (
    select
        block,
        case
            when count(*) = 1 then cast(min(device_id) as varchar)
            else cast(min(device_id) as varchar) || '-' || cast(max(device_id) as varchar)
        end as label,
        bool_or(traced) as traced
    from placed
    group by block
), cells as (
    select
        phase,
        axis,
        algorithm,
        sender.block as source_block,
        receiver.block as target_block,
        target_problem,
        case when count(bytes) = count(*) then cast(sum(bytes) as double) end as bytes
    from traffic
    inner join placed as sender on sender.device_id = source_device_id
    left join placed as receiver on receiver.device_id = target_device_id
    group by phase, axis, algorithm, sender.block, receiver.block, target_problem
)
select
    sender.label as source,
    sender.traced as source_traced,
    receiver.label as target,
    phase,
    axis,
    coalesce(algorithm, 'ring') as algorithm,
    case when cells.source_block is null and sender.traced then 0 else cells.bytes end as bytes,
    target_problem
from blocks as sender
left join cells on cells.source_block = sender.block
left join blocks as receiver on receiver.block = cells.target_block
order by
    coalesce(algorithm, 'ring') desc,
    sender.block,
    receiver.block,
    axis,
    {phase_order()},
    target_problem
"""

COLUMNS = (
    text_column("source", "Source device"),
    dashed_column("target", "Target device"),
    dashed_column("axis", "Axis"),
    dashed_column("phase", "Phase"),
    text_column("algorithm", "Algorithm"),
    bytes_column("bytes", "Bytes"),
)
MAX_MAPS = 6
# Larger maps take half the page's width, where cells are still seen.
MAX_SQUARE = 16


def matrix_chart(rows: pl.DataFrame, devices: list[str], untraced: list[str]) -> alt.Chart:
    """Heat map of bytes, source by target.

    Args:
        rows: source, target (labels), bytes: one row a cell.
        devices: labels of all named devices, in order: the domain of both sides.
        untraced: sources of which nothing is known; drawn grey, not empty.
    """
    unit = suit(rows["bytes"], BYTES)
    data = rows.with_columns((pl.col("bytes") / unit.factor).alias("amount"))
    top = greatest(data, "amount") or 1.0
    source, target = _source_axis(devices), _target_axis(devices)
    layers: list[alt.Chart] = []
    if untraced:
        grey = alt.Chart(inline(pl.DataFrame({"source": untraced}))).mark_rect(opacity=0.25)
        tip = alt.value("not traced: not known")
        layers.append(grey.encode(y=source, color=alt.value(UNKNOWN_COLOUR), tooltip=tip))
    hue = amount_hue(top, f"Bytes sent ({unit.symbol})")
    cells = heat_cells(data, hue, _tooltip(), crowded=len(devices) > MAX_SQUARE)
    layers.append(cells.encode(y=source, x=target))
    if len(devices) <= MAX_LABELLED:
        layers.append(heat_numbers(data, top).encode(y=source, x=target))
    height = rows_height(len(devices), min(64, max(7, 400 // len(devices))))
    return finish(alt.layer(*layers), "Bytes from source to target device", height)


def _source_axis(devices: list[str]) -> alt.Y:
    return alt.Y(
        "source:N",
        title="Source device",
        scale=alt.Scale(domain=devices, padding=0.04),
        axis=alt.Axis(labelOverlap=True),
    )


def _target_axis(devices: list[str]) -> alt.X:
    return alt.X(
        "target:N",
        title="Target device",
        scale=alt.Scale(domain=devices, padding=0.04),
        axis=alt.Axis(orient="top", labelAngle=0, labelOverlap=True),
    )


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """The whole traffic as a ring, and as compiled; then as a ring its parts by axis and phase, where there
    are several, most bytes first."""
    rows, chosen = _by_algorithm(rows)
    devices = rows["source"].unique(maintain_order=True).to_list()
    hidden = untraced_sources(rows)
    # unknown bytes stay, and make the sum that they are in unknown
    sent = rows.drop_nulls("target")
    if sent.is_empty():
        return []
    drawn = [_map("All traffic", sent, devices, hidden)]
    for column, form in (("axis", "Traffic of axis {}"), ("phase", "Traffic, {}")):
        sums = sent.group_by(column, maintain_order=True).agg(pl.col("bytes").sum())
        names = sums.sort("bytes", descending=True, maintain_order=True)[column].to_list()
        if len(names) == 1 and column == "axis":
            drawn[0] = _map(f"All traffic (axis {names[0]})", sent, devices, hidden)
        for name in names if len(names) > 1 else ():
            title = form.format(name)
            drawn.append(_map(title, sent.filter(pl.col(column) == name), devices, hidden))
    known = chosen.drop_nulls("target")
    if not known.is_empty():
        drawn.insert(1, _map("All traffic, as the compiler chose", known, devices, hidden))
    return drawn[:MAX_MAPS]


def _by_algorithm(rows: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(the rows of a ring, the rows of the compiler's choice)."""
    is_chosen = pl.col("algorithm") == "compiled"
    return rows.filter(~is_chosen), rows.filter(is_chosen)


def _map(title: str, part: pl.DataFrame, devices: list[str], hidden: list[str]) -> Figure:
    cells = part.group_by("source", "target", maintain_order=True).agg(_known_sum("bytes"))
    shape = "square" if len(devices) <= MAX_SQUARE else "half"
    return Figure(title, matrix_chart(cells, devices, hidden), shape=shape)


def untraced_sources(rows: pl.DataFrame) -> list[str]:
    """Labels of devices that were not traced, in order."""
    return rows.filter(~pl.col("source_traced"))["source"].unique(maintain_order=True).to_list()


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many bytes are drawn, from how many sources."""
    rows, _ = _by_algorithm(rows)
    drawn = rows.drop_nulls("target")
    shared = rows["source"].str.contains("-").any()
    senders = drawn["source"].n_unique()
    sources = f"{senders:,} groups of sources" if shared else plural(senders, "source")
    return f"Draws {show_bytes(known_total(drawn, 'bytes'))} from {sources}."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """What grey and empty cells mean, and what the compiler's choice does not tell."""
    rows, chosen = _by_algorithm(rows)
    found = []
    hidden = untraced_sources(rows)
    if hidden and not facts.compiled:
        shown = ", ".join(hidden[:16]) + (", …" if len(hidden) > 16 else "")
        found.append(
            f"The trace has no events of device {shown}: the bytes sent are not known (grey, "
            "not empty)."
        )
    lost = rows.filter(pl.col("axis").is_not_null() & pl.col("target").is_null())
    if not lost.is_empty():
        sent = show_bytes(known_total(lost, "bytes"))
        found.append(f"Not drawn: traffic to unknown devices ({sent}).")
    if rows.filter(pl.col("axis").is_not_null())["bytes"].has_nulls():
        found.append("Grey cells: the size of a collective among their traffic is not known.")
    if rows["target"].null_count() == len(rows):
        found.append("No traced device is known to have sent data to another device.")
    if rows["source"].str.contains("-").any():
        found.append("Neighbouring devices share a cell: the run has more than 64 devices.")
    silent = chosen.filter(pl.col("target").is_null())
    if not silent.is_empty():
        sent, whole = (show_bytes(known_total(each, "bytes")) for each in (silent, chosen))
        reasons = ", or ".join(silent["target_problem"].drop_nulls().unique(maintain_order=True))
        found.append(
            f"As the compiler chose: the targets of {sent} of {whole} are not known: {reasons}."
        )
    return found


def why_empty(facts: PageFacts) -> str:
    """Why there is no matrix."""
    return "The run names no devices, so senders and receivers are not known."


def _known_sum(column: str) -> pl.Expr:
    """The sum, or NULL where a part is."""
    whole = pl.col(column)
    return pl.when(whole.null_count() == 0).then(whole.sum()).alias(column)


def _tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("source:N", title="source device"),
        alt.Tooltip("target:N", title="target device"),
        alt.Tooltip("bytes:Q", title="bytes", format=",.15~g"),
    ]


PANEL: Panel[PageFacts] = Panel(
    key="matrix",
    title="Traffic matrix",
    lede="Bytes from source to target device, if every collective runs as a ring: each "
    "member sends to the next in its group. An all-to-all sends to every member, a "
    "permute along its pairs. Where the TPU's compiler states how it sends, a second map "
    "shows its choice. Numbers are in the unit of the colour scale.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
