"""Effects of one thing, all else being equal, by rows worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reports.example import Store
from tests.reports.over_runs import RUNS, rows_of, run
from tests.reports.vega_lite import assert_valid, data
from xlahouse.reports.charts.panel import fill
from xlahouse.reports.panels.runs import study


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


def test_pairs_are_drawn_by_factor(pairs: Store) -> None:
    section = fill(study.PAIRS, rows_of(pairs, study.PAIRS, ALL), pairs.facts())
    assert_valid(section)
    assert [figure.title for figure in section.figures] == [
        f"TTFT where {name} differs" for name in ("model", "batch size", "parallelism")
    ]
    bars = data(section.figures[2].spec)
    assert [(row["effect_ratio"], row["equal"]) for row in bars] == [
        (pytest.approx(0.25), 1),
        (pytest.approx(0.5), 1),
    ]
    assert bars[0]["text"].startswith("tp2 to tp4: qwen, batch 4")
    assert len(bars[0]["shown"]) == 46


def test_effects_are_ranked_with_n_and_spread(pairs: Store) -> None:
    rows = rows_of(pairs, study.RANKING, ALL)
    wanted = rows.select(
        "factor", "pairs", "conclusive", "median_times", "least_times", "most_times"
    )
    assert wanted.rows() == [
        ("parallelism", 2, 1, pytest.approx(3), pytest.approx(2), pytest.approx(4)),
        ("batch_size", 1, 0, pytest.approx(1.6), pytest.approx(1.6), pytest.approx(1.6)),
        ("model", 1, 0, 1, 1, 1),
    ]
    section = fill(study.RANKING, rows, pairs.facts())
    assert_valid(section)
    [figure] = section.figures
    assert figure.title == "What changes TTFT"
    assert [(r["shown"], r["pairs_text"]) for r in data(figure.spec)] == [
        ("parallelism", "2 pairs"),
        ("batch size", "1 pair"),
        ("model", "1 pair"),
    ]
    assert "No two setups differ only in: prompt length, output length." in section.notes
    assert any("3 of 4 comparisons are inconclusive" in note for note in section.notes)


@pytest.mark.parametrize(("first", "second"), [(0.0, 5.0), (5.0, 0.0)])
def test_an_effect_from_or_to_nothing_has_no_size(first: float, second: float) -> None:
    chosen = [run("d1", "tp1", device_count=1), *RUNS[:1]]
    silent = pair("d1", "a1", "parallelism, device_count", first, second, metric="wire_bytes")
    rows = rows_of(Store({"runs": chosen, "run_comparison_v2": [silent]}), study.RANKING, ALL)
    assert rows.select("pairs", "known", "median_times", "least_times").row(0) == (1, 0, None, None)
    section = fill(study.RANKING, rows, [])
    assert section.figures == []
    assert any("where a value is 0" in note for note in section.notes)


@pytest.mark.parametrize("panel", [study.RANKING, study.PAIRS])
def test_without_a_pair_it_says_so(panel: Any) -> None:
    both = Store({"runs": RUNS[:2], "run_comparison_v2": []})
    rows = rows_of(both, panel, ("a1", "a2"))
    assert "No two setups differ in one thing alone" in fill(panel, rows, both.facts()).empty
    assert "one run" in fill(panel, rows, both.facts()[:1]).empty
