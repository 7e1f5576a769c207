"""Tables for a terminal: columns that do not fit are left out from the middle, and named."""

from __future__ import annotations

import io

import pytest

import xlahouse.sql
from tests.warehouse import write_warehouse
from xlahouse.sql import Warehouse
from xlahouse.sql.drawing import draw, draw_records, elision

COLUMNS = ["run", "alpha", "beta", "gamma", "last"]
ROWS = [["r1", 1, "two", None, 5.5], ["r2", 10, "four", 3, 6.5]]


def drawn(width):
    out = io.StringIO()
    hidden = draw(COLUMNS, ROWS, out, width)
    return out.getvalue().splitlines(), hidden


# Columns take 3, 5, 4, 5 and 4 characters, and 2 between two of them: 29 in all.
@pytest.mark.parametrize("width", [None, 29, 100])
def test_what_fits_is_shown_whole(width):
    lines, hidden = drawn(width)
    assert lines[0] == "run  alpha  beta  gamma  last"
    assert hidden == []


@pytest.mark.parametrize(
    ("width", "head", "hidden"),
    [
        (28, "run  alpha  beta  …  last", ["gamma"]),
        (25, "run  alpha  beta  …  last", ["gamma"]),
        (24, "run  alpha  …  last", ["beta", "gamma"]),
        (19, "run  alpha  …  last", ["beta", "gamma"]),
        (18, "run  …  last", ["alpha", "beta", "gamma"]),
        (12, "run  …  last", ["alpha", "beta", "gamma"]),
        (11, "run  …", ["alpha", "beta", "gamma", "last"]),
        (1, "run  …", ["alpha", "beta", "gamma", "last"]),
    ],
)
def test_columns_are_left_out_from_the_middle(width, head, hidden):
    lines, left_out = drawn(width)
    assert (lines[0], left_out) == (head, hidden)
    assert len(lines) == 4
    assert width < 6 or max(map(len, lines)) <= width


def test_numbers_stay_to_the_right():
    lines, _ = drawn(19)
    assert lines[2:] == ["r1       1  …   5.5", "r2      10  …   6.5"]


def test_the_line_names_some():
    assert elision(["a"], "x shows it") == "1 column does not fit the terminal: a; x shows it"
    many = [f"c{number}" for number in range(10)]
    assert elision(many, "x") == (
        "10 columns do not fit the terminal: c0, c1, c2, c3, c4, c5, c6, c7 and 2 more; x"
    )


def test_records_have_a_line_a_column():
    out = io.StringIO()
    draw_records(COLUMNS, ROWS[:1], out)
    assert out.getvalue() == (
        "row 1\n  run    r1\n  alpha  1\n  beta   two\n  gamma  NULL\n  last   5.5\n"
    )


def test_records_are_whole_and_harmless():
    out = io.StringIO()
    draw_records(["t"], [["x" * 200 + "\x1b[2J"]], out, 7)
    assert out.getvalue() == f"row 7\n  t  {'x' * 200}\\x1b[2J\n"


def test_the_module_lists_its_api():
    assert dir(xlahouse.sql) == ["Result", "Warehouse"]


def test_a_notebook_shows_runs_in_a_box(tmp_path):
    runs = [
        {"run_id": f"ab{number}", "name": f"<run {number}>", "model": "m"} for number in range(60)
    ]
    with Warehouse(write_warehouse(tmp_path / "w", {"runs": runs})) as warehouse:
        shown = warehouse._repr_html_()
        assert shown == warehouse.runs()._repr_html_()
        assert shown.startswith('<div style="max-height: 28em; overflow: auto"><table>')
        assert "&lt;run 0&gt;" in shown
        assert shown.count("<tr>") == 51
        assert "the first 50 rows" in shown
        assert warehouse.runs(name="none")._repr_html_() == "<p>no runs</p>"
        assert len(warehouse.runs(model="m")) == 60
