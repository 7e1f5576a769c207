"""Pages over runs: setups side by side, scaling, and effects of one thing, by rows worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from tests.reports.example import Store, Tables
from tests.reports.vega_lite import assert_valid, data, layers
from xlahouse.reports.charts.panel import fill
from xlahouse.reports.panels.runs import comparison, comparison_why, scaling, study

MS = 1_000_000_000  # picoseconds


def run(run_id: str, parallelism: str, **chosen: Any) -> dict[str, Any]:
    row = {
        "run_id": run_id,
        "name": f"name {run_id}",
        "setup": f"setup {parallelism} {chosen.get('batch_size', 4)} {chosen.get('model', 'qwen')}",
        "model": "qwen",
        "parallelism": parallelism,
        "batch_size": 4,
        "prompt_tokens": 16,
        "output_tokens": 8,
        "dtype": "bf16",
        "device_kind": "TPU v6 Lite",
        "device_count": 4,
        "status": "complete",
    }
    return row | chosen


# Repeats of tp4, of which the second is slower; pp4 once; tp4 again with twice the batch.
RUNS = [
    run("a1", "tp4"),
    run("a2", "tp4"),
    run("b1", "pp4", microbatches=2),
    run("c1", "tp4", batch_size=8),
]
SPEEDS = {"a1": (0.010, 100.0), "a2": (0.014, 80.0), "b1": (0.020, 50.0), "c1": (0.016, 150.0)}


def summary(run_id: str) -> dict[str, Any]:
    ttft, rate = SPEEDS[run_id]
    return {"run_id": run_id, "ttft_s": ttft, "tpot_s": None, "output_tokens_per_s": rate}


def latency(run_id: str, times: float) -> dict[str, Any]:
    ttft, rate = SPEEDS[run_id]
    return {"run_id": run_id, "ttft_s": ttft * times, "output_tokens_per_s": rate / times}


@pytest.fixture(scope="module")
def store() -> Store:
    tables: Tables = {
        "runs": RUNS,
        "run_summary_v1": [summary(row["run_id"]) for row in RUNS],
        "latency_v1": [latency(row["run_id"], times) for row in RUNS for times in (1.0, 2.0)],
        "comm_compute_v1": [
            split("a1", "prefill", 4, 40, 24, 8),
            split("a2", "prefill", 4, 56, 24, 24),
            split("b1", "prefill", 4, 80, 24, 0),
            split("a1", "decode", 8, 8, 8, 0),
            split("a1", "warmup", 8, 999, 999, 0),
        ],
        "traffic_volume_v1": [
            sent("a1", "prefill", "tp", 1000.0),
            sent("a2", "prefill", "tp", 3000.0),
            sent("b1", "prefill", "pp", 200.0),
            sent("b1", "prefill", "none", None),
            sent("a1", "warmup", "tp", 99.0),
        ],
    }
    return Store(tables)


def split(run_id: str, phase: str, steps: int, window: int, compute: int, exposed: int) -> Any:
    parts = {"window_ps": window * MS, "compute_ps": compute * MS, "exposed_ps": exposed * MS}
    rest = {"exposed_copy_ps": 0, "sync_wait_ps": 0, "idle_ps": (window - compute - exposed) * MS}
    return {"run_id": run_id, "phase": phase, "device_steps": steps, **parts, **rest}


def sent(run_id: str, phase: str, axis: str, wire: float | None) -> Any:
    counts = {"collectives": 8, "instances": 2, "wire_bytes": wire}
    return {"run_id": run_id, "phase": phase, "axis": axis, "device_id": 0, **counts}


def rows_of(store: Store, panel: Any, runs: tuple[str, ...] = ("a1", "a2", "b1", "c1")) -> Any:
    return store.query(panel.sql, {"runs": list(runs)}).pl()


@pytest.fixture(scope="module")
def facts() -> Any:
    """Facts of runs on an accelerator; what panels read of them is only who is inferred."""
    return Store({"runs": RUNS}).facts()


def test_repeats_are_one_setup_with_the_range_of_its_requests(store: Store) -> None:
    rows = rows_of(store, comparison.PANEL)
    # The median of two is the row ceil(2 / 2) = the first, the smaller; requests are 1x and 2x.
    wanted = ["subject", "label", "runs", "requests", "ttft_s", "output_tokens_per_s"]
    four, eight = (f"qwen, batch {n}, 16 + 8 tokens, bf16, TPU v6 Lite" for n in (4, 8))
    assert rows.select(wanted).rows() == [
        (four, "tp4", 2, 4, 0.010, 80.0),
        (four, "pp4 m2", 1, 2, 0.020, 50.0),
        (eight, "tp4", 1, 2, 0.016, 150.0),
    ]
    spread = rows.select("min_ttft_s", "max_ttft_s", "min_output_tokens_per_s").row(0)
    assert spread == (0.010, 0.028, 40.0)
    assert rows["tpot_s"].is_null().all()


def test_runs_that_are_not_asked_for_do_not_count(store: Store) -> None:
    rows = rows_of(store, comparison.PANEL, ("a2", "b1"))
    assert rows.select("label", "runs", "ttft_s").rows() == [
        ("tp4", 1, 0.014),
        ("pp4 m2", 1, 0.020),
    ]


def test_settings_without_a_column_tell_setups_of_one_mesh_apart() -> None:
    runs = [run("a1", "tp4"), run("a2", "tp4", setup="other")]
    twins = Store({"runs": runs, "run_summary_v1": [{"run_id": "a1"}, {"run_id": "a2"}]})
    rows = rows_of(twins, comparison.PANEL, ("a1", "a2"))
    assert sorted(rows["label"]) == ["tp4 (name a1)", "tp4 (name a2)"]
    assert rows["output_tokens_per_s"].is_null().all()
    section = fill(comparison.PANEL, rows, twins.facts())
    assert section.figures == []
    assert section.cells[0][4].text == "not known"


def test_charts_and_the_verdict_of_the_comparison(store: Store, facts: Any) -> None:
    section = fill(comparison.PANEL, rows_of(store, comparison.PANEL), facts)
    assert_valid(section)
    titles = [figure.title.partition(",")[0] for figure in section.figures]
    assert titles == [
        "Rate by batch: qwen",
        "Output tokens/s: qwen",
        "TTFT: qwen",
        "Output tokens/s: qwen",
        "TTFT: qwen",
    ]  # no TPOT is known
    batches, rates, ttft = (figure.spec for figure in section.figures[:3])
    assert {(r["label"], r["batch_size"], r["output_tokens_per_s"]) for r in data(batches)} == {
        ("tp4", 4, 80.0),
        ("pp4 m2", 4, 50.0),
        ("tp4", 8, 150.0),
    }
    assert [(r["shown"], r["median"]) for r in data(rates)] == [
        ("tp4", 80),
        ("pp4 m2", 50),
    ]
    assert [r["median"] for r in data(ttft)] == pytest.approx([10, 20])
    assert layers(ttft)[0]["encoding"]["x"]["title"] == "TTFT (ms)"
    [verdict] = [note for note in section.notes if "most output tokens/s" in note]
    assert "tp4 gives the most output tokens/s, 80.0; next is pp4 m2 with 50.0" in verdict
    assert "Inconclusive: a setup has one run" in verdict


@pytest.mark.parametrize(("least", "told"), [(40.0, "overlap."), (60.0, "do not overlap.")])
def test_repeated_setups_are_judged_by_their_ranges(least: float, told: str) -> None:
    first = {"label": "tp4", "output_tokens_per_s": 80.0, "runs": 2}
    second = {"label": "pp4", "output_tokens_per_s": 50.0, "runs": 3}
    first["min_output_tokens_per_s"], second["max_output_tokens_per_s"] = least, 55.0
    assert comparison._leader("s", first, second).endswith(told)


def test_why_a_step_takes_its_time(store: Store, facts: Any) -> None:
    rows = rows_of(store, comparison_why.TIME)
    # tp4: (40 + 56) ms of 8 device steps; warm-up is no phase of the model's.
    assert rows.select("label", "phase", "steps", "step_ps").rows() == [
        ("tp4", "prefill", 8, 12 * MS),
        ("pp4 m2", "prefill", 4, 20 * MS),
        ("tp4", "decode", 8, 1 * MS),
    ]
    section = fill(comparison_why.TIME, rows, facts)
    assert_valid(section)
    prefill = section.figures[0].spec
    assert [(r["shown"], r["share"], r["amount"]) for r in data(prefill)] == [
        ("tp4", "compute", 6.0),
        ("pp4 m2", "compute", 6.0),
        ("tp4", "exposed communication", 4.0),
        ("tp4", "idle", 2.0),
        ("pp4 m2", "idle", 14.0),
    ]


def test_what_a_step_sends(store: Store, facts: Any) -> None:
    rows = rows_of(store, comparison_why.WIRE)
    # tp4: (1000 + 3000) bytes and 16 collectives in 8 device steps.
    wanted = rows.select("label", "axis", "step_bytes", "step_collectives").rows()
    assert wanted == [("pp4 m2", "none", None, 2), ("pp4 m2", "pp", 50, 2), ("tp4", "tp", 500, 2)]
    section = fill(comparison_why.WIRE, rows, facts)
    assert_valid(section)
    assert section.notes[0] == "Not drawn: traffic of unknown size in pp4 m2."
    [figure] = section.figures
    assert [(r["shown"], r["amount"]) for r in data(figure.spec)] == [("pp4 m2", 50), ("tp4", 500)]


def grown(axis: str, size: int, rate: float | None, other: str = "") -> dict[str, Any]:
    ratio = None if rate is None else rate / 100
    return {
        "model": "qwen",
        "axis": axis,
        "other_axes": other,
        "size": size,
        "devices": size,
        "run_id": "a1",
        "batch_size": 4,
        "prompt_tokens": 16,
        "output_tokens": 8,
        "dtype": "bf16",
        "device_kind": "TPU v6 Lite",
        "runs": 2,
        "output_tokens_per_s": rate,
        "base_size": None if rate is None else 1,
        "speedup_ratio": ratio,
        "efficiency_ratio": None if ratio is None else ratio / size,
    }


def test_scaling_is_drawn_beside_the_ideal(facts: Any) -> None:
    rows = [
        grown("tp", 1, 100.0),
        grown("tp", 4, 300.0),
        grown("dp", 1, 100.0),
        grown("dp", 2, None),
    ]
    store = Store(
        {"runs": RUNS, "scaling_v1": [*rows, grown("tp", 2, 120.0, "pp2") | {"run_id": "z"}]}
    )
    found = rows_of(store, scaling.PANEL)
    assert found.select("axis", "size", "times_devices").rows() == [
        ("dp", 1, 1.0),
        ("dp", 2, None),
        ("tp", 1, 1.0),
        ("tp", 4, 4.0),
    ]  # run z is not on the page
    section = fill(scaling.PANEL, found, facts)
    assert_valid(section)
    speedup, efficiency = (figure.spec for figure in section.figures)
    assert [(r["times_devices"], r["speedup_ratio"]) for r in data(speedup)] == [(1, 1), (4, 4)]
    assert [(r["series"], r["speedup_ratio"]) for r in data(speedup, 1)] == [("tp", 1), ("tp", 3)]
    assert [r["efficiency_ratio"] for r in data(efficiency)] == [1, 1]
    assert [r["efficiency_ratio"] for r in data(efficiency, 1)] == [1, 0.75]
    assert section.coverage == "1 of 2 series with a rate at two sizes; 4 runs."
    assert "A chip's rate is not known" in section.notes[0]


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
    return Store({"runs": chosen, "run_comparison_v1": compared})


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
        ("parallelism", 2, 1, pytest.approx(2), pytest.approx(2), pytest.approx(4)),
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
    rows = rows_of(Store({"runs": chosen, "run_comparison_v1": [silent]}), study.RANKING, ALL)
    assert rows.select("pairs", "known", "median_times", "least_times").row(0) == (1, 0, None, None)
    section = fill(study.RANKING, rows, [])
    assert section.figures == []
    assert any("where a value is 0" in note for note in section.notes)


@pytest.mark.parametrize("panel", [study.RANKING, study.PAIRS])
def test_without_a_pair_it_says_so(panel: Any) -> None:
    both = Store({"runs": RUNS[:2], "run_comparison_v1": []})
    rows = rows_of(both, panel, ("a1", "a2"))
    assert "No two setups differ in one thing alone" in fill(panel, rows, both.facts()).empty
    assert "one run" in fill(panel, rows, both.facts()[:1]).empty


def test_the_views_themselves_feed_the_panels(two_runs: Store) -> None:
    """The example's runs: tp4 and dp2.tp2 of one model, equal in all else, with a TTFT each."""
    ids = ("a" * 12, "b" * 12)
    rows = rows_of(two_runs, study.PAIRS, ids).filter(metric="ttft_s")
    assert rows.select("factor", "from_value", "to_value", "effect_ratio").rows() == [
        ("parallelism", "dp2.tp2", "tp4", 1.0)
    ]
    step = rows_of(two_runs, comparison_why.TIME, ids)
    assert step.select("label", "phase", "steps", "step_ps").rows() == [
        (label, phase, steps, 100_000_000)  # ops of a step end after 100 us
        for phase, steps in (("prefill", 12), ("decode", 36))
        for label in ("dp2.tp2", "tp4")
    ]
    facts = two_runs.facts()
    section = fill(comparison.PANEL, rows_of(two_runs, comparison.PANEL, ids), facts)
    assert any("nothing about an accelerator" in note for note in section.notes)
