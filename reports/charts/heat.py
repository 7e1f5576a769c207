"""Heat maps that several panels share: cells coloured by an amount, and the numbers on them."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from xlahouse.reports.charts.palette import HEAT_INK, HEAT_RANGE, UNKNOWN_COLOUR
from xlahouse.reports.charts.panel import inline
from xlahouse.reports.charts.theme import INK

# Wider maps on a phone have cells narrower than their number.
MAX_LABELLED = 8


def heat_cells(
    data: pl.DataFrame,
    hue: alt.Color,
    tooltip: Sequence[alt.Tooltip],
    value: str = "amount",
    unknown: str = UNKNOWN_COLOUR,
    crowded: bool = False,
) -> alt.Chart:
    """A layer of cells; the caller adds the x and y channels.

    Args:
        data: one row a cell.
        hue: channel of the colour.
        tooltip: exact values.
        value: the column that `hue` shows.
        unknown: colour of cells whose value is NULL.
        crowded: whether cells are too small for round corners.
    """
    color = alt.condition(f"!isValid(datum.{value})", alt.value(unknown), hue)
    return (
        alt.Chart(inline(data))
        .mark_rect(cornerRadius=0 if crowded else 2, stroke=INK, strokeOpacity=0.25, invalid="show")
        .encode(color=color, tooltip=list(tooltip))
    )


def heat_numbers(data: pl.DataFrame, top: float) -> alt.Chart:
    """A layer of the cells' numbers, from the column `amount`, of which `top` is the greatest."""
    known = alt.Chart(inline(data.drop_nulls("amount")))
    number = alt.Text("amount:Q", format=".3~g")
    return known.mark_text(fontSize=11).encode(
        text=number, color=heat_ink(f"datum.amount > {top / 2!r}")
    )


def heat_ink(dark: str) -> alt.Color:
    """Colour of the text on a cell: light where the Vega expression `dark` holds."""
    return alt.condition(dark, alt.value(HEAT_INK[1]), alt.value(HEAT_INK[0]))


def amount_hue(top: float, title: str) -> alt.Color:
    """Colour channel of the column `amount`, from 0 to `top`."""
    legend = heat_legend(title, 160, format=".3~g")
    scale = alt.Scale(domain=[0, top], range=list(HEAT_RANGE))
    return alt.Color("amount:Q", scale=scale, legend=legend)


def heat_legend(title: str, length: int, **look: object) -> alt.Legend:
    """A legend `length` px long, below the map."""
    return alt.Legend(
        title=title, orient="bottom", direction="horizontal", gradientLength=length, **look
    )
