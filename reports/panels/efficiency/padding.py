"""How many bytes of results are padding, because a tiled layout rounds dimensions up."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import amount, named_bars
from xlahouse.reports.charts.columns import bytes_column, count_column, factor_column, text_column
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.palette import KIND_COLOURS
from xlahouse.reports.charts.panel import Figure, Panel
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import colour
from xlahouse.reports.charts.units import (
    BYTES,
    plural,
    show_bytes,
    show_factor,
    suit,
)

MAX_SHAPES = 200
MAX_SHAPE_BARS = 15

# Results of executed instructions; equal shapes of one opcode, as in each layer, are one row.
SQL = f"""
with executed as (
    select distinct program_id, op
    from ops
    where run_id = $run
), results as (
    select l.*
    from layout_v1 as l
    inner join executed as e on e.program_id = l.program_id and e.op = l.op
    where l.run_id = $run and dtype is distinct from 'tuple'
), shapes as (
    select
        shape,
        opcode,
        memory,
        count(*) as instructions,
        count(waste_bytes) as known,
        cast(sum(logical_bytes) as double) as logical_bytes,
        cast(sum(padded_bytes) as double) as padded_bytes,
        cast(sum(waste_bytes) as double) as waste_bytes
    from results
    group by shape, opcode, memory
)
select
    *,
    padded_bytes / nullif(logical_bytes, 0) as padding_ratio,
    cast(sum(instructions) over () as bigint) as all_instructions,
    cast(sum(known) over () as bigint) as all_known,
    sum(logical_bytes) over () as all_logical_bytes,
    sum(padded_bytes) over () as all_padded_bytes
from shapes
order by waste_bytes desc nulls last, shape, opcode
limit {MAX_SHAPES}
"""

COLUMNS = (
    text_column("shape", "Shape and layout"),
    text_column("opcode", "Opcode"),
    text_column("memory", "Memory"),
    count_column("instructions", "Instructions"),
    bytes_column("logical_bytes", "Logical"),
    bytes_column("padded_bytes", "Padded"),
    bytes_column("waste_bytes", "Wasted"),
    factor_column("padding_ratio", "Padded / logical"),
)

PART_COLOURS = {"data": KIND_COLOURS["all-reduce"], "padding": KIND_COLOURS["all-to-all"]}


def waste_chart(rows: pl.DataFrame) -> alt.Chart:
    """Bytes of results by shape: data and padding.

    Args:
        rows: rows of SQL that waste something.
    """
    unit = suit(rows["padded_bytes"], BYTES)
    data = _parts(rows).with_columns(
        (pl.col("bytes") / unit.factor).alias("amount"),
        (pl.col("part") == "padding").cast(pl.Int64).alias("place"),
    )
    return named_bars(
        data,
        "name",
        amount("amount", f"Bytes of all results of this shape ({unit.symbol})"),
        colour("part", PART_COLOURS, column_width=110),
        [
            alt.Tooltip("name:N", title="opcode, shape"),
            alt.Tooltip("part:N", title="part"),
            alt.Tooltip("bytes:Q", title="bytes", format=",.15~g"),
            alt.Tooltip("padding_ratio:Q", title="padded / logical", format=".4~g"),
            alt.Tooltip("instructions:Q", title="instructions", format=","),
        ],
        "Bytes of data and padding, by shape",
    )


def _parts(rows: pl.DataFrame) -> pl.DataFrame:
    """One row a shape and part (data, padding): name, instructions, padding_ratio, part, bytes."""
    name = pl.col("opcode").fill_null("?") + "  " + pl.col("shape")
    parts = {"data": pl.col("logical_bytes"), "padding": pl.col("waste_bytes")}
    return (
        rows.with_columns(name.alias("name"), **parts)
        .unique("name", keep="first", maintain_order=True)
        .unpivot(
            list(parts),
            index=["name", "instructions", "padding_ratio"],
            variable_name="part",
            value_name="bytes",
        )
    )


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """One chart over the shapes that waste most."""
    wasting = rows.filter(pl.col("waste_bytes") > 0)
    if wasting.is_empty():
        return []
    note = ""
    if len(wasting) > MAX_SHAPE_BARS:
        note = f"The {MAX_SHAPE_BARS} shapes with the most waste."
    return [
        Figure(
            "Padding of results by shape",
            waste_chart(wasting.head(MAX_SHAPE_BARS)),
            note,
            shape="wide",
        )
    ]


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many executed instructions have a size."""
    first = rows.head(1)  # also where there is no row
    executed = plural(total(first, "all_instructions"), "executed instruction")
    known = f"{total(first, 'all_known'):,} of {executed}"
    return f"Padding known for {known}."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """The waste of all instructions together."""
    first = rows.row(0, named=True)
    logical, padded = first["all_logical_bytes"], first["all_padded_bytes"]
    found = []
    if not first["all_known"]:
        found.append(
            "Padding is not known: the trace's HLO has no layouts, or the sizes of results "
            "are dynamic."
        )
    elif padded == logical:
        found.append("No executed instruction has a padded result: nothing is wasted.")
    elif logical:
        found.append(
            f"All executed instructions together: {show_bytes(padded)} for {show_bytes(logical)} of data, "
            f"{show_factor(padded / logical)} times as much. Each instruction counts once, "
            "however often it ran."
        )
    if len(rows) == MAX_SHAPES:
        found.append(
            f"The table has the {MAX_SHAPES} shapes with the most waste; the query gives the rest."
        )
    return found


why_empty = why_no_rows(
    "no instruction is known to have run",
    "The trace has no HLO of the programs that ran, so the layouts of their results are not known.",
)


PANEL: Panel[PageFacts] = Panel(
    key="layout",
    title="Layout waste",
    lede="A tiled layout rounds the minor dimensions of a result up to whole tiles; the "
    "padding takes memory and bandwidth and holds no data.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
