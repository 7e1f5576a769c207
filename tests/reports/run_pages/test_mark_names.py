"""Names at marks: marks whose texts would overlap share one."""

from __future__ import annotations

import polars as pl

from xlahouse.reports.charts.ends import Height, mark_names


def names_of(places, is_log=False):
    schema = {"x": pl.Float64, "y": pl.Float64, "name": pl.String}
    marks = pl.DataFrame([(x, y, f"m{n}") for n, (x, y) in enumerate(places)], schema, orient="row")
    named = mark_names(marks, "name", Height("x"), Height("y", is_log))
    return {(x, y): name for x, y, name in named.rows()}


def test_marks_that_are_near_in_both_directions_share_a_text():
    # Axes of 0 to 100: a text is 25 wide, and needs 5 in height.
    found = names_of([(0, 0), (100, 100), (50, 60), (60, 57), (50, 50), (80, 59)])
    assert found == {
        (100, 100): "m1",
        (50, 60): "m2 and 1 more",  # m3 is 10 to the right and 3 below
        (80, 59): "m5",  # 30 to the right
        (50, 50): "m4",  # 10 below
        (0, 0): "m0",
    }


def test_a_log_axis_counts_ratios():
    # From 1 to 10^6, a twentieth is a factor of 2: 10^0.3.
    found = names_of([(0, 1), (100, 1_000_000), (0, 1.5), (0, 3.1)], is_log=True)
    assert found == {
        (100, 1_000_000): "m1",
        (0, 3.1): "m3",
        (0, 1.5): "m2 and 1 more",
    }


def test_no_marks_have_no_names():
    assert names_of([]) == {}
