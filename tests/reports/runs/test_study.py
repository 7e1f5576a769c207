"""Effects of one thing, all else being equal, by rows worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reports.example import Store
from tests.reports.over_runs import RUNS, rows_of, run
from tests.reports.vega_lite import assert_valid, data, drawn
from xlahouse.reports.charts.panel import fill
from xlahouse.reports.panels.runs import study, study_matrix
from xlahouse.reports.panels.runs.effects import show_effect


def pair(base: str, other: str, differing: str, median: float, second: float, **more: Any) -> Any:
    return {
        "run_id": base,
        "other_run_id": other,
        "metric": "ttft_s",
        "median": median,
        "other_median": second,
        "runs": 1,
        "other_runs": 1,
        "verdict": "inconclusive",
        "differing": differing,
    } | more


@pytest.fixture(scope="module")
def pairs() -> Store:
    chosen = [*RUNS, run("d1", "tp2", device_count=2), run("e1", "tp4", model="deepseek", layers=3)]
    chosen.append(run("f1", "tp4", batch_size=16, options='{"x": 1}'))
    compared = [
        pair("a1", "c1", "batch_size", 0.010, 0.016),
        pair("c1", "a1", "batch_size", 0.016, 0.010),  # the same pair the other way round
        pair("a2", "c1", "batch_size", 0.010, 0.016),  # a repeat of it
        pair("a1", "b1", "parallelism, microbatches", 0.010, 0.020),
        pair("b1", "a1", "parallelism, microbatches", 0.020, 0.010),
        pair("d1", "a1", "parallelism, device_count", 0.040, 0.010, verdict="better"),
        pair("e1", "a1", "model, layers", 0.010, 0.010),
        pair("a1", "d1", "dtype", 0.010, 0.9),  # no factor of the study
        pair("d1", "c1", "batch_size, parallelism, device_count", 0.040, 0.9),  # two things
        pair("a1", "f1", "batch_size", 0.010, 0.9),  # options differ too
    ]
    return Store({"runs": chosen, "run_comparison_v2": compared})


ALL = ("a1", "a2", "b1", "c1", "d1", "e1", "f1")


def test_only_controlled_pairs_count_and_each_once(pairs: Store) -> None:
    rows = rows_of(pairs, study.PAIRS, ALL)
    wanted = rows.select("factor", "from_value", "to_value", "effect_ratio", "times").rows()
    assert wanted == [
        ("batch_size", "4", "8", pytest.approx(1.6), pytest.approx(1.6)),
        ("model", "deepseek", "qwen", 1, 1),
        ("parallelism", "tp2", "tp4", pytest.approx(0.25), pytest.approx(4)),
        ("parallelism", "pp4", "tp4", pytest.approx(0.5), pytest.approx(2)),
    ]
    assert rows["held"][0] == "qwen, tp4, prompt 16, output 8, bf16, TPU v6 Lite"


def test_effects_are_signed_and_worded(pairs: Store) -> None:
    rows = rows_of(pairs, study.EFFECTS, ALL)
    wanted = ("factor", "from_value", "to_value", "median_ratio", "pairs", "conclusive")
    assert rows.select(wanted).rows() == [
        ("batch_size", "4", "8", pytest.approx(1.6), 1, 0),
        ("model", "deepseek", "qwen", 1, 1, 0),
        ("parallelism", "tp2", "tp4", pytest.approx(0.25), 1, 1),
        ("parallelism", "pp4", "tp4", pytest.approx(0.5), 1, 0),
    ]
    section = fill(study.EFFECTS, rows, pairs.facts())
    assert_valid(section)
    assert [text.replace("\u00a0", " ") for text in section.verdict] == [
        "Model deepseek to qwen: TTFT ±0 % (1 pair, none conclusive).",
        "Batch size 4 to 8: TTFT +60 % (1 pair, none conclusive).",
        "Parallelism tp2 to tp4: TTFT x 0.25 (1 pair, 1 conclusive).",
        "Parallelism pp4 to tp4: TTFT x 0.5 (1 pair, none conclusive).",
    ]
    [figure] = section.figures
    assert figure.title == "Effects on TTFT"
    bars = [
        (r["text"].replace("\u00a0", " "), r["equal"], r["conclusive"]) for r in data(figure.spec)
    ]
    assert bars == [
        ("parallelism tp2 to tp4: x 0.25", 1, 1),
        ("parallelism pp4 to tp4: x 0.5", 1, 0),
        ("batch size 4 to 8: +60 %", 1, 0),
        ("model deepseek to qwen: ±0 %", 1, 0),
    ]
    assert "No two setups differ only in: prompt length, output length." in section.notes
    assert any("3 of 4 comparisons are inconclusive" in note for note in section.notes)


def test_a_change_is_told_by_all_its_metrics() -> None:
    made = [
        pair("a1", "c1", "batch_size", 100.0, 360.0, metric="output_tokens_per_s_per_chip"),
        pair("a1", "c1", "batch_size", 400.0, 1440.0, metric="output_tokens_per_s"),
        pair("a1", "c1", "batch_size", 0.010, 0.0102, metric="tpot_s"),
        pair("a1", "c1", "batch_size", 8.0, 8.0, metric="wire_bytes", verdict="equal"),
    ]
    store = Store({"runs": RUNS, "run_comparison_v2": made})
    section = fill(study.EFFECTS, rows_of(store, study.EFFECTS, ("a1", "c1")), store.facts())
    assert [text.replace("\u00a0", " ") for text in section.verdict] == [
        "Batch size 4 to 8: tokens/s per chip x 3.60, TPOT +2 %, wire bytes ±0 % (1 pair, none conclusive)."
    ]


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (None, "not known"),
        (2.0, "x 2.00"),
        (1.996, "+100 %"),
        (0.51, "-49 %"),
        (1.004, "+0.4 %"),
        (1.0, "±0 %"),
    ],
)
def test_effects_read_as_people_say_them(ratio: float | None, said: str) -> None:
    assert show_effect(ratio).replace("\u00a0", " ") == said


@pytest.mark.parametrize(("first", "second"), [(0.0, 5.0), (5.0, 0.0)])
def test_an_effect_from_or_to_nothing_has_no_size(first: float, second: float) -> None:
    chosen = [run("d1", "tp1", device_count=1), *RUNS[:1]]
    silent = pair("d1", "a1", "parallelism, device_count", first, second, metric="wire_bytes")
    rows = rows_of(Store({"runs": chosen, "run_comparison_v2": [silent]}), study.EFFECTS, ALL)
    assert rows.select("pairs", "known", "median_ratio", "least_ratio").row(0) == (1, 0, None, None)
    section = fill(study.EFFECTS, rows, [])
    assert section.figures == section.verdict == []
    assert any("where a value is 0" in note for note in section.notes)


@pytest.mark.parametrize("panel", [study.EFFECTS, study.PAIRS])
def test_without_a_pair_it_says_so(panel: Any) -> None:
    both = Store({"runs": RUNS[:2], "run_comparison_v2": []})
    rows = rows_of(both, panel, ("a1", "a2"))
    assert "No two setups differ in one thing alone" in fill(panel, rows, both.facts()).empty
    assert "one run" in fill(panel, rows, both.facts()[:1]).empty


@pytest.fixture(scope="module")
def crossed() -> Store:
    """tp4, pp4 and tp2 at batch 4; tp4 and pp4 at batch 8."""
    rows = [run("a1", "tp4"), run("b1", "pp4"), run("d1", "tp2", device_count=2)]
    rows += [run("a8", "tp4", batch_size=8), run("b8", "pp4", batch_size=8)]
    speed = {"a1": 0.010, "b1": 0.020, "d1": 0.040, "a8": 0.016, "b8": 0.012}
    compared = [
        pair(one, two, "parallelism", speed[one], speed[two], metric="tpot_s", verdict=verdict)
        for one, two, verdict in (
            ("a1", "b1", "worse"),
            ("b1", "a1", "better"),
            ("a1", "d1", "worse"),
            ("d1", "a1", "better"),
            ("a8", "b8", "inconclusive"),
            ("b8", "a8", "inconclusive"),
            ("a1", "a8", "worse"),  # another workload
        )
    ]
    return Store({"runs": rows, "run_comparison_v2": compared})


def test_a_matrix_has_a_cell_for_each_setup_and_workload_and_each_baseline(crossed: Store) -> None:
    rows = rows_of(crossed, study_matrix.PANEL, ("a1", "b1", "d1", "a8", "b8"))
    section = fill(study_matrix.PANEL, rows, crossed.facts())
    assert_valid(section)
    [figure] = section.figures
    assert figure.title == "TPOT by setup and workload"
    [chosen] = figure.spec["params"]
    # tp4 is in three pairs, the other setups in two and one.
    assert chosen["value"] == "tp4"
    assert chosen["bind"]["options"] == ["tp4", "pp4", "tp2"]
    cells = {
        (r["label"], r["workload"]): (
            r["text"].replace("\u00a0", " "),
            r["goodness"] > 0,
            r["verdict"],
        )
        for r in data(figure.spec)
        if r["baseline"] == "tp4"
    }
    assert cells == {
        ("tp4", "batch 4"): ("±0 %", False, "baseline"),
        ("pp4", "batch 4"): ("x 2.00", False, "worse"),
        ("tp2", "batch 4"): ("x 4.00", False, "worse"),
        ("tp4", "batch 8"): ("±0 %", False, "baseline"),
        ("pp4", "batch 8"): ("-25 %", True, "inconclusive"),
    }
    assert figure.spec["layer"][0]["encoding"]["x"]["sort"] == ["batch 4", "batch 8"]
    # One cell has an outline, in the layer above the colours.
    svg = drawn(figure.spec)
    assert svg.count('stroke-dasharray="4,3"') == 1
    # Both cells of the baseline are grey: neither a shade of better nor of worse.
    assert svg.count('fill="rgb(236, 238, 241)"') == 2
