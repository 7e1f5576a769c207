"""The site as files: names, escaping, pins, determinism, and what never leaves a page."""

from __future__ import annotations

import json
import os
import re
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import polars as pl
import pytest
import sqlglot
from sqlglot import exp

from tests.reports.conftest import HOSTILE
from tests.reports.example import RUN_PANELS, SITE_PANELS, Store, example_run, merge
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import ReportError
from xlahouse.reports.charts.facts import VIRTUAL_BANNER
from xlahouse.reports.headline import SPREAD_SQL, SUMMARY_SQL
from xlahouse.reports.naming import page_stems
from xlahouse.reports.own_page import read_own_page
from xlahouse.reports.page import breakable, script_json
from xlahouse.reports.pages import RUN_PAGES, SITE_PAGES
from xlahouse.reports.site import page_file, render_site
from xlahouse.reports.site_files import flat
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


def test_nothing_leaves_a_page(pages):
    for page in pages.values():
        policy = page.all("meta")[1]["content"]
        assert policy.startswith("default-src 'none'; script-src 'sha256-")
        assert "unsafe-eval" not in policy
        for tag, attributes in page.tags:
            for name in ("src", "href", "action", "data", "srcset"):
                target = attributes.get(name) or ""
                ours = r"|#[\w-]+|data:,|[\w.-]+\.html|data/[\w.-]+\.csv"
                assert re.fullmatch(ours, target), (tag, target)


def test_pages_are_small(site):
    assert all(path.stat().st_size < 5e6 for path in site.values())


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
    for panel in RUN_PAGES[name]:
        assert panel.sql.strip() in page.text
    reasons = [tag for tag in page.all("p") if tag.get("class") == "empty"]
    assert page.text.count("Coverage.") + len(reasons) == len(RUN_PAGES[name])


@pytest.mark.parametrize(
    "sql",
    [SUMMARY_SQL, SPREAD_SQL, *(panel.sql for panel in (*RUN_PANELS, *SITE_PANELS))],
    ids=["summary", "spread", *(panel.key for panel in (*RUN_PANELS, *SITE_PANELS))],
)
def test_queries_pin_the_version_of_every_view(sql):
    tree = sqlglot.parse_one(sql, read="duckdb")
    own = {cte.alias_or_name for cte in tree.find_all(exp.CTE)}
    read = {table.name for table in tree.find_all(exp.Table)} - own
    assert all(name in TABLES or re.search(r"_v\d+$", name) for name in read), read
    assert not any(name.startswith("_") for name in read), "internal views may change"


