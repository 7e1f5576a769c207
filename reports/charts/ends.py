"""Names at the ends of lines and at marks: a reader need not go to the legend and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import altair as alt
import polars as pl

from xlahouse.reports.charts.panel import inline
from xlahouse.reports.charts.theme import INK

MAX_NAMES = 12  # of lines; beyond that the legend alone distinguishes them
_Row = dict[str, Any]
NEAR = 1 / 20  # of the axis: names that are closer would lie on each other


WIDE = 1 / 4  # of the axis: as wide as a name at a mark


@dataclass(frozen=True)
class Height:
    """The place of points along an axis, mostly the vertical one."""

    column: str  # of the rows, a number
    is_log: bool = False  # whether the axis is logarithmic; all values are then above 0
    also: tuple[float, ...] = ()  # other values that the axis reaches to

    def of(self, value: float) -> float:
        """The value as a place that grows evenly along the axis."""
        return math.log(value) if self.is_log else value

    def span(self, rows: pl.DataFrame) -> float:
        """The length of the axis, in the same places."""
        values = [*rows[self.column], *self.also]
        return self.of(max(values)) - self.of(min(values))

    def near(self, one: _Row, other: _Row, within: float) -> bool:
        """Whether two points are closer than that, in the same places."""
        return abs(self.of(one[self.column]) - self.of(other[self.column])) < within


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
    return _joined(lasts, name, height, lambda one, other: height.near(one, other, NEAR * span))


def mark_names(marks: pl.DataFrame, name: str, across: Height, height: Height) -> pl.DataFrame:
    """The marks that get a text, from the top down; marks so close that texts would overlap share one.

    Args:
        marks: with known places.
        name: column of a mark's name.
        across: where the marks are horizontally.
        height: where they are vertically.
    """
    if marks.is_empty():
        return marks
    width, tall = WIDE * across.span(marks), NEAR * height.span(marks)
    return _joined(
        marks,
        name,
        height,
        lambda one, other: across.near(one, other, width) and height.near(one, other, tall),
    )


def _joined(
    points: pl.DataFrame, name: str, height: Height, overlap: Callable[[_Row, _Row], bool]
) -> pl.DataFrame:
    """Points from the top down, without the ones that share the text of an earlier one."""
    found: list[_Row] = []
    names: list[list[str]] = []
    for row in points.sort(height.column, name, descending=[True, False]).to_dicts():
        shared = next((k for k, other in enumerate(found) if overlap(row, other)), None)
        if shared is None:
            found.append(row)
            names.append([row[name]])
        else:
            names[shared].append(row[name])
    texts = [first if not more else f"{first} and {len(more)} more" for first, *more in names]
    return pl.DataFrame(found, schema=points.schema).with_columns(pl.Series(name, texts))
