"""Rooflines, MFU and MBU: the ops' places worked out by hand, and why there is no roof."""

from __future__ import annotations

import pytest

from tests.reports.example import Store
from tests.reports.sections import filled, rows_of
from tests.reports.vega_lite import assert_valid, data
from xlahouse.reports.panels.efficiency import peak_use, roofline

DEVICE = {"run_id": "r", "device_id": 0, "traced": True, "core": "tensorcore", "kind": "TPU v5e"}
# v5e: 197 TFLOP/s and 810 GB/s meet at 243.2 FLOP/byte.
PEAKS = {"run_id": "r", "device_id": 0, "peak_flops_per_s": 1.97e14, "peak_hbm_bytes_per_s": 8.1e11}


def op(name, flops, hbm_bytes, observed_ps, **more):
    row = {"run_id": "r", "program_id": 7, "module": "m", "op": name, "category": "compute"}
    sizes = {"flops": flops, "hbm_bytes": hbm_bytes, "observed_ps": observed_ps, "executions": 1}
    return {**row, **sizes, "hbm_source": "breakdown", **more}


def store_of(*ops, peaks=PEAKS, **tables):
    given = {"runs": [{"run_id": "r"}], "devices": [DEVICE], "hardware_peaks_v1": [peaks]}
    return Store({**given, "roofline_v2": list(ops), **tables})


# METRICS' matmul: 17.59 TFLOP in 94.1 ms, predicted 89.3.
MATMUL = op("dot.1", 17.59e12, 17.59e9, 94_100_000_000, bound_by="math", efficiency_ratio=0.949)
ADD = op("add.2", 1e9, 4e9, 5_900_000_000, bound_by="hbm", efficiency_ratio=0.837)
KERNEL = op("kernel", None, 1e9, 100_000_000_000)


def test_an_ops_place_is_its_intensity_and_its_rate():
    store = store_of(ADD, MATMUL, KERNEL, {**MATMUL, "op": "all-reduce", "category": "collective"})
    rows = rows_of(store, roofline.PANEL, "r")
    picked = rows.select("op", "intensity", "flops_per_s", "bound_by", "ratio")
    assert picked.rows() == [
        ("dot.1", pytest.approx(1000), pytest.approx(17.59e12 / 0.0941), "FLOPs", 0.4705),
        ("add.2", 0.25, pytest.approx(1e9 / 0.0059), "HBM", 0.0295),
    ]
    section = filled(store, roofline.PANEL, "r")
    assert_valid(section)
    assert section.coverage.replace("\u00a0", " ").startswith(
        "2 of 3 compute ops with 50.0 % of their time."
    )
    roof, _ = section.figures
    # Half the least intensity, the ridge, twice the greatest.
    assert [(row["intensity"], row["rate"]) for row in data(roof.spec, 0)] == [
        (pytest.approx(0.125), pytest.approx(0.125 * 8.1e11)),
        (pytest.approx(243.21, rel=1e-4), pytest.approx(1.97e14)),
        (pytest.approx(2000), pytest.approx(1.97e14)),
    ]
    assert [row["op"] for row in data(roof.spec, 1)] == ["dot.1", "add.2"]
    for layer in roof.spec["layer"]:
        assert (
            layer["encoding"]["x"]["scale"]["type"]
            == layer["encoding"]["y"]["scale"]["type"]
            == "log"
        )
    assert "197 TFLOP/s and 810 GB/s, which meet at 243 FLOP/byte" in roof.note.replace(
        "\u00a0", " "
    )


def test_intensities_share_out_the_flops():
    section = filled(store_of(ADD, MATMUL), roofline.PANEL, "r")
    bins = data(section.figures[1].spec)
    # Four bins a power of ten: 0.25 is in 10^-0.75 to 10^-0.5; 1000 opens a bin.
    assert [(row["low"], row["high"], row["ops"]) for row in bins] == [
        (pytest.approx(10**-0.75), pytest.approx(10**-0.5), 1),
        (pytest.approx(1000), pytest.approx(10**3.25), 1),
    ]
    assert [row["ratio"] for row in bins] == pytest.approx([1 / 17591, 17590 / 17591])


