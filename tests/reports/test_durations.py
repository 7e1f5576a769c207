"""Duration against size: the median device and the slowest one, and what a log axis has no place for."""

from __future__ import annotations

import pytest

from tests.reports.example import MIB, US, Store
from tests.reports.sections import filled, rows_of
from tests.reports.vega_lite import assert_valid, data, layers
from xlahouse.reports.panels.communication import durations

RUN = "b" * 12


def test_sizes_and_times_are_those_of_the_trace(two_runs):
    rows = rows_of(two_runs, durations.PANEL, RUN)
    picked = rows.select("phase", "kind", "size_bytes", "devices", "count", "p50_ps", "p99_ps")
    # All-reduces last 10 us, all-gathers 40; 4 devices x 3 prefills of 16 MiB, x 9 decode steps of 1 MiB.
    assert picked.rows() == [
        ("prefill", "all-gather", 16 * MIB, 4, 12, 40 * US, 40 * US),
        ("prefill", "all-reduce", 16 * MIB, 4, 12, 10 * US, 10 * US),
        ("decode", "all-gather", MIB, 4, 36, 40 * US, 40 * US),
        ("decode", "all-reduce", MIB, 4, 36, 10 * US, 10 * US),
    ]


def test_each_phase_has_a_chart(two_runs):
    section = filled(two_runs, durations.PANEL, RUN)
    assert_valid(section)
    prefill, decode = section.figures
    points = {(row["kind"], row["size_bytes"]): row["p50_s"] for row in data(decode.spec)}
    assert points == {
        ("all-gather", MIB): pytest.approx(40e-6),
        ("all-reduce", MIB): pytest.approx(10e-6),
    }
    assert prefill.title == "Prefill: time in flight against payload"
    assert section.coverage.startswith("96 of 96 collectives in the trace.")


def size(device, size_bytes, p50, p99, count=10, per_step=2.0):
    times = {"p50_ps": p50 * US, "p95_ps": p99 * US, "p99_ps": p99 * US}
    key = {"run_id": "r", "device_id": device, "axis": "tp", "kind": "all-reduce"}
    counts = {"count": count, "collectives_per_step": per_step}
    return {**key, **times, **counts, "phase": "decode", "size_bucket_bytes": size_bytes}


@pytest.fixture(scope="module")
def store():
    views = [size(0, 1024, 3, 9), size(1, 1024, 5, 80), size(2, 1024, 4, 7, per_step=5.0)]
    odd = [size(0, 0, 3, 3, count=2), size(0, None, 3, 3, count=1)]
    devices = [{"run_id": "r", "device_id": d, "traced": True} for d in range(3)]
    runs = [{"run_id": "r"}]
    return Store({"runs": runs, "devices": devices, "collective_latency_summary_v2": views + odd})


def test_the_median_device_and_the_slowest(store):
    rows = rows_of(store, durations.PANEL, "r")
    picked = rows.select(
        "size_bytes", "devices", "count", "fastest_p50_ps", "p50_ps", "slowest_p50_ps"
    )
    assert picked.rows() == [
        (0, 1, 2, 3 * US, 3 * US, 3 * US),
        (1024, 3, 30, 3 * US, 4 * US, 5 * US),
        (None, 1, 1, 3 * US, 3 * US, 3 * US),
    ]
    assert (rows["p99_ps"][1], rows["collectives_per_step"][1]) == (80 * US, 3.0)


def test_what_has_no_place_on_a_log_axis_is_said(store):
    section = filled(store, durations.PANEL, "r")
    (figure,) = section.figures
    assert [row["size_bytes"] for row in data(figure.spec)] == [1024]
    assert section.notes[1:] == [
        "1 collective of unknown size: in the table only.",
        "2 collectives of 0 bytes or 0 time: in the table only.",
    ]
    # A kind has its shape whatever else is drawn.
    shape = layers(figure.spec)[1]["encoding"]["shape"]["scale"]
    assert (shape["domain"], shape["range"]) == (["all-reduce"], ["circle"])


def test_nothing_timed_says_why():
    nothing = Store({"runs": [{"run_id": "r"}]})
    assert "no device events" in filled(nothing, durations.PANEL, "r").empty
