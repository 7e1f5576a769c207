"""The look that all charts share; it follows the page's text colour: dark, light or printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import altair as alt

# Grid, rules and labels take the page's colour; the SVG renderer passes `currentColor` on to CSS.
INK = "currentColor"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"
CONTAINER_WIDTH = "containerSize()[0]"  # px of a chart's place on a page, in an expression
# Of a text from the left edge of a chart: longer names of kernels end in an ellipsis.
CHART_LIMIT = alt.ExprRef(
    f"isValid({CONTAINER_WIDTH}) ? {CONTAINER_WIDTH} - 16 + 0 * width : width"
)
# No chart may hold more marks: a page must open on a phone.
MAX_MARKS = 20_000
BAR_STEP = 30

# Of an entry of a legend: its symbol and gap, a letter, and the longest name, which fits a phone.
_ENTRY_PX, _LETTER_PX, _LEGEND_LABEL_PX = 40, 7, 270

_AXIS_LOOK = {
    "labelColor": INK,
    "titleColor": INK,
    "domainColor": INK,
    "tickColor": INK,
    "gridColor": INK,
    "domainOpacity": 0.35,
    "tickOpacity": 0.35,
    "gridOpacity": 0.12,
    "labelFontSize": 12,
    "titleFontSize": 12,
    "titleFontWeight": "normal",
    "titlePadding": 8,
    "labelLimit": 0,
    "labelSeparation": 6,  # px: ticks whose numbers would touch have none
}
_LEGEND_LOOK = {
    "labelColor": INK,
    "titleColor": INK,
    "labelFontSize": 12,
    "titleFontSize": 12,
    "titleFontWeight": "normal",
    "labelLimit": _LEGEND_LABEL_PX,
    "orient": "top",
    "symbolType": "square",
    "symbolOpacity": 1,
    "symbolFillColor": INK,
    "symbolStrokeColor": INK,
    "symbolStrokeWidth": 0,
    "columnPadding": 16,
    "padding": 4,
}
CONFIG: dict[str, object] = {
    "background": "transparent",
    "font": FONT,
    "view": {"stroke": None},
    "scale": {"bandPaddingInner": 0.3, "rectBandPaddingInner": 0.04},
    "axis": _AXIS_LOOK,
    "legend": _LEGEND_LOOK,
    "title": {"color": INK, "fontSize": 13, "anchor": "start", "fontWeight": 600},
    "text": {"color": INK, "fontSize": 12},
}


def colour(
    field: str,
    colours: Mapping[str, str],
    title: str | None = None,
    column_width: int = 150,
    hollow: bool = False,
) -> alt.Color:
    """A colour channel with fixed colours and a legend that wraps to the width of the chart.

    Args:
        field: the nominal field.
        colours: category -> colour, in the order of the legend.
        title: of the legend.
        column_width: least px of an entry.
        hollow: its marks are outlines.
    """
    return alt.Color(
        field,
        type="nominal",
        scale=alt.Scale(domain=list(colours), range=list(colours.values())),
        legend=_legend(title, column_width, colours, hollow),
    )


def shape(
    field: str, shapes: Mapping[str, str], title: str, column_width: int, hollow: bool = False
) -> alt.Shape:
    """A shape channel with fixed shapes; else as `colour`."""
    return alt.Shape(
        field,
        type="nominal",
        scale=alt.Scale(domain=list(shapes), range=list(shapes.values())),
        legend=_legend(title, column_width, shapes, hollow),
    )


def _legend(
    title: str | None, column_width: int, entries: Iterable[str], hollow: bool
) -> alt.Legend:
    outline = {"symbolStrokeWidth": 2, "symbolFillColor": "transparent"} if hollow else {}
    return alt.Legend(title=title, columns=legend_columns(column_width, entries), **outline)


def legend_columns(column_width: int, entries: Iterable[str] = ()) -> alt.ExprRef:
    """As many columns as fit the chart's place; without a place, four.

    The container's size, not `width`, decides: fitting changes `width` after the legend was laid out,
    and a legend that then wraps is cut off. `width` is in the expression so that a resize evaluates it again.

    Args:
        column_width: least px of an entry.
        entries: names, of which the longest may need more.
    """
    longest = max(map(len, entries), default=0)
    need = max(column_width, min(_ENTRY_PX + _LETTER_PX * longest, _ENTRY_PX + _LEGEND_LABEL_PX))
    fit = f"max(1, floor(({CONTAINER_WIDTH} + 0 * width - 40) / {need}))"
    return alt.ExprRef(f"isValid({CONTAINER_WIDTH}) ? {fit} : 4")


def finish(chart: alt.Chart | alt.LayerChart, title: str, height: int) -> alt.Chart:
    """The chart at the width of its place on the page, with a description for screen readers.

    Args:
        chart: single or layered view.
        title: the subject, in a sentence fragment.
        height: px. (A height by step makes Vega-Lite warn that it cannot fit both sides.)
    """
    return chart.properties(description=title, width="container", height=height).configure(**CONFIG)


def zoom_in_time() -> alt.Parameter:
    """The selection that moves and zooms along x; charts.js gives it keys, too, by its name."""
    # A plain wheel scrolls the page, and with Shift browsers scroll sideways.
    wheel = "wheel![event.ctrlKey || event.metaKey]"
    return alt.selection_interval(name="zoom", bind="scales", encodings=["x"], zoom=wheel)


ZOOM_NOTE = "Drag to move, Ctrl and wheel to zoom, double-click to reset; keys: arrows, + and -, 0."


def rows_height(count: int, step: int = BAR_STEP) -> int:
    """Height in px of `count` rows of bars."""
    return max(count, 1) * step
