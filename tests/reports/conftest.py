"""Stores and a site that several test files read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.reports.example import Store, example_run, merge
from tests.reports.html import Page
from tests.reports.over_runs import RUNS
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.site import render_site

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="session")
def two_runs() -> Store:
    tp4 = example_run("a" * 12, "demo tp4", {"tp": 4})
    return Store(merge(tp4, example_run("b" * 12, "demo dp2.tp2", {"dp": 2, "tp": 2})))


@pytest.fixture(scope="session")
def bare_run() -> Store:
    """A run of which only the row in `runs` is known: no devices, no events, no manifest."""
    return Store({"runs": [{"run_id": "c" * 12, "status": "no_device_events"}]})


@pytest.fixture(scope="session")
def site(once: Callable[[str, Callable[[Path], object]], Path]) -> dict[str, Path]:
    """A site of three runs: one whose every name tries to be markup, one plain, one of nothing."""
    tables = example_run("a" * 12, HOSTILE, {"dp": 2, '"><b>': 2})
    tables["runs"][0]["model"] = "</script><img src=x onerror=alert(2)>"
    tables["issues"][0]["message"] = "<!-- <script> & 'quotes'"
    bare = {"runs": [{"run_id": "c" * 12, "name": "bare", "status": "no_device_events"}]}
    store = Store(merge(tables, example_run("b" * 12, "plain", {"tp": 4}), bare))
    folder = once("site", lambda folder: render_site(store, folder))
    return {path.name: path for path in folder.glob("*.html")}


@pytest.fixture(scope="session")
def pages(site) -> dict[str, Page]:
    return {name: Page(path.read_text("utf-8")) for name, path in site.items()}


@pytest.fixture(scope="session")
def facts_over_runs() -> list[PageFacts]:
    """Facts of runs on an accelerator; what panels read of them is only who is inferred."""
    return Store({"runs": RUNS}).facts()
