"""Steps of two runs taken apart: sums by kernel, layer and collective, worked out by hand."""

from __future__ import annotations

import json

import pytest

from tests.command import run_command
from tests.warehouse import write_warehouse
from xlahouse.ingest.hlo.scopes import layer_of
from xlahouse.sql.answers.device_times import device_times
from xlahouse.sql.answers.differences import OpChange, step_differences

NS = 1000  # picoseconds
EMPTY = dict.fromkeys(OpChange.__dataclass_fields__)


def op(kernel, base, other, rank=None, phase="decode", **more):
    row = EMPTY | {"phase": phase, "part": "op", "kernel": kernel, "category": "compute"}
    row |= {"step_ps": base * NS, "other_step_ps": other * NS, "total_ps": (other - base) * NS}
    return row | {"rank": rank, "margin_ps": 1.0} | more


# A step of 100 ns and one of 130 ns.
ROWS = [
    op("fusion", 20, 50, 1, scope="m/layers.1/mlp"),
    op("fusion", 20, 25, 3, scope="m/layers.0/mlp"),
    op("all-reduce", 10, 12, opcode="all-reduce-start", category="collective"),
    op("all-reduce", 10, 8, opcode="all-reduce-done", category="collective"),
    op("psum", 0, 10, 2, opcode="all-reduce", category="collective", scope="m/layers.1/attn"),
    op(None, 20, 15, part="idle", category=None),
    op(None, 20, 10, part="between", category=None),
    op("fusion", 5, 4, 1, phase="prefill"),
    op("fusion", 5, 4, 1, phase="warmup"),
]


