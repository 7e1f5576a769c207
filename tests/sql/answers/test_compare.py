"""Runs side by side: medians over repeats, what differs, and the exit codes that CI relies on."""

from __future__ import annotations

import re

import pytest

from tests.command import run_command
from tests.warehouse import write_warehouse
from xlahouse.sql import Warehouse
from xlahouse.sql.answers.compare import MetricChange, RunComparison, compare_runs, judge
from xlahouse.sql.answers.device_times import device_times

S = 1_000_000_000_000


def row(metric, base, other, spread, runs, verdict):
    change = 100 * (other / base - 1)
    return MetricChange(metric, base, other, change, spread, runs, runs, verdict)


# Of 100: 110 is 10 % more.
@pytest.mark.parametrize(
    ("rows", "percent", "code", "why"),
    [
        ([row("tpot_s", 100, 110, 2, 3, "worse")], 5, 1, r"tpot_s \+10.00 %"),
        ([row("tpot_s", 100, 110, 2, 3, "worse")], 10.5, 0, "no regression above 10.5 %"),
        ([row("tpot_s", 100, 90, 2, 3, "better")], 5, 0, "no regression"),
        (
            [row("output_tokens_per_s", 100, 90, 2, 3, "worse")],
            5,
            1,
            "output_tokens_per_s -10.00 %",
        ),
        # One run shows no spread, whatever it gave.
        ([row("tpot_s", 100, 90, None, 1, "inconclusive")], 5, 3, "tpot_s: one run of a setup"),
        # Within a spread of 2 of 100 nothing above 5 % can hide; within one of 20 it can.
        ([row("tpot_s", 100, 101, 2, 3, "inconclusive")], 5, 0, "no regression"),
        ([row("tpot_s", 100, 110, 20, 3, "inconclusive")], 5, 3, "repeats spread by more than 5 %"),
        # A regression that is sure counts although another metric is not.
        (
            [
                row("ttft_s", 100, 120, 1, 3, "worse"),
                row("tpot_s", 100, 110, 20, 3, "inconclusive"),
            ],
            5,
            1,
            r"ttft_s \+20.00 %",
        ),
        # idle_ratio explains, and is not judged unless asked for.
        ([row("idle_ratio", 100, 200, 1, 3, "worse")], 5, 3, "share none of ttft_s"),
    ],
)
def test_codes(rows, percent, code, why):
    found, line = judge(RunComparison(rows, "", 0), percent)
    assert found == code
    assert re.search(why, line)


def test_bytes_need_no_repeats():
    worse = RunComparison([row("wire_bytes", 100, 120, None, 1, "worse")], "", 0)
    equal = RunComparison([row("wire_bytes", 100, 100, None, 1, "equal")], "", 0)
    assert judge(worse, 5, ["wire_bytes"])[0] == 1
    assert judge(equal, 5, ["wire_bytes"])[0] == 0


def test_other_metrics_can_be_judged():
    found = RunComparison([row("idle_ratio", 100, 200, 1, 3, "worse")], "", 0)
    assert judge(found, 5, ["idle_ratio"])[0] == 1


def requests(run_id, seconds):
    """Tables of a run with one request: the prefill ends after `seconds`, the decode as long again."""
    steps = [(0, "prefill", 0), (1, "decode", seconds * S)]
    return {
        "phases": [
            {"run_id": run_id, "host": "h", "phase": phase, "request": 0, "step": step}
            | {"start_ps": start, "duration_ps": seconds * S, "source": "marker"}
            for step, phase, start in steps
        ],
        "ops": [
            {"run_id": run_id, "device_id": 0, "op": "f", "category": "compute", "phase": phase}
            | {"request": 0, "step": step, "start_ps": start, "duration_ps": seconds * S}
            for step, phase, start in steps
        ],
        "devices": [{"run_id": run_id, "device_id": 0, "logical_id": 0, "world": 0, "host": "h"}],
    }


