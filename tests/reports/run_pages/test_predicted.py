"""Pages of predicted runs say so first, with the run that was replayed and what was changed."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from xlahouse.reports.charts.facts import (
    COMPARED_BANNER,
    PREDICTED_BANNER,
    VIRTUAL_BANNER,
    PageFacts,
)
from xlahouse.reports.charts.panel import fill
from xlahouse.reports.panels.communication import exposed
from xlahouse.reports.panels.overview import forecast, predicted
from xlahouse.reports.panels.time import time_split, waits
from xlahouse.reports.run_page import _banners
from xlahouse.reports.setup_facts import _prediction
from xlahouse.reports.site_page import banners_of


def facts(name, source, inferred=False, compared=0):
    row = {"compared_runs": compared} | {
        "source": source,
        "inferred": inferred,
        "parent_run_id": "ab12",
        "parent_name": "base",
        "change": "ici=2x",
    }
    return PageFacts(name, name, row, "w")


def test_a_predicted_runs_page_names_parent_and_change():
    (banner,) = _banners(facts("fast", "predicted"))
    assert banner.head == PREDICTED_BANNER
    assert banner.body.startswith("A replay of base (run ab12) with ici=2x. ")
    assert [each.head for each in _banners(facts("fast", "predicted", True))] == [
        VIRTUAL_BANNER,
        PREDICTED_BANNER,
    ]
    assert _prediction(facts("fast", "predicted")) == [
        ("Predicted from", "base (run ab12)"),
        ("Change", "ici=2x"),
    ]


def test_a_measured_runs_page_has_no_word_of_predictions():
    assert _banners(facts("base", "xplane")) == []
    assert _prediction(facts("base", "xplane")) == []


def test_pages_of_time_say_where_waits_for_circuits_are():
    over = facts("fast", "predicted").row | {
        "change": "reconfigure=10000us, circuits=1, policy=every"
    }
    (said,) = replace(facts("fast", "predicted"), row=over).circuit_notes()
    assert "Exposed communication and sync wait hold the waits for optical circuits" in said
    rows = pl.DataFrame(
        {"axis": ["tp"], "comm_compute_ratio": [0.5], "kind": ["all-reduce"], "phase": ["decode"]}
    )
    rows = rows.with_columns(ratio=pl.lit(0.1))
    for panel in (time_split, waits, exposed):
        row = {"markers": 1} | over
        assert said in panel.notes(rows, PageFacts("r", "r", row, "w"))
        assert said not in panel.notes(rows, PageFacts("r", "r", row | {"change": "ici=2x"}, "w"))


def test_a_parent_that_was_dropped_is_named_by_its_id():
    gone = replace(
        facts("fast", "predicted"), row=facts("fast", "predicted").row | {"parent_name": None}
    )
    assert gone.parent == "run ab12"


def test_pages_over_runs_name_the_predicted_ones():
    some = banners_of([facts("base", "xplane"), facts("fast", "predicted")])
    assert [(each.head, each.body) for each in some] == [(PREDICTED_BANNER, "Runs: fast.")]
    assert banners_of([facts("fast", "predicted")])[0].body == ""


def test_a_prediction_with_a_measured_run_beside_it_does_not_claim_to_lack_one():
    (banner,) = _banners(facts("fast", "predicted", compared=1))
    assert banner.head == COMPARED_BANNER
    assert banner.body.endswith("Its overview has the prediction's error beside measured runs.")
    some = [facts("fast", "predicted", compared=2), facts("slow", "predicted")]
    assert [(each.head, each.body) for each in banners_of(some)] == [
        (PREDICTED_BANNER, "Runs: slow."),
        (COMPARED_BANNER, "Runs: fast."),
    ]


def test_only_predicted_and_compiled_runs_have_their_panels():
    by_source = {name: facts(name, name) for name in ("xplane", "predicted", "compiled")}
    assert [name for name, each in by_source.items() if predicted.PANEL.applies(each)] == [
        "predicted"
    ]
    assert [name for name, each in by_source.items() if forecast.PANEL.applies(each)] == [
        "compiled"
    ]


def test_parts_of_a_step_stand_beside_the_measured_ones():
    columns = ("phase", "part", "steps", "measured_ps", "predicted_ps", "change_ps")
    rows = pl.DataFrame(
        [
            ("decode", "compute", 6, 3_000_000, 3_000_000, 0),
            ("decode", "sync wait", 6, 1_000_000, 2_000_000, 1_000_000),
        ],
        schema=columns,
        orient="row",
    )
    section = fill(predicted.PANEL, rows, facts("fast", "predicted"))
    # 4 us become 5.
    assert section.verdict == [
        "A decode step's mean period of a device is 4.00\xa0µs measured and 5.00\xa0µs predicted (+25.0 %).",
    ]
    (figure,) = section.figures
    drawn = [layer["mark"]["filled"] for layer in figure.spec["layer"]]
    assert drawn == [True, False]  # a predicted time is hollow
    assert section.coverage == "6 device steps."


def test_parts_that_are_not_known_have_no_sentence():
    rows = pl.DataFrame(
        [("decode", "compute", 6, None, 3, None)],
        schema={"phase": pl.String, "part": pl.String}
        | dict.fromkeys(("steps", "measured_ps", "predicted_ps", "change_ps"), pl.Int64),
        orient="row",
    )
    section = fill(predicted.PANEL, rows, facts("fast", "predicted"))
    assert section.verdict == []


def test_a_forecast_is_an_interval():
    row = {
        "phase": "decode",
        "metric": "tpot",
        "change": None,
        "optimistic_ps": 5_000_000,
        "pessimistic_ps": 9_000_000,
        "clock_hz": 1.75e9,
        "clock_source": "a table",
        "origin": "cycles",
        "executions": 3,
        "part_optimistic_ps": 1,
        "part_pessimistic_ps": 2,
    }
    quick = row | {"change": "ici=2x", "optimistic_ps": 4_000_000, "pessimistic_ps": 6_000_000}
    rows = pl.DataFrame(
        [each | {"part": part} for each in (row, quick) for part in ("compute", "copy")]
    )
    section = fill(forecast.PANEL, rows, facts("small", "compiled"))
    assert section.verdict == [
        "TPOT would lie between 5.00\xa0µs and 9.00\xa0µs on the devices.",
        "TPOT with ici=2x would lie between 4.00\xa0µs and 6.00\xa0µs on the devices.",
        "Not validated on hardware.",
    ]
    assert section.notes[1] == "Cycles are times at 1.75 GHz (a table)."
    (figure,) = section.figures
    (data,) = figure.spec["datasets"].values()
    assert [(each["metric"], each["best"], each["worst"]) for each in data] == [
        ("TPOT", 5, 9),
        ("TPOT, ici=2x", 4, 6),
    ]
    assert figure.spec["mark"]["fillOpacity"] == 0


def test_a_forecast_with_a_measured_run_beside_it_has_its_error_instead():
    row = {"phase": "decode", "metric": "tpot", "change": None, "optimistic_ps": 5_000_000}
    rows = pl.DataFrame([row | {"pessimistic_ps": 9_000_000}])
    said = forecast.verdict(rows, facts("small", "compiled", compared=1))
    assert said == ["TPOT would lie between 5.00\xa0µs and 9.00\xa0µs on the devices."]


def test_a_compiled_run_without_a_forecast_says_how_to_make_one():
    found = forecast.PANEL.why_empty(facts("small", "compiled"))
    assert found == "No forecast was made: `xlahouse predict small` makes one."