class Source:
    """One answer to each query."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def query(self, sql, params=None):
        self.now = self.answers.pop(0)
        return self

    def dicts(self):
        return [dict(row) for row in self.now]


def test_every_grouping_adds_up_to_the_difference():
    decode, prefill = step_differences(Source(ROWS), "a", "b")
    assert (decode.phase, prefill.phase) == ("decode", "prefill")
    assert (decode.step_ps, decode.other_step_ps, decode.total_ps) == (100e3, 130e3, 30e3)
    for groups in (decode.ops, decode.kernels, decode.layers, decode.collectives):
        assert sum(group.total_ps for group in groups) == 30e3
        assert sum(group.step_ps for group in groups) == 100e3
    assert [(group.name, group.total_ps) for group in decode.kernels] == [
        ("fusion", 35e3), ("between", -10e3), ("psum", 10e3), ("idle", -5e3), ("all-reduce", 0),
    ]  # fmt: skip
    assert {group.name: group.total_ps for group in decode.layers} == {
        "layer 1": 40e3, "layer 0": 5e3, "no layer": 0, "idle": -5e3, "between": -10e3,
    }  # fmt: skip
    assert {group.name: group.total_ps for group in decode.collectives} == {
        "all-reduce": 10e3, "no collective": 35e3, "idle": -5e3, "between": -10e3,
    }  # fmt: skip


def test_the_sentence_names_the_largest_change():
    decode, prefill = step_differences(Source(ROWS), "a", "b")
    assert decode.sentence == (
        "A decode step takes 30 ns more (+30 %); the largest change is fusion: +35 ns "
        "in 2 ops, +30 ns of it in m/layers.1/mlp."
    )
    assert prefill.sentence == (
        "A prefill step takes 1 ns less (-20 %); the largest change is fusion: -1 ns."
    )


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        (
            [op("fusion", 10, 12, margin_ps=None), op("copy", 5, 5, margin_ps=None)],
            "A decode step takes 2 ns more (+13 %); the largest change is fusion: +2 ns. "
            "The spread over steps is not known: a run has one.",
        ),
        (  # fusion has another shape: 400 ns gone and 398 new are 2 less; psum takes 5 more
            [
                op("fusion", 400, 0, 1, shape="bf16[8]", scope="m"),
                op("fusion", 0, 398, 2, shape="bf16[4]", scope="m"),
                op("psum", 10, 15, 3),
            ],
            "A decode step takes 3 ns more (+1 %); the largest change is psum: +5 ns.",
        ),
        (  # no op makes half of 40 ns less
            [op("fusion", 400, 0, 1, scope="m"), op("fusion", 0, 360, 2, scope="m")],
            "A decode step takes 40 ns less (-10 %); the largest change is fusion: -40 ns in 2 ops.",
        ),
        (  # the margins of both, 3 ns, are more than 2 ns
            [
                op("fusion", 400, 0, 1, margin_ps=1500.0),
                op("fusion", 0, 402, 2, margin_ps=1500.0),
            ],
            "A decode step takes 2 ns more (under 1 %); "
            "no kernel differs in all by more than the spread over steps.",
        ),
        (
            [op("fusion", 10, 12)],
            "A decode step takes 2 ns more (+20 %); no single op differs by more than the spread over steps.",
        ),
        (
            [op("fusion", 1000, 996)],
            "A decode step takes 4 ns less (under 1 %); "
            "no single op differs by more than the spread over steps.",
        ),
        ([op("fusion", 10, 10)], "A decode step takes 10 ns in both runs."),
        (
            [op(None, 10, 30, 1, part="between", phase="step")],
            "A step takes 20 ns more (+200 %); the largest change is the time between steps: +20 ns.",
        ),
    ],
)
def test_other_sentences(rows, sentence):
    assert step_differences(Source(rows), "a", "b")[0].sentence == sentence


def test_what_is_not_known_is_not_taken_apart():
    rows = [op("fusion", 10, 12), op("copy", 1, 1) | {"step_ps": None, "total_ps": None}]
    [found] = step_differences(Source(rows), "a", "b")
    assert (found.step_ps, found.total_ps, found.kernels) == (None, None, ())
    assert "not known in full" in found.sentence


@pytest.mark.parametrize(
    "scope",
    [
        "m/layers.3/mlp",
        "jit(step)/model.layers_12.attn",
        "h.7/ln",
        "blocks[4]/x",
        "a/b.py:31",
        "layers",
    ],
)
def test_layers_are_those_of_ingest(scope):
    [found] = step_differences(Source([op("fusion", 1, 2, scope=scope)]), "a", "b")
    layer = layer_of(scope)
    assert found.layers[0].name == ("no layer" if layer is None else f"layer {layer}")


REPEATS = [
    {"run_id": run, "of_run_id": of}
    for of, runs in (("a0", ("a0", "a1", "a2")), ("b0", ("b0", "b1")))
    for run in runs
]


def times(**seconds):
    return [{"run_id": run, "phase": "decode", "device_s": value} for run, value in seconds.items()]


@pytest.mark.parametrize(
    ("seconds", "base", "other", "spread", "verdict"),
    [
        ({"a0": 1.0, "a1": 1.1, "a2": 1.4, "b0": 2.0, "b1": 2.2}, 1.1, 2.1, 0.4, "worse"),
        ({"a0": 2.0, "a1": 2.2, "a2": 2.1, "b0": 1.0, "b1": 1.1}, 2.1, 1.05, 0.2, "better"),
        ({"a0": 1.0, "a1": 1.1, "a2": 1.4, "b0": 1.2, "b1": 1.3}, 1.1, 1.25, 0.4, "inconclusive"),
        ({"a0": 1.0, "a1": 1.1, "b0": 2.0}, 1.05, 2.0, 0.1, "inconclusive"),
    ],
)
def test_device_times_are_medians_over_repeats(seconds, base, other, spread, verdict):
    [found] = device_times(Source(REPEATS, times(**seconds)), "a0", "b0")
    assert (found.metric, found.verdict) == ("decode_device_s", verdict)
    assert (found.base, found.other, found.spread) == pytest.approx((base, other, spread))


def test_repeats_of_one_setup_are_not_compared():
    both = [{"run_id": run, "of_run_id": of} for of in ("a", "b") for run in ("a", "b")]
    [found] = device_times(Source(both, times(a=1.0, b=2.0)), "a", "b")
    assert found.verdict == "inconclusive"


def test_a_phase_of_one_run_is_left_out():
    assert device_times(Source(REPEATS, times(a0=1.0)), "a0", "b0") == []


def run_of(run_id, setup, seconds):
    """A run of two steps of the device; each computes for `seconds` and is idle for 1 s."""
    spans = [
        {"run_id": run_id, "device_id": 0, "request": None, "step": step, "category": "compute"}
        | {"start_ps": (step * 100 + at) * 10**12, "duration_ps": length * 10**12}
        for step in (0, 1)
        for at, length in ((0, 1), (2, seconds - 1))
    ]
    more = {"phase": "step", "op": "f.1", "program_id": 1, "line": "XLA Ops"}
    return {
        "runs": [{"run_id": run_id, "name": run_id, "setup": setup, "batch_size": int(setup)}],
        "devices": [{"run_id": run_id, "device_id": 0, "traced": True, "core": "tensorcore"}],
        "ops": [span | more | {"attributed_ps": span["duration_ps"]} for span in spans],
        "busy_intervals": spans,
    }


@pytest.fixture
def root(tmp_path):
    tables: dict[str, list] = {}
    for run_id, setup, seconds in (("a0", "1", 5), ("a1", "1", 5), ("b0", "2", 9), ("b1", "2", 9)):
        for name, rows in run_of(run_id, setup, seconds).items():
            tables.setdefault(name, []).extend(rows)
    return write_warehouse(tmp_path / "w", tables)


def test_the_verb_fails_over_device_time_and_shows_the_ops(root, monkeypatch, capsys):
    words = ("compare", "a0", "b0", "-w", root, "--fail-over", "50")
    assert run_command(monkeypatch, *words) == 1
    out, err = capsys.readouterr()
    # 5 and 9 s of a window of 6 and 10 s.
    assert "worse by more than 50 %: step_device_s +80.00 %" in err
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line.strip()}
    assert lines["step_device_s"] == ["step_device_s", "5", "9", "80", "0", "2", "2", "worse"]
    # Periods of 6 and 100 s, and of 10 and 100 s: steps start 100 s apart.
    assert "A step takes 2 s more (+4 %)" in out


def test_the_verb_as_json(root, monkeypatch, capsys):
    words = ("compare", "a0", "b0", "-w", root, "--format", "json")
    assert run_command(monkeypatch, *words) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["run_id"], found["other_run_id"]) == ("a0", "b0")
    [step] = found["steps"]
    assert step["phase"] == "step"
    # Periods of 6 and 100 s, and of 10 and 100 s.
    assert step["total_ps"] == 2 * 10**12
    assert sum(kernel["total_ps"] for kernel in step["kernels"]) == 2 * 10**12
    assert {kernel["name"] for kernel in step["kernels"]} == {"f", "idle", "between"}
    assert run_command(monkeypatch, *words[:-1], "xml") == 2
