"""Bars with names above them: a long name does not push the bars out of the chart."""

from __future__ import annotations

import polars as pl

from tests.reports.vega_lite import texts
from xlahouse.reports.charts.bars import amount, named_bars
from xlahouse.reports.charts.labels import clipped
from xlahouse.reports.charts.theme import colour


def test_a_long_name_ends_in_an_ellipsis_within_the_chart():
    """Kernels of GPUs have names of thousands of letters; the chart is 500 px wide."""
    long = "void at::native::elementwise_kernel<" + "int, " * 400 + ">"
    rows = pl.DataFrame({"op": [long, "copy"], "ms": [2.0, 1.0], "part": ["compute", "copy"]})
    hue = colour("part", {"compute": "#123456", "copy": "#654321"})
    chart = named_bars(rows, "op", amount("ms", "Time (ms)"), hue, [], "ops")
    drawn = texts(chart.to_dict())
    assert "copy" in drawn
    [shown] = [text for text in drawn if text.startswith("void at")]
    assert shown.endswith("…")
    assert 30 < len(shown) < 100


def test_a_clipped_name_keeps_its_end_without_dots_beside_the_ellipsis():
    frame = pl.DataFrame({"name": ["dot model.layers.11.mlp.5/mm", "short"]})
    shown = frame.select(clipped(pl.col("name"), 20, end=9))["name"].to_list()
    assert shown == ["dot model…mlp.5/mm", "short"]
