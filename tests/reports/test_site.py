"""The site as files: names, escaping, pins, determinism, and what never leaves a page."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import sqlglot
from sqlglot import exp

from tests.reports.conftest import HOSTILE
from tests.reports.example import Store, example_run
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import ReportError
from xlahouse.reports.facts import VIRTUAL
from xlahouse.reports.headline import SPREAD_SQL, SUMMARY_SQL
from xlahouse.reports.naming import page_names
from xlahouse.reports.page import breakable, script_json
from xlahouse.reports.site import INDEX_PANELS, RUN_PANELS, render_site
from xlahouse.sql import Warehouse
from xlahouse.sql.library import TABLES


class Page(HTMLParser):
    """What a browser would see: elements, text outside scripts, and the text of each script."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self._inside = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._inside = tag if tag in ("script", "style") else ""
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif not self._inside:
            self.text += data

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


@pytest.fixture(scope="module")
def pages(site) -> dict[str, Page]:
    return {name: Page(path.read_text("utf-8")) for name, path in site.items()}


def test_names_in_traces_stay_text(pages):
    page = pages["run-script-alert-1-script.html"]
    assert HOSTILE in page.text
    assert "</script><img src=x onerror=alert(2)>" in page.text
    assert "<!-- <script> & 'quotes'" in page.text
    assert page.all("img") == page.all("b") == []
    runnable = [attributes for attributes, _ in page.scripts if "type" not in attributes]
    assert len(runnable) == 1


def test_names_in_charts_stay_text(pages):
    page = pages["run-script-alert-1-script.html"]
    specs = [
        text for attributes, text in page.scripts if attributes.get("type") == "application/json"
    ]
    assert len(specs) == 12
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


def test_nothing_leaves_a_page(pages):
    for page in pages.values():
        policy = page.all("meta")[1]["content"]
        assert policy.startswith("default-src 'none'; script-src 'sha256-")
        assert "unsafe-eval" not in policy
        for tag, attributes in page.tags:
            for name in ("src", "href", "action", "data", "srcset"):
                target = attributes.get(name) or ""
                assert re.fullmatch(r"|#[\w-]+|data:,|[\w.-]+\.html", target), (tag, target)


def test_pages_are_small(site):
    assert all(path.stat().st_size < 5e6 for path in site.values())


def test_pages_are_semantic_and_linked(pages):
    index = pages["index.html"]
    links = {attributes.get("href") for attributes in index.all("a")}
    assert {name for name in pages if name != "index.html"} <= links
    for page in pages.values():
        assert page.all("html") == [{"lang": "en"}]
        assert len(page.all("h1")) == len(page.all("main")) == len(page.all("nav")) == 1
        assert len(page.all("caption")) == len(page.all("table"))
        ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
        assert len(ids) == len(set(ids))
        anchors = [a["href"][1:] for a in page.all("a") if (a.get("href") or "").startswith("#")]
        assert set(anchors) <= set(ids)


def test_every_page_of_virtual_devices_says_so(pages):
    assert {name for name, page in pages.items() if VIRTUAL in page.text} == {
        "index.html",
        "run-plain.html",
        "run-script-alert-1-script.html",
    }


def test_real_devices_carry_no_banner(tmp_path):
    tables = {
        "runs": [{"run_id": "r"}],
        "devices": [{"run_id": "r", "device_id": 0, "inferred": False}],
    }
    for path in render_site(Store(tables), tmp_path):
        assert VIRTUAL not in Page(path.read_text("utf-8")).text


def test_each_section_shows_its_sql_and_coverage(pages):
    page = pages["run-plain.html"]
    for panel in RUN_PANELS:
        assert panel.sql.strip() in page.text
    assert page.text.count("Coverage.") == len(RUN_PANELS)


@pytest.mark.parametrize(
    "sql",
    [SUMMARY_SQL, SPREAD_SQL, *(panel.sql for panel in (*RUN_PANELS, *INDEX_PANELS))],
    ids=["summary", "spread", *(panel.key for panel in RUN_PANELS), "runs-traffic", "runs-time"],
)
def test_queries_pin_the_version_of_every_view(sql):
    tree = sqlglot.parse_one(sql, read="duckdb")
    own = {cte.alias_or_name for cte in tree.find_all(exp.CTE)}
    read = {table.name for table in tree.find_all(exp.Table)} - own
    assert all(name in TABLES or re.search(r"_v\d+$", name) for name in read), read
    assert not any(name.startswith("_") for name in read), "internal views may change"


