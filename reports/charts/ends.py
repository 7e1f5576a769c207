"""Names at the ends of lines: a reader need not go to the legend and back."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.panel import inline
from xlahouse.reports.charts.theme import INK

MAX_NAMES = 12  # more would lie on each other


def end_names(rows: pl.DataFrame, name: str, x: alt.X, y: alt.Y, at: str) -> list[alt.Chart]:
    """A layer with each line's name after its last point; none where lines are too many.

    Args:
        rows: the points of all lines.
        name: column of a line's name.
        x: channel of the points.
        y: the same.
        at: column that orders a line's points.
    """
    lasts = rows.sort(at).unique(name, keep="last", maintain_order=True)
    if not 0 < len(lasts) <= MAX_NAMES:
        return []
    texts = alt.Chart(inline(lasts)).mark_text(align="left", dx=7, color=INK, fontSize=11)
    return [texts.encode(x=x, y=y, text=alt.Text(f"{name}:N"))]
