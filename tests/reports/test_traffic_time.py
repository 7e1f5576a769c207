"""Traffic over time: bars stand on one another, end where their bins end, and hold the rate."""

from __future__ import annotations

import pytest

from tests.reports.example import MIB, US, Store
from tests.reports.sections import filled, rows_of
from tests.reports.vega_lite import assert_valid, data
from xlahouse.reports.panels.intervals import traffic_time

START = 1_000 * US


def part(axis, index, sent, width=2 * US):
    place = {"bin_index": index, "start_ps": START + index * width, "duration_ps": width}
    return {"run_id": "r", "axis": axis, "bytes": sent, **place}


def store_of(*rows):
    devices = [{"run_id": "r", "device_id": 0, "traced": True, "core": "tensorcore"}]
    runs = [{"run_id": "r"}]
    return Store({"runs": runs, "devices": devices, "traffic_timeline_v1": list(rows)})


@pytest.fixture(scope="module")
def store():
    tp = [part("tp", 0, 0.0), part("tp", 1, 6000.0), part("tp", 2, 2000.0)]
    return store_of(*tp, part("dp", 0, 0.0), part("dp", 1, 4000.0), part("dp", 2, None))


def test_time_starts_with_the_first_bin_even_if_it_is_empty(store):
    rows = rows_of(store, traffic_time.PANEL, "r")
    assert rows.select("axis", "since_ps", "bytes", "rate_bytes_per_s").rows() == [
        ("dp", 2 * US, 4000.0, pytest.approx(2e9)),
        ("tp", 2 * US, 6000.0, pytest.approx(3e9)),
        ("dp", 4 * US, None, None),
        ("tp", 4 * US, 2000.0, pytest.approx(1e9)),
    ]


def test_axes_stand_on_one_another(store):
    section = filled(store, traffic_time.PANEL, "r")
    assert_valid(section)
    (figure,) = section.figures
    bars = [
        tuple(row[k] for k in ("axis", "from", "to", "bottom", "top")) for row in data(figure.spec)
    ]
    # us and GB/s; tp is ahead of dp in the palette.
    assert bars == [
        ("tp", *map(pytest.approx, (2, 4, 0, 3))),
        ("dp", *map(pytest.approx, (2, 4, 3, 5))),
        ("tp", *map(pytest.approx, (4, 6, 0, 1))),
    ]
    encoding = figure.spec["encoding"]
    assert encoding["x"]["title"] == "Time since the run's first transfer (µs)"
    assert encoding["x"]["scale"]["domain"] == pytest.approx([0, 6])
    assert encoding["y"]["title"] == "Bytes sent per second, all devices (GB/s)"
    assert figure.note.startswith("A bar spans 2.00\u00a0µs.")


def test_what_is_unknown_is_left_out_and_said(store):
    section = filled(store, traffic_time.PANEL, "r")
    assert section.coverage.replace("\u00a0", " ").startswith("Draws 12.0 kB of wire bytes.")
    assert "1 bin of an axis left out: a transfer of unknown size is in flight." in section.notes
    blind = filled(store_of(part("tp", 0, None)), traffic_time.PANEL, "r")
    assert blind.figures == []


def test_zooming_leaves_the_wheel_to_the_page(store):
    (figure,) = filled(store, traffic_time.PANEL, "r").figures
    (zoom,) = figure.spec["params"]
    assert zoom["bind"] == "scales"
    assert zoom["select"] == {
        "type": "interval",
        "encodings": ["x"],
        "zoom": "wheel![event.ctrlKey || event.metaKey]",
    }


def test_bars_add_up_to_the_volume(two_runs):
    # dp2.tp2: 342 MiB on the wire; the run's bins of 5 us from its first transfer on.
    rows = rows_of(two_runs, traffic_time.PANEL, "b" * 12)
    assert rows["bytes"].sum() == pytest.approx(342 * MIB)
    assert rows["duration_ps"].unique().to_list() == [5 * US]
    first = rows.row(0, named=True)
    # In the first 5 of 10 us four devices send half of 16 MiB each.
    assert (first["since_ps"], first["bytes"]) == (0, pytest.approx(32 * MIB))


def test_nothing_sent_says_why():
    assert "no collective that sends data" in filled(store_of(), traffic_time.PANEL, "r").empty
    nothing = Store({"runs": [{"run_id": "r"}]})
    assert "no device events" in filled(nothing, traffic_time.PANEL, "r").empty
