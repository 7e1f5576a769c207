"""`Warehouse.show`: a page and its charts in a notebook."""

from __future__ import annotations

import re
from html import unescape

import pytest

from tests.reports.html import Page
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import ReportError, WarehouseError
from xlahouse.reports.notebook import shown
from xlahouse.reports.page import unbroken
from xlahouse.sql import Warehouse


def test_a_page_in_a_frame(two_runs):
    found = shown(two_runs, "communication", "a" * 12)
    frame = found._repr_html_()
    assert frame.startswith('<iframe srcdoc="')
    inner = frame.removeprefix('<iframe srcdoc="').partition('" style=')[0]
    assert unescape(inner) == found.html
    assert "Communication: demo tp4" in Page(found.html).text
    assert found.charts


def test_an_overview_has_its_answer_and_cards(two_runs):
    page = Page(shown(two_runs, "overview", "a" * 12).html)
    answer = "50 % of the mean decode step's 200 µs is idle time between steps"
    assert unbroken(answer) in page.text
    assert "TTFT" in page.text


@pytest.mark.parametrize("page", ["overview", "communication"])
def test_charts_are_files_as_they_are(two_runs, page):
    """None needs a page: a width of its own, dark ink, and columns of the legend that fit the width."""
    charts = shown(two_runs, page, "a" * 12).charts
    assert charts
    for title, chart in charts.items():
        spec = chart.properties(title="Mine").to_dict()
        assert (spec["width"], spec["title"]) in {(420, "Mine"), (860, "Mine")}, title
        assert not re.search("currentColor|containerSize", str(spec)), title


def test_an_overview_has_the_bar_of_its_answer(two_runs):
    assert "Mean decode step's period" in shown(two_runs, "overview", "a" * 12).charts


@pytest.mark.parametrize(
    ("page", "message"), [("index", "index is over all runs; pages of a run"), ("x", "no page 'x'")]
)
def test_pages_that_are_not_of_a_run(two_runs, page, message):
    with pytest.raises(ReportError, match=message):
        shown(two_runs, page, "a" * 12)


def test_a_warehouse_shows_a_run_by_its_name(tmp_path):
    run = {"run_id": "ab12", "name": "base", "status": "no_device_events"}
    with Warehouse(write_warehouse(tmp_path / "w", {"runs": [run]})) as warehouse:
        assert "Quality: base" in Page(warehouse.show("quality", run="base").html).text
        with pytest.raises(WarehouseError, match="no run 'nobody'"):
            warehouse.show("quality", run="nobody")