def test_the_same_warehouse_gives_the_same_bytes(two_runs, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    first = [path.read_bytes() for path in render_site(two_runs, tmp_path / "one", runs=["aaa"])]
    second = [path.read_bytes() for path in render_site(two_runs, tmp_path / "two", runs=["aaa"])]
    assert first == second
    assert b"2023-11-14 22:13 UTC" in first[0]


def test_a_site_of_some_runs_and_pages(two_runs, tmp_path):
    told: list[str] = []
    paths = render_site(two_runs, tmp_path, runs=["demo tp4"], on_event=told.append)
    assert [path.name for path in paths] == ["index.html", "run-demo-tp4.html"]
    assert told == [f"wrote {path}" for path in paths]
    assert "demo dp2.tp2" not in Page(paths[0].read_text("utf-8")).text
    only = render_site(two_runs, tmp_path / "index", pages=["index"])
    assert [path.name for path in only] == ["index.html"]
    assert not any(
        (a.get("href") or "").startswith("run-") for a in Page(only[0].read_text()).all("a")
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pages": ["overview"]}, "no page 'overview'; there are: index, run"),
        ({"runs": ["demo"]}, "no run 'demo' in the warehouse; it holds: demo dp2.tp2, demo tp4"),
        ({"runs": [""]}, "no run '' in the warehouse"),
    ],
)
def test_a_wrong_name_is_one_clear_line(two_runs, tmp_path, arguments, message):
    with pytest.raises(ReportError, match=re.escape(message)):
        render_site(two_runs, tmp_path, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_name_of_two_runs_asks_for_an_id(tmp_path):
    twice = Store({"runs": [{"run_id": f"{k}" * 12, "name": "same"} for k in "ab"]})
    with pytest.raises(ReportError, match="fits 2 runs: aaaaaaaaaaaa, bbbbbbbbbbbb; give one id"):
        render_site(twice, tmp_path, runs=["same"])
    assert [p.name for p in render_site(twice, tmp_path, runs=["aaa"])][1:] == [
        "run-same-aaaaaaaaaaaa.html"
    ]


def test_a_folder_that_cannot_be_made_is_named(two_runs, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match=r"file/site: cannot be made \(Not a directory\)"):
        render_site(two_runs, tmp_path / "file" / "site")


def test_page_names_are_safe_and_differ():
    names = ["../../etc/passwd", "A", "a", "日本", "x" * 200]
    store = Store({"runs": [{"run_id": f"{k}" * 12, "name": name} for k, name in enumerate(names)]})
    files = page_names(store.facts())
    assert files["0" * 12] == "run-etc-passwd.html"
    assert files["1" * 12] == f"run-A-{'1' * 12}.html"
    assert files["2" * 12] == f"run-a-{'2' * 12}.html"
    assert files["3" * 12] == f"run-{'3' * 12}.html"
    assert all(Path(name).name == name and len(name) < 120 for name in files.values())


def test_an_empty_warehouse_has_an_index_that_says_so(tmp_path):
    paths = render_site(Store({}), tmp_path)
    assert [path.name for path in paths] == ["index.html"]
    assert "The warehouse holds no runs." in Page(paths[0].read_text("utf-8")).text


def test_a_run_of_nothing_is_a_page_of_reasons(pages):
    page = pages["run-bare.html"]
    assert page.all("figure") == []
    assert page.text.count("no device events in the trace") >= 7


def test_a_run_is_shown_in_whatever_year_it_was_captured(tmp_path):
    # Microseconds from the UNIX epoch to the year 290000; Python's years end with 9999.
    captured_at = 105_200_797 * 86_400_000_000
    store = Store({"runs": [{"run_id": "c" * 12, "name": "far", "captured_at": captured_at}]})
    page = Page(render_site(store, tmp_path)[1].read_text("utf-8"))
    assert "290000-01-01 00:00:00 UTC" in page.text


def test_pages_render_from_a_warehouse_on_disk(tmp_path):
    """The same queries pass the guard that allows reading and nothing else."""
    root = write_warehouse(tmp_path / "wh", example_run("a" * 12, "demo tp4", {"tp": 4}))
    with Warehouse(root) as warehouse:
        paths = render_site(warehouse, tmp_path / "site")
    assert "537,919,488" in paths[1].read_text("utf-8")  # 513 MiB on the wire
