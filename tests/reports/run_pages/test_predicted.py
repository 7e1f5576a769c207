"""Pages of predicted runs say so first, with the run that was replayed and what was changed."""

from __future__ import annotations

from xlahouse.reports.charts.facts import PREDICTED_BANNER, VIRTUAL_BANNER, PageFacts
from xlahouse.reports.run_page import _banners
from xlahouse.reports.setup_facts import _prediction
from xlahouse.reports.site_page import banners_of


def facts(name, source, inferred=False):
    row = {"source": source, "inferred": inferred, "parent_run_id": "ab12", "change": "ici=2x"}
    return PageFacts(name, name, row)


def test_a_predicted_runs_page_names_parent_and_change():
    (banner,) = _banners(facts("fast", "predicted"))
    assert banner.head == PREDICTED_BANNER
    assert banner.body.startswith("A replay of run ab12 with ici=2x. ")
    assert [each.head for each in _banners(facts("fast", "predicted", True))] == [
        VIRTUAL_BANNER,
        PREDICTED_BANNER,
    ]
    assert _prediction(facts("fast", "predicted").row) == [
        ("Predicted from run", "ab12"),
        ("Change", "ici=2x"),
    ]


def test_a_measured_runs_page_has_no_word_of_predictions():
    assert _banners(facts("base", "xplane")) == []
    assert _prediction(facts("base", "xplane").row) == []


def test_pages_over_runs_name_the_predicted_ones():
    some = banners_of([facts("base", "xplane"), facts("fast", "predicted")])
    assert [(each.head, each.body) for each in some] == [(PREDICTED_BANNER, "Runs: fast.")]
    assert banners_of([facts("fast", "predicted")])[0].body == ""
