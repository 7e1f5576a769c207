"""A site that is rendered again, or by several processes: unchanged pages, and the same bytes."""

from __future__ import annotations

import shutil
from functools import partial

import pytest

from tests.reports.example import Store, example_run, merge
from tests.reports.html import Page
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import ReportError
from xlahouse.reports.own_page import read_own_page
from xlahouse.reports.pages import INDEX, OVERVIEW
from xlahouse.reports.site import render_site
from xlahouse.sql import Warehouse

SHOWN = [INDEX, OVERVIEW]


@pytest.fixture(scope="module")
def drawn(two_runs, tmp_path_factory):
    """A site of two runs with a few of its pages; a test renders again into a copy of it."""
    folder = tmp_path_factory.mktemp("site")
    assert render_site(two_runs, folder, pages=SHOWN).unchanged == []
    return folder


@pytest.fixture
def site(drawn, tmp_path):
    return shutil.copytree(drawn, tmp_path / "site")


@pytest.mark.verify
def test_an_unchanged_page_is_not_drawn_again(two_runs, site):
    stamps = {path: path.stat().st_mtime_ns for path in site.glob("*.html")}
    again = render_site(two_runs, site, pages=SHOWN)
    assert set(again.unchanged) == set(again.pages) == set(stamps)
    assert len(stamps) == 3
    assert stamps == {path: path.stat().st_mtime_ns for path in again.pages}


@pytest.mark.verify
def test_only_what_changed_is_drawn_again(tmp_path):
    tables = merge(example_run("a" * 12, "one", {"tp": 4}), example_run("b" * 12, "two", {"tp": 4}))
    first = render_site(Store(tables), tmp_path)
    assert first.unchanged == []
    assert render_site(Store(tables), tmp_path).unchanged == first.pages
    tables["runs"][1]["batch_size"] = 7
    again = render_site(Store(tables), tmp_path)
    drawn = {path.name for path in set(again.pages) - set(again.unchanged)}
    assert {name for name in drawn if name.startswith("run-")} == {
        path.name for path in first.pages if path.name.startswith("run-two.")
    }
    assert "index.html" in drawn
    first.pages[0].unlink()
    assert first.pages[0] not in render_site(Store(tables), tmp_path).unchanged


@pytest.mark.verify
def test_a_setting_changes_pages(tmp_path):
    tables = example_run("a" * 12, "one", {"tp": 4})
    render_site(Store(tables), tmp_path)
    tables["run_settings"] = [{"run_id": "a" * 12, "device_kind": "TPU v6e"}]
    again = render_site(Store(tables), tmp_path)
    assert again.unchanged == []


def test_pages_of_runs_that_are_gone_are_told(site):
    left = Store(example_run("a" * 12, "demo tp4", {"tp": 4}))
    found = render_site(left, site, pages=[OVERVIEW])
    assert [path.name for path in found.stale] == ["run-demo-dp2.tp2.html"]
    assert found.stale[0].exists()  # it is the user's to remove


def test_a_page_that_is_drawn_later_keeps_the_way_to_those_before(two_runs, site):
    (path,) = render_site(two_runs, site, runs=["aaa"], pages=["quality"]).pages
    links = {a.get("href") for a in Page(path.read_text("utf-8")).all("a")}
    assert {"index.html", "run-demo-tp4.html", "run-demo-tp4.quality.html"} <= links


def test_a_record_that_cannot_be_read_costs_a_drawing(two_runs, site):
    (site / "site.json").write_text("[not ours")
    assert render_site(two_runs, site, runs=["aaa"], pages=[OVERVIEW]).unchanged == []


def site_bytes(folder):
    found = {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    assert found
    return found


OWN = """
import altair as alt
SQL = "select axis, sum(wire_bytes) as bytes from traffic_volume_v1 where run_id = $run group by axis"
def charts(rows):
    return alt.Chart(rows).mark_bar().encode(x="bytes", y="axis")
"""


@pytest.mark.verify
def test_several_processes_draw_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    runs = [example_run(f"{k}" * 12, f"run {k}", {"tp": 4}) for k in "abc"]
    root = write_warehouse(tmp_path / "wh", merge(*runs))
    (tmp_path / "axes.py").write_text(OWN)
    own = [read_own_page(tmp_path / "axes.py")]
    opener, pages = partial(Warehouse, root, threads=1), ["index", "overview", "communication"]
    with Warehouse(root, threads=1) as warehouse:
        one = render_site(warehouse, tmp_path / "one", None, pages, own)
        two = render_site(warehouse, tmp_path / "two", None, pages, own, None, opener, 2)
        assert [p.name for p in two.pages] == [p.name for p in one.pages]
        assert len(two.pages) == 1 + 3 * 3
        assert site_bytes(tmp_path / "one") == site_bytes(tmp_path / "two")
        again = render_site(warehouse, tmp_path / "two", None, pages, own, None, opener, 2)
    assert again.unchanged == again.pages == two.pages


@pytest.mark.verify
def test_an_error_in_another_process_is_one_clear_line(tmp_path):
    runs = [example_run(f"{k}" * 12, f"run {k}", {"tp": 4}) for k in "abc"]
    root = write_warehouse(tmp_path / "wh", merge(*runs))
    opener = partial(Warehouse, tmp_path / "absent")
    site = tmp_path / "site"
    with Warehouse(root, threads=1) as warehouse, pytest.raises(ReportError, match="no warehouse"):
        render_site(warehouse, site, None, ["overview"], (), None, opener, 2)
