"""Horizontal bars that several panels share: stacked parts of a whole, and bars with long names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import altair as alt
import polars as pl

from xlahouse.reports.charts.palette import present_colours
from xlahouse.reports.charts.panel import inline
from xlahouse.reports.charts.theme import BAR_STEP, CHART_LIMIT, INK, colour, finish, rows_height

NAMED_STEP = 38


def stacked_bars(
    rows: pl.DataFrame,
    y: alt.Y,
    x: alt.X,
    part: str,
    colours: Mapping[str, str],
    tooltip: Sequence[alt.Tooltip],
    title: str,
) -> alt.Chart:
    """A chart of bars of parts; see `parts` for the arguments, `title` is for screen readers."""
    count = rows[str(y.shorthand).split(":")[0]].n_unique()
    return finish(parts(rows, y, x, part, colours, tooltip), title, bars_height(count))


def parts(
    rows: pl.DataFrame,
    y: alt.Y,
    x: alt.X,
    part: str,
    colours: Mapping[str, str],
    tooltip: Sequence[alt.Tooltip],
) -> alt.Chart:
    """A layer of bars of parts, in the order of `colours`.

    Args:
        rows: one a bar and part, with the columns that `y`, `x` and `tooltip` name.
        y: channel of the bars.
        x: channel of the parts' lengths.
        part: column of the part's name.
        colours: part -> colour; parts that no row has are left out of the legend.
        tooltip: exact values.
    """
    shown = present_colours(colours, rows[part])
    data = rows.with_columns(place_in(shown, part))
    width = 40 + 8 * max((len(name) for name in shown), default=0)
    return (
        alt.Chart(inline(data.sort("place", maintain_order=True)))
        .mark_bar(cornerRadius=1)
        .encode(
            y=y,
            x=x,
            color=colour(part, shown, column_width=width),
            order=alt.Order("place:Q"),
            tooltip=list(tooltip),
        )
    )


def place_in(order: Iterable[str], column: str) -> pl.Expr:
    """`place`: where the value of `column` is in `order`, which the parts of a bar follow."""
    places = {name: place for place, name in enumerate(order)}
    return pl.col(column).replace_strict(places, return_dtype=pl.Int64).alias("place")


def bars_height(count: int) -> int:
    """Height in px of `count` bars; many are thin, and very many as thin as their names are high."""
    return rows_height(count, BAR_STEP if count <= 16 else 16 if count <= 32 else 12)


def named_bars(
    rows: pl.DataFrame,
    name: str,
    x: alt.X,
    hue: alt.Color,
    tooltip: Sequence[alt.Tooltip],
    title: str,
    end: str = "",
) -> alt.Chart:
    """Bars with their names above them, so that a long name fits on a narrow page.

    Args:
        rows: one a bar, or one a bar and part (then with a column `place` that orders the parts).
        name: column of the text above a bar; equal names would be one bar, so they must differ.
        x: channel of the length.
        hue: channel of the colour.
        tooltip: exact values.
        title: the subject, for screen readers.
        end: column of where a bar ends, if `x` is where it starts.
    """
    y = alt.Y(f"{name}:N", sort=None, title=None, axis=None, scale=alt.Scale(paddingInner=0))
    bars = alt.Chart(inline(rows)).mark_bar(cornerRadius=1, size=14, yOffset=8)
    names = rows.unique(name, keep="first", maintain_order=True).select(name)
    texts = alt.Chart(inline(names)).mark_text(
        align="left", baseline="middle", dy=-8, color=INK, limit=CHART_LIMIT
    )
    encoded = bars.encode(y=y, x=x, color=hue, tooltip=list(tooltip))
    if end:
        encoded = encoded.encode(x2=end)
    if "place" in rows.columns:
        encoded = encoded.encode(order=alt.Order("place:Q"))
    layers = alt.layer(encoded, texts.encode(y=y, x=alt.value(0), text=f"{name}:N"))
    return finish(layers, title, rows_height(len(names), NAMED_STEP))


def percent(field: str, title: str, top: float | None = None) -> alt.X:
    """An x channel of shares; `top` fixes its end."""
    scale = alt.Scale(domain=[0, top]) if top is not None else alt.Scale(zero=True)
    return alt.X(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(format=".3~p", tickCount=5))


def amount(field: str, title: str) -> alt.X:
    """An x channel of an amount, from 0."""
    return alt.X(f"{field}:Q", title=title, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=5))
