"""Pages of a user's own: what they may be, and one clear line for each way they can be wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.command import run_command
from tests.reports.example import example_run
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import ReportError
from xlahouse.reports.own_page import read_own_page
from xlahouse.reports.site import render_site
from xlahouse.sql import Warehouse

GOOD = """
import altair as alt

TITLE = "Busiest axes"
LEDE = "Bytes by axis."
SQL = "select axis, sum(wire_bytes) as bytes from traffic_volume_v1 where run_id = $run group by axis"


def charts(rows):
    return alt.Chart(rows).mark_bar().encode(x="bytes", y="axis").properties(title="By axis")
"""
OF_SITE = GOOD.replace("= $run group", "in (select unnest($runs)) group")


def page(folder, text, name="busiest.py"):
    (folder / name).write_text(text)
    return folder / name


def test_a_page_of_each_run(two_runs, tmp_path):
    own = read_own_page(page(tmp_path, GOOD))
    written = render_site(two_runs, tmp_path / "site", pages=["overview"], own=[own])
    names = [path.name for path in written.pages]
    assert names == [
        "run-demo-dp2.tp2.html",
        "run-demo-dp2.tp2.busiest.html",
        "run-demo-tp4.html",
        "run-demo-tp4.busiest.html",
    ]
    html = written.pages[3].read_text()
    assert "<h1>Busiest axes: demo tp4</h1>" in html
    assert "By axis" in html
    assert "Bytes by axis." in html
    assert html.count("data-spec=") == 1
    assert 'href="run-demo-tp4.busiest.html"' in written.pages[2].read_text()


def test_a_page_of_the_site_with_several_charts(two_runs, tmp_path):
    text = OF_SITE.replace(
        "return alt", "return [alt.Chart(rows).mark_point().encode(x='bytes'), alt"
    )
    text = text.replace('title="By axis")', 'title="By axis")]')
    written = render_site(
        two_runs, tmp_path / "site", pages=["index"], own=[read_own_page(page(tmp_path, text))]
    )
    assert [path.name for path in written.pages] == ["index.html", "busiest.html"]
    assert written.pages[1].read_text().count("data-spec=") == 2


def test_the_example_of_the_readme_is_a_page(tmp_path):
    readme = (Path(__file__).parents[2] / "reports/README.md").read_text("utf-8")
    (text,) = re.findall(r"`busiest\.py`:\n\n```python\n(.*?)```", readme, re.DOTALL)
    root = write_warehouse(tmp_path / "wh", example_run("a" * 12, "one", {"tp": 4}))
    own = read_own_page(page(tmp_path, text))
    with Warehouse(root) as warehouse:
        written = render_site(warehouse, tmp_path / "site", pages=["index"], own=[own])
    assert written.problems == []
    assert [path.name for path in written.pages] == ["index.html", "run-one.busiest.html"]
    # 3 requests of a prefill of 16 MiB and 3 steps of 1 MiB on 4 devices: 228 MiB, of which a tp4
    # all-reduce sends 6/4 and an all-gather 3/4.
    (csv,) = (tmp_path / "site" / "data").glob("run-one.busiest.*.csv")
    rows = csv.read_text("utf-8").splitlines()
    assert rows == [
        "axis,kind,bytes",
        f"tp,all-reduce,{228 * 2**20 * 1.5}",
        f"tp,all-gather,{228 * 2**20 * 0.75}",
    ]


def test_it_is_drawn_again_when_the_file_changes(two_runs, tmp_path):
    def drawn(text):
        own = [read_own_page(page(tmp_path, text))]
        return render_site(two_runs, tmp_path / "site", pages=["index"], own=own)

    drawn(OF_SITE)
    assert len(drawn(OF_SITE).unchanged) == 2
    assert [path.name for path in drawn(OF_SITE + "# more").unchanged] == ["index.html"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SQL = (", "busiest.py, line 1: '(' was never closed"),
        ("import nowhere", "busiest.py, line 1: ModuleNotFoundError: No module named 'nowhere'"),
        ("x = 1\nraise ValueError('no')", "busiest.py, line 2: ValueError: no"),
        ("def charts(rows): ...", "busiest.py: it has no SQL; write SQL ="),
        ("SQL = 'select 1'", "busiest.py: it has no function charts; write def charts(rows)"),
        ("SQL = 'select $run, $runs'\ndef charts(rows): ...", "names $run and $runs"),
    ],
)
def test_what_is_no_page_is_one_clear_line(tmp_path, text, message):
    with pytest.raises(ReportError, match=re.escape(message)):
        read_own_page(page(tmp_path, text))


@pytest.mark.parametrize("name", ["time.py", "Big.py", "page.txt", "a b.py"])
def test_a_name_that_cannot_be_a_page(tmp_path, name):
    with pytest.raises(ReportError, match="a page's file is named as the page"):
        read_own_page(page(tmp_path, GOOD, name))


def test_no_file(tmp_path):
    with pytest.raises(ReportError, match="No such file or directory; give a Python file"):
        read_own_page(tmp_path / "absent.py")


FAULTS = {
    ("mark_bar()", "mark_bar(size='x')"): "own0.py, line 10: SchemaValidationError: ",
    ("return alt", "return 3 or alt"): "charts returned int; return an Altair chart",
    ('x="bytes"', "x=rows.nope"): "own2.py, line 10: AttributeError: ",
    ("traffic_volume_v1", "traffic_volum"): "traffic_volum",
}


def test_each_one_that_fails_costs_itself(tmp_path, monkeypatch, capsys):
    root = write_warehouse(tmp_path / "wh", example_run("a" * 12, "one", {"tp": 4}))
    given = ["--page", page(tmp_path, OF_SITE, "whole.py")]
    for number, change in enumerate(FAULTS):
        given += ["--page", page(tmp_path, OF_SITE.replace(*change), f"own{number}.py")]
    site = tmp_path / "site"
    assert run_command(monkeypatch, "report", "index", "-w", root, "-o", site, *given) == 1
    told = capsys.readouterr()
    assert told.out.splitlines() == [str(site / "index.html"), str(site / "whole.html")]
    lines = [line for line in told.err.splitlines() if "the page is left out" in line]
    for line, message in zip(lines, FAULTS.values(), strict=True):
        assert message in line
    assert "Traceback" not in told.err