@pytest.fixture
def root(tmp_path):
    """Three repeats of a base (TTFT 10, 10, 11 s), three of a candidate (20, 20, 21), and a stranger."""
    facts = {"batch_size": 1, "output_tokens": 2, "parallelism": "tp2", "dtype": "float32"}
    tables: dict[str, list] = {"runs": []}
    for name, seconds, setup, more in (
        *((f"base{k}", s, "b", {}) for k, s in enumerate((10, 10, 11))),
        *((f"new{k}", s, "n", {"dtype": "bfloat16"}) for k, s in enumerate((20, 20, 21))),
        ("other", 10, "o", {"dtype": "bfloat16", "batch_size": 2}),
    ):
        tables["runs"].append({"run_id": name, "name": name, "setup": setup} | facts | more)
        for table, rows in requests(name, seconds).items():
            tables.setdefault(table, []).extend(rows)
    return write_warehouse(tmp_path / "w", tables)


def run(monkeypatch, root, *words):
    return run_command(monkeypatch, "compare", *words, "-w", root)


def test_a_regression_fails_in_ci(root, monkeypatch, capsys):
    assert run(monkeypatch, root, "base0", "new0", "--fail-over", "5") == 1
    out, err = capsys.readouterr()
    lines = {line.split()[0]: line.split() for line in out.splitlines()[2:] if line}
    # Medians of three: 10 and 20 s.
    assert lines["ttft_s"] == ["ttft_s", "10", "20", "100", "1", "3", "3", "worse"]
    assert "they differ in dtype" in err
    assert "worse by more than 5 %: ttft_s +100.00 %" in err
    assert run(monkeypatch, root, "base0", "new0", "--fail-over", "150") == 0
    assert run(monkeypatch, root, "new0", "base0", "--fail-over", "5") == 0
    assert run(monkeypatch, root, "base0", "new0") == 0


def test_one_run_is_inconclusive_and_several_differences_are_named(root, monkeypatch, capsys):
    assert run(monkeypatch, root, "base0", "other", "--fail-over", "5") == 3
    err = capsys.readouterr().err
    assert "the setups differ in 2 things: dtype, batch_size" in err
    assert "shows no spread; repeat it" in err


def test_repeats_of_one_setup_are_compared_by_their_own_values(root):
    """A request of 10 s a step and one of 11 s: 10 % more, of which no verdict can be reached."""
    with Warehouse(root) as warehouse:
        found = {row.metric: row for row in compare_runs(warehouse, "base0", "base2").rows}
    for metric, base, other in (("ttft_s", 10, 11), ("output_tokens_per_s", 2 / 20, 2 / 22)):
        row = found[metric]
        assert (row.base, row.other) == (pytest.approx(base), pytest.approx(other))
        assert (row.runs, row.other_runs, row.verdict) == (3, 3, "inconclusive")


def test_device_times_of_repeats_are_their_own(tmp_path):
    """Two repeats work 6 and 9 s of a decode step, whose median is 7.5; a run of another setup 4."""
    runs = [("a", "s", 6), ("b", "s", 9), ("c", "t", 4)]
    step = {"device_id": 0, "phase": "decode", "request": 0, "step": 1}
    op = step | {"op": "f", "category": "compute", "start_ps": 0}
    tables = {
        "runs": [{"run_id": run, "name": run, "setup": setup} for run, setup, _ in runs],
        "devices": [
            {"run_id": run, "device_id": 0, "logical_id": 0, "world": 0} for run, *_ in runs
        ],
        "ops": [
            {**op, "run_id": run, "duration_ps": seconds * S, "self_ps": seconds * S}
            for run, _, seconds in runs
        ],
        "busy_intervals": [
            {"run_id": run, "device_id": 0, "request": 0, "step": 1, "category": "compute"}
            | {"start_ps": 0, "duration_ps": seconds * S}
            for run, _, seconds in runs
        ],
    }
    with Warehouse(write_warehouse(tmp_path / "w", tables)) as warehouse:
        (repeats,) = device_times(warehouse, "a", "b")
        (setups,) = device_times(warehouse, "a", "c")
    assert (repeats.base, repeats.other, repeats.verdict) == (6, 9, "inconclusive")
    assert (setups.base, setups.other) == (7.5, 4)


def test_what_is_not_there_is_said(root, monkeypatch, capsys):
    assert run(monkeypatch, root, "base0", "x") == 1
    assert "no run 'x'" in capsys.readouterr().err
    assert run(monkeypatch, root, "base0", "new0", "--metric", "speed", "--fail-over", "1") == 2
    assert "no metric speed; the runs share" in capsys.readouterr().err
