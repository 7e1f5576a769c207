"""Bursts of an axis: sizes in powers of two, medians by hand, and why one axis has no chart."""

from __future__ import annotations

import pytest

from tests.reports.example import US, Store
from tests.reports.sections import filled, rows_of
from tests.reports.vega_lite import assert_valid, data, texts
from xlahouse.reports.panels.intervals import bursts


def burst(axis, size, length_us, transfers=1, scope="device", phase="decode"):
    return {
        "run_id": "r",
        "scope": scope,
        "device_id": 0,
        "axis": axis,
        "phase": phase,
        "start_ps": 7,
        "end_ps": 7 + length_us * US,
        "count": transfers,
        "bytes": size,
    }


def store_of(*rows):
    devices = [{"run_id": "r", "device_id": 0, "traced": True, "core": "tensorcore"}]
    runs = [{"run_id": "r"}]
    return Store({"runs": runs, "devices": devices, "traffic_burst_v2": list(rows)})


@pytest.fixture(scope="module")
def store():
    # 1,000 and 1,023 bytes are from 512 on, 1,024 is not.
    tp = [burst("tp", 1000, 2, 4), burst("tp", 1023, 8, 6), burst("tp", 1023, 4, 5)]
    odd = [burst("pp", None, 1), burst("pp", 0, 1), burst("tp", 64, 0)]
    swept = burst("tp", 1e9, 9, scope="run")
    return store_of(*tp, burst("tp", 1024, 16), burst("pp", 64, 3), *odd, swept)


def test_a_size_holds_a_power_of_two_up_to_the_next(store):
    rows = rows_of(store, bursts.PANEL, "r")
    picked = rows.select(
        "axis", "size_bytes", "bursts", "p50_transfers", "bytes", "p50_ps", "max_ps"
    )
    assert picked.rows() == [
        ("pp", 0, 1, 1, 0, US, US),
        ("pp", 64, 1, 1, 64, 3 * US, 3 * US),
        ("pp", None, 1, 1, None, US, US),
        ("tp", 64, 1, 1, 64, 0, 0),
        ("tp", 512, 3, 5, 3046, 4 * US, 8 * US),
        ("tp", 1024, 1, 1, 1024, 16 * US, 16 * US),
    ]


def test_a_circle_for_each_axis_and_size(store):
    section = filled(store, bursts.PANEL, "r")
    assert_valid(section)
    (figure,) = section.figures
    assert figure.title == "Decode: length of bursts against their bytes"
    drawn = [(row["axis"], row["size_bytes"], row["bursts"]) for row in data(figure.spec, 1)]
    assert drawn == [("pp", 64, 1), ("tp", 512, 3), ("tp", 1024, 1)]
    # The legend of areas holds the least, the middle and the most.
    assert {"1", "2", "3"} <= set(texts(figure.spec))
    assert section.coverage.startswith("8 bursts on traced devices.")
    assert section.notes == [
        "1 burst of unknown bytes: in the table only.",
        "2 bursts of 0 bytes or 0 length: in the table only.",
    ]


def test_one_axis_has_a_sentence_and_a_table_instead():
    section = filled(store_of(burst("tp", 64, 5)), bursts.PANEL, "r")
    assert (section.figures, len(section.cells)) == ([], 1)
    assert section.notes == [
        "Not drawn: all transfers are of one axis (tp), so each device has a single burst."
    ]


def test_nothing_sent_is_no_burst():
    assert "no collective that sends data" in filled(store_of(), bursts.PANEL, "r").empty
    nothing = Store({"runs": [{"run_id": "r"}]})
    assert "no device events" in filled(nothing, bursts.PANEL, "r").empty