@pytest.mark.parametrize(
    ("inferred", "why"),
    [(True, "No roofline: virtual devices"), (False, "No roofline: the peaks of the devices")],
)
def test_without_peaks_there_is_no_roof_but_intensities(inferred, why):
    unknown = {**PEAKS, "peak_flops_per_s": None, "peak_hbm_bytes_per_s": None}
    devices = [{**DEVICE, "inferred": inferred}]
    accessed = {**ADD, "hbm_source": "bytes_accessed", "bound_by": None}
    section = filled(store_of(accessed, peaks=unknown, devices=devices), roofline.PANEL, "r")
    assert [figure.title for figure in section.figures] == ["FLOPs by arithmetic intensity"]
    assert section.notes[0].startswith(why)
    assert section.notes[1].startswith("For ops without a breakdown by memory")
    assert roofline.COLUMNS[9].heading in section.unknown_columns


def test_ops_without_costs_say_why():
    section = filled(store_of(KERNEL), roofline.PANEL, "r")
    assert section.empty.startswith("No compute op of the trace has both FLOPs and bytes")
    virtual = store_of(KERNEL, devices=[{**DEVICE, "inferred": True}])
    assert filled(virtual, roofline.PANEL, "r").empty.startswith("Virtual devices have no peaks")


def use(phase, **values):
    return {"run_id": "r", "phase": phase, "device_steps": 8, "available_flops": 100.0, **values}


def test_uses_of_the_peaks_stand_by_phase():
    decode = {
        "model_flops": 4.0,
        "mfu_ratio": 0.04,
        "compiled_flops": 5.0,
        "flops_known_ratio": 0.9,
    }
    prefill = {"compiled_flops": 50.0, "hfu_ratio": 0.5, "flops_known_ratio": 1.0}
    prefill |= {"mfu_problem": "the cost of its attention is not known"}
    mfu = [use("decode", **decode), use("prefill", **prefill), use("warmup", **prefill)]
    mbu = {"run_id": "r", "phase": "decode", "tpot_count": 3, "tpot_s": 0.5, "mbu_ratio": 0.3}
    mbu |= {"weight_bytes": 100.0, "kv_bytes": 20.0, "peak_hbm_bytes_per_s": 800.0}
    store = store_of(mfu_v2=mfu, mbu_v2=[mbu])
    rows = rows_of(store, peak_use.PANEL, "r")
    columns = ("phase", "metric", "ratio", "n", "flops", "peak_flops", "bytes", "peak_bytes")
    assert rows.select(columns).rows() == [
        ("prefill", "MFU", None, 8, None, 100, None, None),
        ("prefill", "HFU", 0.5, 8, 50, 100, None, None),
        ("decode", "MFU", 0.04, 8, 4, 100, None, None),
        ("decode", "HFU", None, 8, 5, 100, None, None),
        ("decode", "MBU", 0.3, 3, None, None, 120, 400),
    ]
    section = filled(store, peak_use.PANEL, "r")
    assert_valid(section)
    (figure,) = section.figures
    assert [row["ratio"] for row in data(figure.spec)] == [0.5, 0.04, 0.3]
    notes = [note.replace("\u00a0", " ") for note in section.notes]
    assert notes[:2] == [
        "MFU is not known (prefill): the cost of its attention is not known.",
        "HFU is not known (decode): ops of unknown FLOPs, such as custom calls, take more than "
        "5 % of the busy time (FLOPs known for 90.0 %).",
    ]
    assert section.coverage.startswith("3 of 5 values known.")


def test_virtual_devices_use_no_peaks():
    devices = [{**DEVICE, "inferred": True}]
    section = filled(store_of(mfu_v2=[use("decode")], devices=devices), peak_use.PANEL, "r")
    assert section.figures == []
    assert section.notes == [
        "MFU and MBU are not known: virtual devices have no peaks to compare with."
    ]
