"""Setups side by side, and why a step takes its time, by rows worked out by hand."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from tests.reports.example import Store, Tables
from tests.reports.over_runs import RUNS, rows_of, run
from tests.reports.vega_lite import assert_valid, data, layers
from xlahouse.reports.charts.panel import fill
from xlahouse.reports.panels.runs import comparison, comparison_why, study
from xlahouse.reports.panels.runs.setups import best_setups, left_out, shared_words

MS = 1_000_000_000  # picoseconds


SPEEDS = {"a1": (0.010, 100.0), "a2": (0.014, 80.0), "b1": (0.020, 50.0), "c1": (0.016, 150.0)}


def summary(run_id: str) -> dict[str, Any]:
    ttft, rate = SPEEDS[run_id]
    rates = {"output_tokens_per_s": rate, "output_tokens_per_s_per_chip": rate / 4}
    return {"run_id": run_id, "ttft_s": ttft, "tpot_s": None, **rates}


def latency(run_id: str, times: float) -> dict[str, Any]:
    ttft, rate = SPEEDS[run_id]
    return {"run_id": run_id, "ttft_s": ttft * times, "output_tokens_per_s": rate / times}


@pytest.fixture(scope="module")
def store() -> Store:
    tables: Tables = {
        "runs": RUNS,
        "run_summary_v2": [summary(row["run_id"]) for row in RUNS],
        "latency_v3": [latency(row["run_id"], times) for row in RUNS for times in (1.0, 2.0)],
        "comm_compute_v2": [
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


def test_repeats_are_one_setup_with_the_range_of_its_requests(store: Store) -> None:
    rows = rows_of(store, comparison.PANEL)
    # Medians of two runs, 10 and 14 ms, 100 and 80 tokens/s on 4 chips; requests are 1x and 2x.
    wanted = ["subject", "label", "runs", "requests", "ttft_s", "output_tokens_per_s"]
    wanted += ["chip_tokens_per_s", "per"]
    four, eight = (f"qwen, batch {n}, 16 + 8 tokens, bf16, TPU v6 Lite" for n in (4, 8))
    assert rows.select(wanted).rows() == [
        (eight, "tp4", 1, 2, 0.016, 150.0, 37.5, "chip"),
        (four, "tp4", 2, 4, pytest.approx(0.012), 90.0, 22.5, "chip"),
        (four, "pp4 m2", 1, 2, 0.020, 50.0, 12.5, "chip"),
    ]
    # 100, 50, 80 and 40 tokens/s of 4 chips; runs of 100 and 80 lie 20 of 90 apart.
    spread = rows.select("min_chip_tokens_per_s", "max_chip_tokens_per_s", "spread_ratio", "chips")
    assert spread.row(1) == (10.0, 25.0, pytest.approx(2 / 9), 4)
    assert spread["spread_ratio"].to_list()[0] is None
    assert rows["tpot_s"].is_null().all()


def test_runs_that_are_not_asked_for_do_not_count(store: Store) -> None:
    rows = rows_of(store, comparison.PANEL, ("a2", "b1"))
    assert rows.select("label", "runs", "ttft_s").rows() == [
        ("tp4", 1, 0.014),
        ("pp4 m2", 1, 0.020),
    ]


def test_settings_without_a_column_tell_setups_of_one_mesh_apart() -> None:
    runs = [run("a1", "tp4"), run("a2", "tp4", setup="other")]
    twins = Store({"runs": runs, "run_summary_v2": [{"run_id": "a1"}, {"run_id": "a2"}]})
    rows = rows_of(twins, comparison.PANEL, ("a1", "a2"))
    assert sorted(rows["label"]) == ["tp4 (name a1)", "tp4 (name a2)"]
    assert rows["output_tokens_per_s"].is_null().all()
    section = fill(comparison.PANEL, rows, twins.facts())
    assert section.figures == []
    assert comparison.COLUMNS[5].heading in section.unknown_columns
    assert section.verdict == []


def test_charts_and_the_verdict_of_the_comparison(store: Store, facts_over_runs: Any) -> None:
    section = fill(comparison.PANEL, rows_of(store, comparison.PANEL), facts_over_runs)
    assert_valid(section)
    titles = [figure.title.partition(",")[0] for figure in section.figures]
    assert titles == ["Rate against TTFT: qwen", "Rate by batch: qwen"]  # no TPOT is known
    ttft, batches = (figure.spec for figure in section.figures)
    assert {(r["label"], r["batch_size"], r["chip_tokens_per_s"]) for r in data(batches)} == {
        ("tp4", 4, 22.5),
        ("pp4 m2", 4, 12.5),
        ("tp4", 8, 37.5),
    }
    # The line of the best: 12 ms with 22.5, 16 ms with 37.5; 20 ms with 12.5 is beaten by both.
    assert [(r["latency"], r["chip_tokens_per_s"]) for r in data(ttft)] == [
        (pytest.approx(12), 22.5),
        (pytest.approx(16), 37.5),
    ]
    marks = sorted((r["label"], r["batch"], r["latency"]) for r in data(ttft, 1))
    assert marks == [
        ("pp4 m2", "4", pytest.approx(20)),
        ("tp4", "4", pytest.approx(12)),
        ("tp4", "8", pytest.approx(16)),
    ]
    assert {r["name"] for r in data(ttft, 2)} == {
        "tp4, batch 4",
        "tp4, batch 8",
        "pp4 m2, batch 4",
    }
    assert layers(ttft)[1]["encoding"]["x"]["title"] == "TTFT (ms)"
    [said] = [text.replace("\u00a0", " ") for text in section.verdict]
    assert said == (
        "qwen, 16 + 8 tokens, bf16, TPU v6 Lite: tp4 at batch 8 gives the most output tokens/s per chip, "
        "37.5 (TTFT 16.0 ms). Inconclusive: a setup has one run, so its spread over runs is not known. tp4 "
        "at batch 4 has the least TTFT, 12.0 ms, with 60.0 % of that rate; 2 of 3 setups are on the dashed "
        "line."
    )
    [verdict] = [note for note in section.notes if "most output tokens/s" in note]
    assert "tp4 gives the most output tokens/s per chip, 22.5; next is pp4 m2 with 12.5" in verdict
    assert "Inconclusive: a setup has one run" in verdict


def test_setups_of_unknown_models_are_not_ranked_against_each_other() -> None:
    runs = [
        run("a1", "tp4", model=None, setup="one"),
        run("a2", "tp4", model=None, setup="one"),
        run("b1", "pp4", model=None, setup=None),
        run("p1", "pp4", model=None, setup="other", source="predicted", parent_run_id="b1"),
    ]
    rates = [
        {"run_id": row["run_id"], "output_tokens_per_s": 10.0 * place, "ttft_s": 0.01}
        for place, row in enumerate(runs, 1)
    ]
    store = Store({"runs": runs, "run_summary_v2": rates})
    rows = rows_of(store, comparison.PANEL, ("a1", "a2", "b1", "p1"))
    rest = ", batch 4, 16 + 8 tokens, bf16, TPU v6 Lite of name"
    # Repeats are one workload, and a prediction is of the workload of the run that it replays.
    assert sorted(rows.select("subject", "label", "runs").rows()) == [
        (f"unknown model{rest} a1", "tp4", 2),
        (f"unknown model{rest} b1", "pp4", 1),
        (f"unknown model{rest} b1", "pp4, predicted", 1),
    ]
    section = fill(comparison.PANEL, rows, store.facts())
    assert section.verdict == []
    assert any(note.startswith("Runs whose model is not known are not") for note in section.notes)


def test_what_was_predicted_is_a_setup_of_its_own_and_a_hollow_mark(facts_over_runs: Any) -> None:
    runs = [*RUNS, run("p1", "tp4", source="predicted"), run("q1", "pp4", source="compiled")]
    speeds = SPEEDS | {"p1": (0.002, 999.0), "q1": (0.004, 500.0)}
    rates = [
        {
            "run_id": name,
            "ttft_s": ttft,
            "output_tokens_per_s": rate,
            "output_tokens_per_s_per_chip": rate / 4,
        }
        for name, (ttft, rate) in speeds.items()
    ]
    predicted = Store({"runs": runs, "run_summary_v2": rates})
    ids = tuple(row["run_id"] for row in runs)
    rows = rows_of(predicted, comparison.PANEL, ids)
    assert set(rows.select("label", "evidence", "runs").rows()) == {
        ("tp4", "measured", 2),
        ("tp4", "measured", 1),
        ("pp4 m2", "measured", 1),
        ("tp4, predicted", "predicted", 1),
        ("pp4, compiled", "compiled", 1),
    }
    section = fill(comparison.PANEL, rows, facts_over_runs)
    assert_valid(section)
    ttft = section.figures[0].spec
    _, filled, hollow, _ = layers(ttft)
    assert (filled["mark"]["filled"], hollow["mark"]["filled"]) == (True, False)
    assert {r["label"] for r in data(ttft, 2)} == {"tp4, predicted", "pp4, compiled"}
    # A prediction neither hides a measurement nor wins against one.
    assert [r["latency"] for r in data(ttft)] == [pytest.approx(12), pytest.approx(16)]
    assert "tp4 at batch 8 gives the most" in section.verdict[0]
    batches = section.figures[1].spec
    assert all(r["evidence"] == "measured" for r in data(batches))


def test_a_forecast_is_a_hollow_box_from_best_to_worst(facts_over_runs: Any) -> None:
    """TTFT 2 to 4 ms, TPOT 1 to 3 ms, 8 tokens: e2e is 9 to 25 ms, of 4 sequences on 4 devices of 2 chips."""
    kind = {"source": "compiled", "device_kind": "TPU v6 lite"}
    runs = [*RUNS, run("q1", "pp4", **kind), run("q2", "tp4", **kind)]
    steps = {"ttft": (2, 4), "tpot": (1, 3)}
    made = [
        {"run_id": "q1", "metric": metric, "change": change}
        | {"optimistic_ps": best * MS // (2 if change else 1), "pessimistic_ps": worst * MS}
        for metric, (best, worst) in steps.items()
        for change in (None, "ici=2x")
    ]
    # Without a prefill, the rate of q2 is not known.
    made.append({"run_id": "q2", "metric": "tpot", "optimistic_ps": MS, "pessimistic_ps": MS})
    peaks = [
        {"run_id": name, "device_id": device, "devices_per_chip": 2}
        for name in ("q1", "q2")
        for device in range(4)
    ]
    rates = [*(summary(row["run_id"]) for row in RUNS), {"run_id": "q1"}, {"run_id": "q2"}]
    tables: Tables = {"runs": runs, "run_summary_v2": rates, "forecast": made}
    store = Store({**tables, "hardware_peaks_v1": peaks})
    rows = rows_of(store, comparison.PANEL, tuple(row["run_id"] for row in runs))
    section = fill(comparison.PANEL, rows, facts_over_runs)
    assert_valid(section)
    (figure,) = [each for each in section.figures if each.title.startswith("Rate against TTFT")]
    (box,) = [each for each in layers(figure.spec) if each["mark"]["type"] == "rect"]
    assert box["mark"]["filled"] is False
    (row,) = data(figure.spec, 2)
    assert (row["latency"], row["until"]) == (2, 4)
    assert (row["most_rate"], row["least_rate"]) == (
        pytest.approx(4 * 8 / 2 / 0.009),
        pytest.approx(4 * 8 / 2 / 0.025),
    )
    assert "A box: a forecast, from best to worst, without the host." in figure.note
    # TPOT alone makes no box, and a forecast no point.
    assert not any(each.title.startswith("Rate against TPOT") for each in section.figures)
    shown = {row[0].text: row for row in section.cells}
    at = [each.text for each in section.headings].index("TPOT at best")
    assert {shown[label][at].text for label in ("pp4, compiled", "tp4, compiled")} == {"1.00\xa0ms"}


@pytest.mark.parametrize(("least", "told"), [(40.0, "overlap."), (60.0, "do not overlap.")])
def test_repeated_setups_are_judged_by_their_ranges(least: float, told: str) -> None:
    first = {"label": "tp4", "chip_tokens_per_s": 80.0, "per": "chip", "runs": 2}
    second = {"label": "pp4", "chip_tokens_per_s": 50.0, "per": "chip", "runs": 3}
    first["min_chip_tokens_per_s"], second["max_chip_tokens_per_s"] = least, 55.0
    assert comparison._leader("s", first, second).endswith(told)


def test_why_a_step_takes_its_time(store: Store, facts_over_runs: Any) -> None:
    rows = rows_of(store, comparison_why.TIME)
    # tp4: (40 + 56) ms of 8 device steps; warm-up is not a phase of the model's.
    assert rows.select("label", "phase", "steps", "step_ps").rows() == [
        ("tp4", "prefill", 8, 12 * MS),
        ("pp4 m2", "prefill", 4, 20 * MS),
        ("tp4", "decode", 8, 1 * MS),
    ]
    section = fill(comparison_why.TIME, rows, facts_over_runs)
    assert_valid(section)
    prefill = section.figures[0].spec
    assert [(r["shown"], r["share"], r["amount"]) for r in data(prefill)] == [
        ("tp4", "compute", 6.0),
        ("pp4 m2", "compute", 6.0),
        ("tp4", "exposed communication", 4.0),
        ("tp4", "idle", 2.0),
        ("pp4 m2", "idle", 14.0),
    ]


def test_what_a_step_sends(store: Store, facts_over_runs: Any) -> None:
    rows = rows_of(store, comparison_why.WIRE)
    # tp4: (1000 + 3000) bytes and 16 collectives in 8 device steps.
    wanted = rows.select("label", "axis", "step_bytes", "step_collectives").rows()
    assert wanted == [("pp4 m2", "none", None, 2), ("pp4 m2", "pp", 50, 2), ("tp4", "tp", 500, 2)]
    section = fill(comparison_why.WIRE, rows, facts_over_runs)
    assert_valid(section)
    assert section.notes[0] == "Not drawn: traffic of unknown size in pp4 m2."
    [figure] = section.figures
    assert [(r["shown"], r["amount"]) for r in data(figure.spec)] == [("pp4 m2", 50), ("tp4", 500)]


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
    section = fill(comparison.PANEL, rows_of(two_runs, comparison.PANEL, ids), two_runs.facts())
    assert "nothing about an accelerator" in section.verdict[0]


def test_words_that_all_workloads_share_are_said_once():
    families = ["m, 16 + 4 tokens, bf16", "m, 32 + 4 tokens, bf16"]
    assert shared_words(pl.DataFrame({"family": families})) == ("m", "bf16")
    assert shared_words(pl.DataFrame({"family": families[:1]})) == ("m", "16 + 4 tokens", "bf16")
    assert shared_words(pl.DataFrame({"family": pl.Series([], dtype=pl.String)})) == ()


def test_charts_have_the_setups_of_the_highest_rates():
    """Of 45 setups the five slowest have no bar; the bars keep the order of the rows."""
    rates = [float(number % 9 * 5 + number // 9) for number in range(45)]  # 0 to 44, out of order
    rows = pl.DataFrame(
        {
            "setup_key": [f"s{number}" for number in range(45)],
            "label": [f"tp{number}" for number in range(45)],
            "batch_size": [8] * 45,
            "family": ["f"] * 45,
            "chip_tokens_per_s": rates,
        }
    )
    drawn = best_setups(rows)
    assert drawn["label"].to_list() == [f"tp{n}" for n, rate in enumerate(rates) if rate >= 5]
    (note,) = left_out(rows)
    assert note.startswith("A chart has at most 40 setups, the ones with the most output tokens/s")


@pytest.mark.parametrize(
    ("several", "said"), [(True, "pp2 at batch 8 on 2 chips"), (False, "pp2 at batch 8")]
)
def test_setups_of_other_sizes_are_named_with_their_chips(several: bool, said: str) -> None:
    row = {"label": "pp2", "batch_size": 8, "chips": 2, "per": "chip"}
    assert comparison._setup(row, several).replace("\u00a0", " ") == said
