"""Where device time and bytes go: layers, programs, ops, layouts; and tokens a second."""

from __future__ import annotations

import pytest

from tests.reports.example import Store
from tests.reports.sections import filled, rows_of
from tests.reports.vega_lite import assert_valid, data, texts
from xlahouse.reports.charts.palette import CATEGORY_COLOURS, COMPONENT_COLOURS
from xlahouse.reports.panels.efficiency import layers, op_time, padding, tokens

TP4 = "a" * 12
DEVICE = {"run_id": "r", "device_id": 0, "traced": True, "core": "tensorcore"}


def store_of(**tables):
    return Store({"runs": [{"run_id": "r"}], "devices": [DEVICE], **tables})


def part(layer, component, category, ps, phase="decode"):
    key = {"run_id": "r", "phase": phase, "layer": layer, "component": component}
    return {**key, "category": category, "executions": 2, "self_ps": ps}


def test_layers_stack_their_components():
    store = store_of(
        layer_breakdown_v1=[
            part(0, "attention", "compute", 30),
            part(0, "attention", "collective", 10),
            part(1, "mlp", "compute", 40),
            part(None, None, "copy", 20),
            part(None, None, "control", 500),
            part(None, None, "wait", 500),
            part(0, "mlp", "compute", 900, "warmup"),
        ]
    )
    rows = rows_of(store, layers.PANEL, "r")
    picked = rows.select("layer", "component", "executions", "self_ps", "collective_ps", "ratio")
    assert picked.rows() == [
        (0, "attention", 4, 40, 10, 0.4),
        (1, "mlp", 2, 40, 0, 0.4),
        (None, "no component", 2, 20, 0, 0.2),
    ]
    section = filled(store, layers.PANEL, "r")
    assert_valid(section)
    whole, by_layer = section.figures
    assert {row["component"]: row["ratio"] for row in data(whole.spec)} == {
        "attention": 0.4,
        "mlp": 0.4,
        "no component": 0.2,
    }
    assert {row["name"]: row["amount"] for row in data(by_layer.spec)} == {
        "0": 40,
        "1": 40,
    }
    assert by_layer.note.replace("\u00a0", " ").startswith(
        "20.0 % of the phase's time is in no layer"
    )
    scale = whole.spec["encoding"]["color"]["scale"]
    assert scale["range"] == [
        COMPONENT_COLOURS[name] for name in ("attention", "mlp", "no component")
    ]
    assert section.coverage.replace("\u00a0", " ").startswith("80.0 % of the ops' time has a layer")


def test_ops_without_scopes_have_no_layers():
    section = filled(
        store_of(layer_breakdown_v1=[part(None, None, "compute", 5)]), layers.PANEL, "r"
    )
    assert section.figures == []
    assert section.notes[0].startswith("Not drawn: no op names its module")


def profile(op, ps, category="compute", program=7, phase="decode", **more):
    key = {
        "run_id": "r",
        "phase": phase,
        "program_id": program,
        "module": f"jit_{program}",
        "op": op,
    }
    return {**key, "category": category, "executions": 3, "self_ps": ps, **more}


def test_ops_are_added_up_over_phases_and_sorted():
    store = store_of(
        op_profile_v1=[
            profile("dot.1", 20, flops=2.0),
            profile("dot.1", 30, phase="prefill", flops=5.0),
            profile("dot.1", 10, program=8),
            profile("copy.2", 40, "copy", layer=3),
            profile("dot.1", 999, phase="warmup"),
        ]
    )
    rows = rows_of(store, op_time.OPS, "r")
    assert rows.select("op", "module", "executions", "self_ps", "flops", "ratio").rows() == [
        ("dot.1", "jit_7", 6, 50, 7, 0.5),
        ("copy.2", "jit_7", 3, 40, None, 0.4),
        ("dot.1", "jit_8", 3, 10, None, 0.1),
    ]
    section = filled(store, op_time.OPS, "r")
    assert_valid(section)
    (figure,) = section.figures
    assert [(row["name"], row["amount"]) for row in data(figure.spec)] == [
        ("dot.1, jit_7", 50),
        ("copy.2", 40),
        ("dot.1, jit_8", 10),
    ]
    assert {"dot.1, jit_7", "copy.2", "dot.1, jit_8"} <= set(texts(figure.spec))
    assert section.coverage.replace("\u00a0", " ").startswith("3 of 3 ops with 100 % of the time.")


def program(module, number, phase, **times):
    row = {"run_id": "r", "module": module, "program_id": number, "phase": phase}
    zero = dict.fromkeys(op_time.CATEGORY_NAMES, 0)
    return {**row, **zero, "launches": 2, "devices": 1, **times}


def test_transfers_of_nccl_are_one_program():
    """Each transfer of a trace of PyTorch's profiler is a program without a launch."""
    store = store_of(
        module_breakdown_v1=[
            program("ProfilerStep", None, "step", compute_ps=10),
            program("nccl", 1, "step", collective_ps=20, launches=0),
            program("nccl", 2, "step", collective_ps=30, launches=0),
        ]
    )
    rows = rows_of(store, op_time.MODULES, "r")
    assert rows.select("module", "launches", "self_ps").rows() == [
        ("nccl", 0, 50),
        ("ProfilerStep", 2, 10),
    ]
    coverage = filled(store, op_time.MODULES, "r").coverage.replace("\u00a0", " ")
    assert coverage == "1 program, 2 launches outside warm-up."