@pytest.mark.verify
def test_the_same_warehouse_gives_the_same_bytes(two_runs, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        render_site(two_runs, folder, runs=["aaa"])
    first, second = (
        {
            path.relative_to(folder): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
        for folder in folders
    )
    assert first == second
    assert b"2023-11-14 22:13 UTC" in first[Path("index.html")]


def test_a_site_of_some_runs_and_pages(two_runs, tmp_path):
    told: list[str] = []
    given = {"runs": ["demo tp4"], "pages": ["index", "overview", "time"]}
    paths = render_site(two_runs, tmp_path, **given, on_event=told.append).pages
    assert [path.name for path in paths] == [
        "index.html",
        "run-demo-tp4.html",
        "run-demo-tp4.time.html",
    ]
    assert told == [f"wrote {path}" for path in paths]
    assert "demo dp2.tp2" not in Page(paths[0].read_text("utf-8")).text
    only = render_site(two_runs, tmp_path / "index", pages=["index"]).pages
    assert [path.name for path in only] == ["index.html"]
    assert not any(
        (a.get("href") or "").startswith("run-") for a in Page(only[0].read_text()).all("a")
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"pages": ["overvew"]},
            "no page 'overvew'; there are: index, comparison, scaling, study, over",
        ),
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
    paths = render_site(twice, tmp_path, runs=["aaa"], pages=["overview"]).pages
    assert [path.name for path in paths] == ["run-same-aaaaaaaaaaaa.html"]


def test_a_folder_that_cannot_be_made_is_named(two_runs, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match=r"file/site: cannot be made \(Not a directory\)"):
        render_site(two_runs, tmp_path / "file" / "site")


def test_page_names_are_safe_and_differ():
    names = ["../../etc/passwd", "A", "a", "日本", "x" * 200]
    store = Store({"runs": [{"run_id": f"{k}" * 12, "name": name} for k, name in enumerate(names)]})
    files = page_stems(store.facts())
    assert files["0" * 12] == "run-etc-passwd"
    assert files["1" * 12] == f"run-A-{'1' * 12}"
    assert files["2" * 12] == f"run-a-{'2' * 12}"
    assert files["3" * 12] == f"run-{'3' * 12}"
    assert all(Path(name).name == name and len(name) < 120 for name in files.values())


def test_an_empty_warehouse_has_an_index_that_says_so(tmp_path):
    paths = render_site(Store({}), tmp_path).pages
    assert paths[0].name == "index.html"
    assert not any(path.name.startswith("run-") for path in paths)
    assert "The warehouse holds no runs." in Page(paths[0].read_text("utf-8")).text


def test_a_run_of_nothing_is_pages_of_reasons(pages):
    for name, page in pages.items():
        if name.startswith("run-bare"):
            assert page.all("figure") == []
    assert pages["run-bare.html"].text.count("no device events in the trace") >= 7


def test_a_run_is_shown_in_whatever_year_it_was_captured(tmp_path):
    # Microseconds from the UNIX epoch to the year 290000; Python's years end with 9999.
    captured_at = 105_200_797 * 86_400_000_000
    store = Store({"runs": [{"run_id": "c" * 12, "name": "far", "captured_at": captured_at}]})
    (path,) = render_site(store, tmp_path, pages=["overview"]).pages
    page = Page(path.read_text("utf-8"))
    assert "290000-01-01 00:00:00 UTC" in page.text


def test_pages_render_from_a_warehouse_on_disk(tmp_path):
    """The same queries pass the guard that allows reading and nothing else."""
    root = write_warehouse(tmp_path / "wh", example_run("a" * 12, "demo tp4", {"tp": 4}))
    with Warehouse(root) as warehouse:
        paths = render_site(warehouse, tmp_path / "site").pages
    html = {path.name: path.read_text("utf-8") for path in paths}
    assert "537,919,488" in html["run-demo-tp4.html"]  # 513 MiB on the wire


def csv_rows(path):
    return path.read_text("utf-8").splitlines()


def test_the_rows_of_each_chart_lie_beside_its_page(two_runs, tmp_path):
    (path,) = render_site(two_runs, tmp_path, runs=["aaa"], pages=["communication"]).pages
    links = {a["href"] for a in Page(path.read_text("utf-8")).all("a") if "download" in a}
    there = {str(file.relative_to(tmp_path)) for file in (tmp_path / "data").iterdir()}
    assert "data/run-demo-tp4.communication.traffic.csv" in links
    assert links == there
    rows = csv_rows(tmp_path / "data/run-demo-tp4.communication.traffic.csv")
    assert rows[0] == "phase,axis,kind,devices,collectives,payload_bytes,wire_bytes"
    # 4 devices x 3 requests x 16 MiB; an all-gather of 4 sends 3/4 of them.
    assert rows[1] == f"prefill,tp,all-gather,4,12,{192 * 2**20},{144.0 * 2**20}"


def test_nested_values_are_json_in_csv():
    rows = pl.DataFrame({"a": [[1, 2], None], "b": [{"x": "<"}, None], "c": [1, 2]})
    assert flat(rows).rows() == [("[1,2]", '{"x":"<"}', 1), (None, None, 2)]


def test_an_unchanged_page_is_not_drawn_again(two_runs, tmp_path):
    first = render_site(two_runs, tmp_path)
    assert first.unchanged == []
    stamps = {path: path.stat().st_mtime_ns for path in first.pages}
    again = render_site(two_runs, tmp_path)
    assert again.unchanged == again.pages == first.pages
    assert stamps == {path: path.stat().st_mtime_ns for path in again.pages}


@pytest.mark.verify
def test_only_what_changed_is_drawn_again(tmp_path):
    tables = merge(example_run("a" * 12, "one", {"tp": 4}), example_run("b" * 12, "two", {"tp": 4}))
    first = render_site(Store(tables), tmp_path)
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


def test_pages_of_runs_that_are_gone_are_told(two_runs, tmp_path):
    render_site(two_runs, tmp_path, pages=["overview"])
    left = Store(example_run("a" * 12, "demo tp4", {"tp": 4}))
    found = render_site(left, tmp_path, pages=["overview"])
    assert [path.name for path in found.stale] == ["run-demo-dp2.tp2.html"]
    assert found.stale[0].exists()  # it is the user's to remove


def test_a_page_that_is_drawn_later_keeps_the_way_to_those_before(two_runs, tmp_path):
    render_site(two_runs, tmp_path, runs=["aaa"], pages=["index", "overview"])
    (path,) = render_site(two_runs, tmp_path, runs=["aaa"], pages=["time"]).pages
    links = {a.get("href") for a in Page(path.read_text("utf-8")).all("a")}
    assert {"index.html", "run-demo-tp4.html", "run-demo-tp4.time.html"} <= links


def test_a_record_that_cannot_be_read_costs_a_drawing(two_runs, tmp_path):
    render_site(two_runs, tmp_path, pages=["overview"])
    (tmp_path / "site.json").write_text("[not ours")
    assert render_site(two_runs, tmp_path, pages=["overview"]).unchanged == []


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


def test_an_error_in_another_process_is_one_clear_line(tmp_path):
    runs = [example_run(f"{k}" * 12, f"run {k}", {"tp": 4}) for k in "abc"]
    root = write_warehouse(tmp_path / "wh", merge(*runs))
    opener = partial(Warehouse, tmp_path / "absent")
    site = tmp_path / "site"
    with Warehouse(root, threads=1) as warehouse, pytest.raises(ReportError, match="no warehouse"):
        render_site(warehouse, site, None, ["overview"], (), None, opener, 2)


def words_of(html):
    """What stands on a page, a line each, with the stamp and the version left out."""
    text = re.sub(
        r"Made by xlahouse .*? on .*?\. This file", "Made by xlahouse. This file", Page(html).text
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
