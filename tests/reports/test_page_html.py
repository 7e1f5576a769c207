"""Pages as HTML: escaping, links, banners, every word, and what never leaves a page."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import polars as pl
import pytest

from tests.reports.conftest import HOSTILE
from tests.reports.example import Store
from tests.reports.html import Page
from xlahouse.reports.charts.columns import count_column
from xlahouse.reports.charts.facts import VIRTUAL_BANNER
from xlahouse.reports.charts.panel import Panel, fill
from xlahouse.reports.page import breakable, coded, script_json
from xlahouse.reports.pages import OVERVIEW, RUN_PAGES, SITE_PAGES
from xlahouse.reports.site import page_file, render_site
from xlahouse.reports.site_page import Frame, site_html


def test_names_in_traces_stay_text(pages):
    page = pages["run-script-alert-1-script.html"]
    assert HOSTILE in page.text
    assert "</script><img src=x onerror=alert(2)>" in page.text
    assert "<!-- <script> & 'quotes'" in page.text
    assert page.all("img") == page.all("b") == []
    runnable = [attributes for attributes, _ in page.scripts if "type" not in attributes]
    assert runnable == [{"src": "vega.js"}]


def test_names_in_charts_stay_text(pages):
    page = pages["run-script-alert-1-script.communication.html"]
    specs = [
        text for attributes, text in page.scripts if attributes.get("type") == "application/json"
    ]
    assert len(specs) > 5
    assert not any(sign in text for text in specs for sign in "<>&")
    axes = {row["axis"] for row in next(iter(json.loads(specs[0])["datasets"].values()))}
    assert axes == {'"><b>'}


def test_json_in_a_script_reads_back_whole():
    value = {"</script>": "\u2028 <!-- & ]]>"}
    text = script_json(value)
    assert not any(sign in text for sign in ("<", ">", "&", "\u2028"))
    assert json.loads(text) == value


def test_a_long_name_may_break_but_not_out():
    assert breakable("a/b_<i>") == "a/<wbr>b_<wbr>&lt;i&gt;"


def test_commands_between_backquotes_are_code_and_stay_text():
    assert coded("use `set <x>`, not `y`") == "use <code>set &lt;x&gt;</code>, not <code>y</code>"
    assert breakable("`a/b`") == "<code>a/<wbr>b</code>"
    assert coded("one ` alone") == "one ` alone"
    assert coded("784 ms; `sleep 5 s`") == "784\u00a0ms; <code>sleep 5 s</code>"


def section_of(rows, columns=3, **chosen):
    """A section of so many columns, of which the last one has no value."""
    frame = pl.DataFrame({f"c{place}": [1] * rows for place in range(columns - 1)})
    frame = frame.with_columns(pl.lit(None, pl.Int64).alias("empty"))
    panel = Panel(
        key="p",
        title="P",
        lede="",
        sql="select 1",
        columns=tuple(count_column(name, name.upper()) for name in frame.columns),
        figures=lambda rows, facts: [],
        coverage=lambda rows, facts: "",
        why_empty=lambda facts: "",
        **chosen,
    )
    return fill(panel, frame, None)


def page_of(section):
    return site_html("study", "", [], Frame("", []), [section])


def test_a_wide_table_leaves_out_columns_without_a_value():
    wide = section_of(1, columns=8)
    assert [cell.text for cell in wide.headings] == [f"C{place}" for place in range(7)]
    assert [len(row) for row in wide.cells] == [7]
    assert "No row has: EMPTY." in Page(page_of(wide)).text
    assert [cell.text for cell in section_of(1, columns=7).headings][-1] == "EMPTY"


def test_a_long_table_without_charts_is_folded_unless_it_is_the_answer():
    assert '<details class="rows">' in page_of(section_of(25))
    assert '<details class="rows">' not in page_of(section_of(24))
    assert '<details class="rows">' not in page_of(section_of(25, open_table=True))


def test_nothing_leaves_a_page(pages):
    for page in pages.values():
        policy = page.all("meta")[1]["content"]
        assert policy.startswith("default-src 'none'; script-src 'self' file:")
        assert "unsafe-eval" not in policy
        for tag, attributes in page.tags:
            for name in ("src", "href", "action", "data", "srcset"):
                target = attributes.get(name) or ""
                ours = r"|#[\w-]+|data:,|[\w.-]+\.html(?:#[\w-]+)?|data/[\w.-]+\.csv|vega\.js"
                assert re.fullmatch(ours, target), (tag, target)


def test_pages_share_one_script(site):
    folder = site["index.html"].parent
    assert 3e5 < (folder / "vega.js").stat().st_size < 2e6
    assert all(path.stat().st_size < 1e6 for path in site.values())


def test_a_single_file_holds_its_script(two_runs, tmp_path):
    (path,) = render_site(two_runs, tmp_path, ["aaa"], ["quality"], single_file=True).pages
    page = Page(path.read_text("utf-8"))
    policy = page.all("meta")[1]["content"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    [(_, script)] = [each for each in page.scripts if "type" not in each[0]]
    assert len(script) > 3e5
    assert not (tmp_path / "vega.js").exists()


def test_pages_are_semantic_and_linked(pages):
    def links(name):
        return {attributes.get("href") for attributes in pages[name].all("a")}

    over_runs = {f"{name}.html" for name in SITE_PAGES if f"{name}.html" in pages}
    runs = {name for name in pages if name.startswith("run-") and name.count(".") == 1}
    assert runs | over_runs <= links("index.html") | {"index.html"}
    for run in runs:
        of_run = {page_file(run.removesuffix(".html"), page) for page in RUN_PAGES}
        assert {name for name in of_run if name in pages} | {"index.html"} <= links(run)
    for page in pages.values():
        assert page.all("html") == [{"lang": "en"}]
        assert len(page.all("h1")) == len(page.all("main")) == 1
        assert 1 <= len(page.all("nav")) <= 2
        labels = [nav["aria-label"] for nav in page.all("nav")]
        assert len(labels) == len(set(labels))
        assert len(page.all("caption")) == len(page.all("table"))
        ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        anchors = [a["href"][1:] for a in page.all("a") if (a.get("href") or "").startswith("#")]
        assert set(anchors) <= set(ids)


def test_every_page_of_virtual_devices_says_so(pages):
    assert {name for name, page in pages.items() if VIRTUAL_BANNER not in page.text} == {
        name for name in pages if name.startswith("run-bare")
    }


def test_real_devices_carry_no_banner(tmp_path):
    tables = {
        "runs": [{"run_id": "r"}],
        "devices": [{"run_id": "r", "device_id": 0, "inferred": False}],
    }
    for path in render_site(Store(tables), tmp_path).pages:
        assert VIRTUAL_BANNER not in Page(path.read_text("utf-8")).text


@pytest.mark.parametrize("name", [name for name, panels in RUN_PAGES.items() if panels])
def test_each_section_shows_its_sql_and_coverage_or_reason(pages, name):
    page = pages[page_file("run-plain", name)]
    elsewhere = {
        "predicted",
        "forecast",
        "prediction-errors",
    }  # of predicted and of compiled runs; this one is neither
    panels = [panel for panel in RUN_PAGES[name] if panel.key not in elsewhere]
    for panel in panels:
        assert panel.sql.strip() in page.text
    reasons = [tag for tag in page.all("p") if tag.get("class") == "empty"]
    verdict = int(name == OVERVIEW)  # the overview's own section
    sections = [tag for tag in page.all("p") if tag.get("class") == "coverage"]
    told = 3 if verdict else 1  # Data; on the overview also Memory and Devices
    assert len(sections) - told + len(reasons) == len(panels) + verdict
    assert page.text.count("Data. ") == 1


def test_a_run_of_nothing_is_pages_of_reasons(pages):
    for name, page in pages.items():
        if name.startswith("run-bare"):
            assert page.all("figure") == []
    assert (
        "Not known: TTFT, TPOT, Output tokens/s, Total wire bytes, Comm/compute, Exposed, of comm., Idle: "
        "no device events in the trace."
    ) in pages["run-bare.html"].text


def test_a_run_is_shown_in_whatever_year_it_was_captured(tmp_path):
    # Microseconds from the UNIX epoch to the year 290000; Python's years end with 9999.
    captured_at = 105_200_797 * 86_400_000_000
    store = Store({"runs": [{"run_id": "c" * 12, "name": "far", "captured_at": captured_at}]})
    (path,) = render_site(store, tmp_path, pages=["overview"]).pages
    page = Page(path.read_text("utf-8"))
    assert "290000-01-01 00:00:00 UTC" in page.text


def words_of(html):
    """What stands on a page, a line each, with the stamp and the version left out."""
    text = re.sub(
        r"Made by xlahouse .*? on .*?\. This page", "Made by xlahouse. This page", Page(html).text
    )
    return "\n".join(line.strip() for line in text.splitlines() if line.strip()) + "\n"


@pytest.mark.parametrize("name", ["index", "overview", "communication", "time", "quality"])
def test_pages_say_what_they_said(pages, site, name):
    """Every word of a page, so that a change of one is seen in review; UPDATE_GOLDEN=1 takes the new ones."""
    file = "index.html" if name == "index" else page_file("run-plain", name)
    golden = Path(__file__).with_name("golden") / f"{name}.txt"
    found = words_of(site[file].read_text("utf-8"))
    if os.environ.get("UPDATE_GOLDEN"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(found, encoding="utf-8")
    assert found == golden.read_text(encoding="utf-8")
