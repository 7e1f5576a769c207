"""Bandwidth against payload: bus and algorithm bandwidth, and the peak of a link as a rule."""

from __future__ import annotations

import pytest

from tests.reports.example import MIB, Store
from tests.reports.sections import filled, rows_of
from tests.reports.vega_lite import assert_valid, data, layers
from xlahouse.reports.panels.communication import bandwidth


def test_algorithm_bandwidth_is_the_payload_over_the_transfer(two_runs):
    rows = rows_of(two_runs, bandwidth.PANEL, "b" * 12)
    picked = rows.select("kind", "payload_bytes", "p50_algbw_bytes_per_s")
    assert picked.rows() == [
        ("all-gather", MIB, pytest.approx(MIB / 40e-6)),
        ("all-gather", 16 * MIB, pytest.approx(16 * MIB / 40e-6)),
        ("all-reduce", MIB, pytest.approx(MIB / 10e-6)),
        ("all-reduce", 16 * MIB, pytest.approx(16 * MIB / 10e-6)),
    ]


def instance(number, busbw, share, bound=False):
    row = {"run_id": "r", "instance": number, "axis": "tp", "kind": "all-reduce", "group_size": 4}
    speeds = {"busbw_bytes_per_s": busbw, "algbw_bytes_per_s": busbw / 1.5}
    known = {"utilization_ratio": share, "payload_bytes": 3_000_000, "transfer_ps": 7}
    return {**row, **speeds, **known, "is_bound": bound, "ici_link_count": 8 if share else None}


def store_of(*rows):
    devices = [{"run_id": "r", "device_id": 0, "traced": True, "core": "tensorcore"}]
    runs = [{"run_id": "r"}]
    peaks = [{"run_id": "r", "device_id": 0, "peak_ici_bytes_per_s": 90e9}]
    tables = {"hardware_peaks_v1": peaks, "collective_bandwidth_v3": list(rows)}
    return Store({"runs": runs, "devices": devices, **tables})


def test_bus_bandwidth_stands_under_the_links_peak():
    # Of 30, 40, 50 and 60 GB/s the median is 45; a transfer that is only bounded is not a measurement.
    store = store_of(
        *(instance(k, (30 + 10 * k) * 1e9, 0.5) for k in range(4)), instance(4, 80e9, 80 / 90, True)
    )
    section = filled(store, bandwidth.PANEL, "r")
    assert_valid(section)
    bus, algorithm = section.figures
    assert [(row["p05"], row["p50"], row["p95"]) for row in data(bus.spec)] == [(30, 45, 60)]
    assert data(bus.spec, 2) == [{"peak": pytest.approx(90)}]
    assert bus.note.replace("\u00a0", " ").endswith(
        "Dashed: peak of one link in one direction, 90.0 GB/s."
    )
    assert [row["p50"] for row in data(algorithm.spec)] == [pytest.approx(30)]
    assert len(layers(algorithm.spec)) == 2
    assert layers(algorithm.spec)[1]["encoding"]["y"]["title"] == "Algorithm bandwidth (GB/s)"


def test_transfers_that_no_link_allows_are_told():
    rows = [{**instance(k, 45e9, None), "is_impossible": k < 2} for k in range(3)]
    notes = [
        note.replace("\u00a0", " ") for note in filled(store_of(*rows), bandwidth.PANEL, "r").notes
    ]
    assert notes[0].startswith("2 instances faster than all links of their chips together")


def test_without_a_peak_there_is_no_rule():
    section = filled(store_of(instance(0, 45e9, None)), bandwidth.PANEL, "r")
    assert len(layers(section.figures[0].spec)) == 2
    assert "Dashed" not in section.figures[0].note
    assert any("peak is not known" in note for note in section.notes)
