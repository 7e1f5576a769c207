"""Log axes: ticks at powers of ten, each with the unit that people say it in."""

from __future__ import annotations

import altair as alt
import polars as pl
import pytest

from tests.reports.vega_lite import texts
from xlahouse.reports.charts.log_axes import decades, size_log, time_log
from xlahouse.reports.charts.panel import inline
from xlahouse.reports.charts.theme import finish


def drawn_labels(channel, values):
    chart = alt.Chart(inline(pl.DataFrame({"v": values}))).mark_point()
    spec = finish(chart.encode(x=alt.X("v:Q", **channel(values, "Length"))), "x", 100).to_dict()
    return texts({**spec, "width": 2000})


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([2e-6, 5e-5], [1e-6, 1e-5, 1e-4]),
        ([1e-6, 1e-3], [1e-6, 1e-5, 1e-4, 1e-3]),  # an end on a tick needs no tick beyond
        ([3e-6, 4e-6], [1e-6, 1e-5]),
        ([1e-3], [1e-3, 1e-2]),
        ([0.0, -2.0, None, 5.0], [1.0, 10.0]),  # nothing of 0 or below has a place
        ([], [1e-12, 1e-11]),
    ],
)
def test_decades_enclose_the_positive_values(values, expected):
    assert decades(values) == pytest.approx(expected, rel=1e-12)


def test_times_are_labelled_from_ps_to_s():
    # 5 ps and 50 s: 1 ps to 100 s.
    assert drawn_labels(time_log, [5e-12, 50.0])[:15] == [
        *("1 ps", "10 ps", "100 ps", "1 ns", "10 ns", "100 ns", "1 µs", "10 µs", "100 µs"),
        *("1 ms", "10 ms", "100 ms", "1 s", "10 s", "100 s"),
    ]


def test_sizes_are_labelled_from_bytes_to_tb():
    labels = drawn_labels(size_log, [2.0, 3e12])
    assert labels[:14] == [
        *("1 B", "10 B", "100 B", "1 kB", "10 kB", "100 kB", "1 MB", "10 MB", "100 MB"),
        *("1 GB", "10 GB", "100 GB", "1 TB", "10 TB"),
    ]
    assert "Length (log scale)" in labels