def test_programs_stack_what_their_ops_do():
    store = store_of(
        module_breakdown_v1=[
            program("decode_fn", 1, "decode", compute_ps=30, wait_ps=5),
            program("prefill_fn", 2, "prefill", compute_ps=50, collective_ps=50),
            program(None, None, "decode", copy_ps=7, launches=0),
            program("tiny", 3, "warmup", compute_ps=1000),
        ]
    )
    rows = rows_of(store, op_time.MODULES, "r")
    assert rows.select("phase", "module", "launches", "self_ps").rows() == [
        ("prefill", "prefill_fn", 2, 100),
        ("decode", "decode_fn", 2, 35),
        ("decode", "outside every launch", 0, 7),
    ]
    section = filled(store, op_time.MODULES, "r")
    assert_valid(section)
    (figure,) = section.figures
    assert [(row["name"], row["part"], row["amount"]) for row in data(figure.spec)] == [
        ("prefill_fn, prefill", "compute", 50),
        ("prefill_fn, prefill", "collective", 50),
        ("decode_fn, decode", "compute", 30),
        ("decode_fn, decode", "wait", 5),
        ("outside every launch, decode", "copy", 7),
    ]
    scale = figure.spec["layer"][0]["encoding"]["color"]["scale"]
    assert dict(zip(scale["domain"], scale["range"], strict=True)) == {
        name: CATEGORY_COLOURS[name] for name in ("compute", "collective", "copy", "wait")
    }
    assert section.coverage.startswith("2 programs, 4 launches outside warm-up.")


def result(op, shape, logical, padded, **more):
    row = {
        "run_id": "r",
        "program_id": 7,
        "op": op,
        "opcode": "fusion",
        "dtype": "bf16",
        "shape": shape,
    }
    waste = None if padded is None else padded - logical
    return {**row, "logical_bytes": logical, "padded_bytes": padded, "waste_bytes": waste, **more}


def test_padding_is_added_up_over_equal_shapes_that_ran():
    ran = [
        {"run_id": "r", "device_id": 0, "program_id": 7, "op": f"f.{k}"} for k in (1, 2, 2, 3, 4)
    ]
    store = store_of(
        ops=ran,
        layout_v1=[
            result("f.1", "bf16[4,100]{1,0:T(8,128)}", 800, 2048),
            result("f.2", "bf16[4,100]{1,0:T(8,128)}", 800, 2048),
            result("f.3", "bf16[8,128]{1,0:T(8,128)}", 2048, 2048),
            result("f.4", "bf16[?]", None, None),
            result("f.5", "bf16[1,1]{1,0:T(8,128)}", 2, 2048),  # never ran
        ],
    )
    rows = rows_of(store, padding.PANEL, "r")
    assert rows.select(
        "shape", "instructions", "logical_bytes", "padded_bytes", "waste_bytes"
    ).rows() == [
        ("bf16[4,100]{1,0:T(8,128)}", 2, 1600, 4096, 2496),
        ("bf16[8,128]{1,0:T(8,128)}", 1, 2048, 2048, 0),
        ("bf16[?]", 1, None, None, None),
    ]
    assert rows["padding_ratio"][0] == pytest.approx(2.56)
    section = filled(store, padding.PANEL, "r")
    assert_valid(section)
    (figure,) = section.figures
    assert [(row["part"], row["bytes"]) for row in data(figure.spec)] == [
        ("data", 1600),
        ("padding", 2496),
    ]
    assert section.coverage.startswith("Padding known for 3 of 4 executed instructions.")
    # 6144 bytes for 3648.
    assert (
        section.notes[0]
        .replace("\u00a0", " ")
        .startswith(
            "All executed instructions together: 6.14 kB for 3.65 kB of data, 1.68 times as much."
        )
    )


def test_layouts_without_padding_waste_nothing():
    ran = [{"run_id": "r", "device_id": 0, "program_id": 7, "op": "f.1"}]
    section = filled(
        store_of(ops=ran, layout_v1=[result("f.1", "f32[2]", 8, 8)]), padding.PANEL, "r"
    )
    assert section.figures == []
    assert section.notes == ["No executed instruction has a padded result: nothing is wasted."]


def test_tokens_a_second_are_those_of_the_batch(two_runs):
    # Batch 4; 4 tokens each in 705 us from marker to last op; a token every 200 us.
    rows = rows_of(two_runs, tokens.PANEL, TP4)
    assert (
        rows.select("output_tokens_per_s", "decode_tokens_per_s").rows()
        == [(pytest.approx(16 / 705e-6), pytest.approx(4 / 200e-6))] * 3
    )
    assert rows["output_tokens_per_s_per_device"][0] == pytest.approx(4 / 705e-6)
    section = filled(two_runs, tokens.PANEL, TP4)
    assert_valid(section)
    drawn = [(row["request"], row["over"]) for row in data(section.figures[0].spec)]
    assert sorted(drawn) == [
        (str(k), over) for k in range(3) for over in ("decode alone", "whole request")
    ]


def test_tokens_a_second_need_a_batch():
    latency = {"run_id": "r", "request": 0, "source": "marker", "ttft_s": 1.0, "tpot_s": 1.0}
    section = filled(store_of(latency_v3=[latency]), tokens.PANEL, "r")
    assert section.figures == []
    assert section.notes == ["Tokens per second are not known: no manifest states the batch size."]


def test_ops_of_equal_names_are_told_apart_by_program_phase_or_number():
    ops = [
        profile("dot.1", 50, program=1, module="step", phase="prefill"),
        profile("dot.1", 40, program=2, module="step"),
        profile("dot.1", 30, program=3, module="head"),
        profile("add.2", 20, program=4, module="step"),
        profile("add.2", 10, program=5, module="step"),
    ]
    section = filled(store_of(op_profile_v1=ops), op_time.OPS, "r")
    assert [row["name"] for row in data(section.figures[0].spec)] == [
        "dot.1, step, prefill",
        "dot.1, step, decode",
        "dot.1, head",
        "add.2, step, decode, 4",
        "add.2, step, decode, 5",
    ]
