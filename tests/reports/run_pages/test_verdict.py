"""The start of a run's overview: the sentences of `xlahouse summary`, bars that add up, links that exist."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests.reports.example import US, Store
from tests.reports.html import Page
from tests.reports.test_palette import PAPERS, VISION, contrast, distance
from tests.reports.vega_lite import assert_valid, data
from xlahouse.reports.answers import read_verdict, shown_findings
from xlahouse.reports.figure_files import render_figures
from xlahouse.reports.page import unbroken
from xlahouse.reports.pages import RUN_PAGES
from xlahouse.reports.panels.overview.verdict import EXPOSED_SHADES
from xlahouse.reports.site import render_site
from xlahouse.reports.site_page import Link
from xlahouse.sql.answers.losses import LOSSES
from xlahouse.sql.answers.summary import summarize_run

TP4 = "a" * 12


@pytest.fixture(scope="module")
def verdict(two_runs: Store):
    return read_verdict(two_runs, TP4)


def test_a_decode_step_and_a_prefill_by_hand(verdict):
    # A step every 200 us, of 80 compute and 20 exposed; markers start 5 us before the ops of a prefill.
    rows = verdict.rows.filter(verdict.rows["time_ps"] > 0)
    assert rows.select("bar", "part", "axis", "mean_ps", "device_steps").rows() == [
        ("decode step's period", "compute", None, 80 * US, 36),
        ("decode step's period", "exposed communication", "tp", 20 * US, 36),
        ("decode step's period", "between steps", None, 100 * US, 36),
        ("prefill from its marker", "host, until the first op", None, 5 * US, 12),
        ("prefill from its marker", "compute", None, 80 * US, 12),
        ("prefill from its marker", "exposed communication", "tp", 20 * US, 12),
    ]
    sums = verdict.rows.select("bar", "mean_ps", "time_ps", "share")
    sums = sums.group_by("bar", maintain_order=True).sum()
    assert sums.select("bar", "mean_ps", "time_ps").rows() == [
        ("decode step's period", 200 * US, 36 * 200 * US),
        ("prefill from its marker", 105 * US, 12 * 105 * US),
    ]
    assert sums["share"].to_list() == pytest.approx([1, 1])


def test_the_sentences_are_those_of_the_command(verdict, two_runs):
    assert verdict.summary == summarize_run(two_runs, TP4)
    assert verdict.summary.verdict.startswith(
        "50 % of the mean decode step's 200 µs is idle time between steps"
    )
    texts = [finding.text for finding in verdict.summary.findings]
    assert [text.split(" is ")[0] for text in texts] == [
        "50 % of the mean decode step's 200 µs",
        "10 % of the mean decode step's 200 µs",
        "19 % of the mean prefill's 105 µs from its marker",
    ]


def test_the_bars_are_drawn(verdict):
    assert_valid(verdict.section)
    decode, prefill = verdict.section.figures
    assert decode.title == "Mean decode step's period"
    assert decode.note.replace("\u00a0", " ").startswith("200 µs, mean over 36 device steps: ")
    assert prefill.title == "Mean prefill from its marker"
    assert prefill.note.replace("\u00a0", " ").startswith("105 µs, mean over 12 device steps: ")
    assert [(row["part"].replace("\u00a0", " "), row["amount"]) for row in data(decode.spec)] == [
        ("compute: 40.0 %, 80.0 µs", 80),
        ("exposed comm., tp: 10.0 %, 20.0 µs", 20),
        ("between steps: 50.0 %, 100 µs", 100),
    ]


def test_a_run_of_nothing_says_why(bare_run):
    found = read_verdict(bare_run, "c" * 12)
    assert found.section.empty == "Not known: no device events in the trace."
    assert found.section.figures == []
    assert found.summary.verdict == "No verdict: no device events in the trace."


@pytest.mark.parametrize("name", LOSSES)
def test_each_proof_is_a_panel_of_its_page(name):
    loss = LOSSES[name]
    assert loss.panel in {panel.key for panel in RUN_PAGES[loss.page]}


def test_a_finding_links_to_the_pages_that_are_there(verdict):
    links = [Link("Communication", "run-x.communication.html", False)]
    hrefs = [finding.href for finding in shown_findings(verdict.summary, links)]
    assert hrefs == ["", *["run-x.communication.html#exposed"] * 2]


def test_the_page_begins_with_the_answer(two_runs, verdict, tmp_path):
    render_site(two_runs, tmp_path, ["demo tp4"], ["overview", "communication", "scheduling"])
    page = Page((tmp_path / "run-demo-tp4.html").read_text("utf-8"))
    assert page.text.index(unbroken(verdict.summary.verdict)) < page.text.index("TTFT")
    found = {attributes.get("href") for attributes in page.all("a")}
    assert {
        "run-demo-tp4.communication.html#exposed",
        "run-demo-tp4.scheduling.html#launches",
        "data/run-demo-tp4.verdict.csv",
    } <= found


def test_the_bars_are_figures_for_papers(two_runs, tmp_path):
    written = render_figures(two_runs, tmp_path, "svg", ["demo tp4"], ["overview"])
    names = {path.name for path in written}
    assert {
        "run-demo-tp4.verdict-mean-decode-steps-period.svg",
        "run-demo-tp4.verdict-mean-prefill-from-its-marker.svg",
    } <= names


def test_shades_of_axes_are_seen_on_both_papers():
    assert all(contrast(shade, paper) > 2 for shade in EXPOSED_SHADES for paper in PAPERS)


@pytest.mark.parametrize("vision", VISION)
def test_shades_of_axes_do_not_look_alike(vision):
    worst = min((distance(a, b, vision), a, b) for a, b in combinations(EXPOSED_SHADES, 2))
    assert worst[0] > 8, worst
