"""The site as files: which pages, their names, pins of views, CSV files, and the same bytes each time."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
import sqlglot
from sqlglot import exp

from tests.reports.example import RUN_PANELS, SITE_PANELS, Store, example_run, merge
from tests.reports.html import Page
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import ReportError
from xlahouse.reports.headline import SPREAD_SQL, SUMMARY_SQL
from xlahouse.reports.naming import page_stems
from xlahouse.reports.site import render_site
from xlahouse.reports.site_files import flat, inert
from xlahouse.sql import Warehouse
from xlahouse.sql.kept_database import KeptDatabase
from xlahouse.sql.library import TABLES


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
            "no page 'overvew'; there are: index, comparison, scaling, study, versus, over",
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


def test_pages_render_from_a_warehouse_on_disk(tmp_path):
    """The same queries pass the guard that allows reading and nothing else."""
    root = write_warehouse(tmp_path / "wh", example_run("a" * 12, "demo tp4", {"tp": 4}))
    with Warehouse(root) as warehouse:
        paths = render_site(warehouse, tmp_path / "site").pages
    html = {path.name: path.read_text("utf-8") for path in paths}
    assert "537,919,488" in html["run-demo-tp4.html"]  # 513 MiB on the wire


def test_a_single_run_shares_its_views_with_the_pages_over_runs(tmp_path, monkeypatch):
    """Each is computed once, and the pages are those of the run beside another one."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    computed: list[str] = []
    keep = KeptDatabase._keep

    def counted(self, view, sql, tables):
        computed.append(view)
        keep(self, view, sql, tables)

    monkeypatch.setattr(KeptDatabase, "_keep", counted)
    demo, other = (example_run(letter * 12, f"demo {letter}", {"tp": 4}) for letter in "ab")
    found = []
    for name, tables, shares in (("one", demo, True), ("two", merge(demo, other), False)):
        with Warehouse(write_warehouse(tmp_path / name, tables), threads=1) as warehouse:
            computed.clear()
            render_site(warehouse, tmp_path / f"{name} over", runs=["demo a"], pages=["comparison"])
            assert bool(computed) is shares
            computed.clear()
            given = {"runs": ["demo a"], "pages": ["overview", "efficiency", "comparison"]}
            pages = render_site(warehouse, tmp_path / f"{name} site", **given).pages
            assert len(computed) == len(set(computed)) > 10
        found.append({path.name: csv_rows(path) for path in pages[0].parent.glob("data/*.csv")})
    one, two = ({name: rows for name, rows in each.items() if "run-" in name} for each in found)
    assert one == two != {}


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


def test_no_text_beside_a_page_is_a_formula():
    rows = pl.DataFrame({"op": ["=cmd()", "a=b", "-1", "@x", None], "n": [-1, 2, 3, 4, 5]})
    assert inert(rows).rows() == [("'=cmd()", -1), ("a=b", 2), ("'-1", 3), ("'@x", 4), (None, 5)]
