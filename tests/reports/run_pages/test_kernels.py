"""Ops by kernel: sums worked out by hand, kernels known by their names, uses of the peaks."""

from __future__ import annotations

import pytest

from tests.reports.example import Store
from tests.reports.sections import filled, rows_of
from tests.reports.vega_lite import assert_valid, data
from xlahouse.ingest.hlo.scopes import component_of_kernel
from xlahouse.reports.panels.efficiency import kernels

DEVICES = [
    {"run_id": "r", "device_id": device, "traced": True, "core": "tensorcore"} for device in (0, 1)
]
# Of a device: 2 FLOP and 4 bytes a picosecond.
PEAKS = [
    {"run_id": "r", "device_id": device, "peak_flops_per_s": 2e12, "peak_hbm_bytes_per_s": 4e12}
    for device in (0, 1)
]


def store_of(profile, ops=(), peaks=PEAKS):
    tables = {"runs": [{"run_id": "r"}], "devices": DEVICES, "hardware_peaks_v1": peaks}
    return Store(tables | {"op_profile_v1": list(profile), "ops": list(ops)})


def profiled(kernel, number, self_ps, calls=2, phase="decode", category="compute", **more):
    row = {"run_id": "r", "phase": phase, "program_id": 7, "op": f"{kernel}.{number}"}
    row |= {"kernel": kernel, "category": category, "executions": calls, "self_ps": self_ps}
    return row | {"duration_ps": self_ps} | more


def call(op, length, phase="decode", line="XLA Ops"):
    row = {"run_id": "r", "device_id": 0, "program_id": 7, "op": op, "phase": phase, "line": line}
    return row | {"start_ps": 0, "duration_ps": length, "category": "compute"}


PROFILE = [
    profiled("fusion", 1, 60, layer=0, component="mlp", flops=40.0, hbm_bytes=100.0),
    profiled("fusion", 2, 40, layer=1, component="mlp", flops=80.0, hbm_bytes=20.0, calls=3),
    profiled("fusion", 2, 900, phase="warmup"),
    profiled("copy", 3, 20, category="copy", flops=0.0, hbm_bytes=40.0),
    profiled("while", 4, 500, category="control"),
    profiled("RPA-bq_32", 5, 80, component="attention"),
]
CALLS = [
    call("fusion.1", 45),
    call("fusion.1", 15),
    call("fusion.2", 50, phase="warmup"),
    call("copy.3", 12),
    call("copy.3", 99, line="Async XLA Ops"),
]


def test_ops_of_a_kernel_are_one_row():
    rows = rows_of(store_of(PROFILE, CALLS), kernels.PANEL, "r")
    picked = rows.select("kernel", "category", "components", "layers", "calls", "self_ps")
    assert picked.rows() == [
        ("fusion", "compute", "mlp", 2, 5, 100),
        ("RPA-bq_32", "compute", "attention", None, 2, 80),
        ("copy", "copy", None, None, 2, 20),
    ]
    assert rows["ratio"].to_list() == [0.5, 0.4, 0.1]
    # Fusions: 100 ps in 5 calls, the longest outside warm-up 45; copies in flight are not calls.
    assert rows["mean_ps"].to_list() == [20, 40, 10]
    assert rows["max_ps"].to_list() == [45, None, 12]


def test_use_is_of_the_peak_in_self_time():
    rows = rows_of(store_of(PROFILE, CALLS), kernels.PANEL, "r")
    # 120 FLOP and 120 bytes in 100 ps, of 200 and 400; a copy has no FLOPs, and 40 bytes of 80.
    assert rows["flops_ratio"].to_list() == [0.6, None, None]
    assert rows["hbm_ratio"].to_list() == [0.3, None, 0.5]
    section = filled(store_of(PROFILE, CALLS), kernels.PANEL, "r")
    assert_valid(section)
    assert "with 40.0 % of the time" in section.notes[0].replace("\u00a0", " ")
    assert section.coverage.replace("\u00a0", " ").startswith(
        "3 kernels, 9 calls; component known for 90.0 % of the time"
    )


@pytest.mark.parametrize("name", ["peak_flops_per_s", "peak_hbm_bytes_per_s"])
def test_devices_of_different_peaks_have_no_use(name):
    peaks = [PEAKS[0], PEAKS[1] | {name: 1e12}]
    [row, *_] = rows_of(store_of(PROFILE, CALLS, peaks), kernels.PANEL, "r").to_dicts()
    assert (row["flops_ratio"] is None) == (name == "peak_flops_per_s")
    assert (row["hbm_ratio"] is None) == (name == "peak_hbm_bytes_per_s")


@pytest.mark.parametrize(
    ("kernel", "known", "component"),
    [
        ("RPA-bq_32-bkvp_32-p_128-", "ragged paged attention", "attention"),
        ("ragged_paged_attention_kernel", "ragged paged attention", "attention"),
        ("paged_attention_v2", "paged attention", "attention"),
        ("flash_attention", "flash attention", "attention"),
        ("void flash_fwd_splash<64>", "flash attention", "attention"),
        ("quantized_matmul_kernel", "quantized matmul", "attention or mlp"),
        ("gmm", "grouped matmul", "moe"),
        ("tgmm_kernel", "grouped matmul", "moe"),
        ("grouped_matmul", "grouped matmul", "moe"),
        ("fusion", None, None),
        ("sharpa", None, None),
        ("segmm", None, None),
    ],
)
def test_kernels_are_known_by_their_names(kernel, known, component):
    [row] = rows_of(store_of([profiled(kernel, 1, 10)]), kernels.PANEL, "r").to_dicts()
    assert row["known"] == known
    # What ingest makes of the name; a quantized matmul may be part of either.
    assert (row["components"] or component_of_kernel(kernel)) == component


def test_a_scope_is_surer_than_a_name():
    store = store_of([profiled("quantized_matmul_kernel", 1, 10, component="mlp")])
    [row] = rows_of(store, kernels.PANEL, "r").to_dicts()
    assert row["components"] == "mlp"


def test_bars_have_their_kernel_above_them():
    figure = filled(store_of(PROFILE, CALLS), kernels.PANEL, "r").figures[0]
    assert [(row["name"], row["amount"]) for row in data(figure.spec)] == [
        ("1. fusion", 100),
        ("2. ragged paged attention: RPA-bq_32", 80),
        ("3. copy", 20),
    ]
