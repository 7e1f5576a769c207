"""Names at the ends of lines: a reader need not go to the legend and back."""

from __future__ import annotations

import math
from dataclasses import dataclass

import altair as alt
import polars as pl

from xlahouse.reports.charts.panel import inline
from xlahouse.reports.charts.theme import INK

MAX_NAMES = 12  # of lines; beyond that the legend alone distinguishes them
NEAR = 1 / 20  # of the axis: names that are closer would lie on each other


@dataclass(frozen=True)
class Height:
    """The vertical place of a line's points.

    Attributes:
        column: of the rows, a number.
        is_log: whether the axis is logarithmic; all values are then above 0.
        also: other values that the axis reaches to.
    """

    column: str
    is_log: bool = False
    also: tuple[float, ...] = ()

    def of(self, value: float) -> float:
        """The value as a place that grows evenly along the axis."""
        return math.log(value) if self.is_log else value

    def span(self, rows: pl.DataFrame) -> float:
        """The length of the axis, in the same places."""
        values = [*rows[self.column], *self.also]
        return self.of(max(values)) - self.of(min(values))


def end_names(
    rows: pl.DataFrame, name: str, x: alt.X, y: alt.Y, at: str, height: Height
) -> list[alt.Chart]:
    """A layer with each line's name after its last point; lines that end together share one text.

    Args:
        rows: the points of all lines, with known heights.
        name: column of a line's name.
        x: channel of the points.
        y: the same.
        at: column that orders a line's points.
        height: where the points are vertically.
    """
    lasts = rows.sort(at).unique(name, keep="last", maintain_order=True)
    if not 0 < len(lasts) <= MAX_NAMES:
        return []
    named = pl.concat(
        _apart(part, name, height, height.span(rows))
        for part in lasts.partition_by(at, maintain_order=True)
    )
    texts = alt.Chart(inline(named)).mark_text(align="left", dx=7, color=INK, fontSize=11)
    return [texts.encode(x=x, y=y, text=alt.Text(f"{name}:N"))]


def _apart(lasts: pl.DataFrame, name: str, height: Height, span: float) -> pl.DataFrame:
    """Of the last points above one place of the x axis those that get a text, from the top down."""
    found: list[dict[str, object]] = []
    names: list[list[str]] = []
    top = math.inf
    for row in lasts.sort(height.column, name, descending=[True, False]).to_dicts():
        place = height.of(row[height.column])
        if found and top - place < NEAR * span:
            names[-1].append(row[name])
            continue
        found.append(row)
        names.append([row[name]])
        top = place
    texts = [first if not more else f"{first} and {len(more)} more" for first, *more in names]
    return pl.DataFrame(found, schema=lasts.schema).with_columns(pl.Series(name, texts))
