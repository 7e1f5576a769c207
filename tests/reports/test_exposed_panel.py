"""The ranking of exposed collectives: the longest first, with shares that add up, and what has no owner."""

from __future__ import annotations

import pytest

from tests.reports.example import US, Store
from tests.reports.sections import filled, rows_of
from tests.reports.vega_lite import assert_valid, data
from xlahouse.reports.panels.communication import exposed


def part(kind, exposed_us, layer=None, op="x", **more):
    """A row of the view."""
    row = {"run_id": "r", "phase": "decode", "axis": "tp", "kind": kind, "layer": layer, "op": op}
    times = {
        "in_flight_ps": 40 * US,
        "exposed_ps": exposed_us * US,
        "exposed_ratio": exposed_us / 100,
    }
    return row | times | {"count": 2} | more


def store_of(*rows):
    devices = [{"run_id": "r", "device_id": 0, "traced": True, "core": "tensorcore"}]
    return Store(
        {"runs": [{"run_id": "r"}], "devices": devices, "exposed_collective_v1": list(rows)}
    )


@pytest.fixture(scope="module")
def store():
    return store_of(
        part("all-reduce", 5.0, layer=1, op="a"),
        part("all-reduce", 15.0, layer=1, op="b"),
        part("all-to-all", 30.0, layer=0, component="moe"),
        part("all-gather", 0.0),
        part(None, 10.0, axis=None, op=None, count=0),
    )


def test_the_longest_stands_first_and_ops_of_a_layer_add_up(store):
    rows = rows_of(store, exposed.PANEL, "r")
    picked = rows.select("kind", "layer", "ops", "count", "exposed_ps", "ratio").rows()
    assert picked == [
        ("all-to-all", 0, 1, 2, 30 * US, pytest.approx(0.3)),
        ("all-reduce", 1, 2, 4, 20 * US, pytest.approx(0.2)),
        (None, None, 0, 0, 10 * US, pytest.approx(0.1)),
        ("all-gather", None, 1, 2, 0, 0),
    ]


def test_bars_are_ranked_and_say_what_has_no_owner(store):
    section = filled(store, exposed.PANEL, "r")
    assert_valid(section)
    (figure,) = section.figures
    bars = {row["name"]: row["exposed_ps"] for row in data(figure.spec)}
    assert bars == {
        "tp, layer 0, moe, all-to-all": 30 * US,
        "tp, layer 1, all-reduce": 20 * US,
        "no pair": 10 * US,
    }
    assert section.notes[0].replace("\u00a0", " ") == (
        "Decode: 60.0 % of the steps' periods is exposed."
    )
    assert "start or done is missing" in section.notes[1]


def test_only_the_longest_are_drawn():
    store = store_of(*(part("all-reduce", 1.0 + layer, layer=layer) for layer in range(25)))
    (figure,) = filled(store, exposed.PANEL, "r").figures
    assert figure.note == "The longest 20 of 25."
    assert {row["exposed_ps"] for row in data(figure.spec)} == {n * US for n in range(6, 26)}


def test_a_period_that_is_not_known_has_no_share():
    section = filled(store_of(part("all-reduce", 5.0, exposed_ratio=None)), exposed.PANEL, "r")
    assert section.notes == []


def test_a_prefill_says_that_its_period_is_not_from_the_marker():
    section = filled(store_of(part("all-reduce", 5.0, phase="prefill")), exposed.PANEL, "r")
    assert section.notes[0].replace("\u00a0", " ") == (
        "Prefill: 5.00 % of the steps' periods is exposed; a period begins at the end of the device's "
        "previous step, not at the request's marker."
    )


def test_no_collective_in_a_step_says_why():
    assert (
        "no device events" in filled(Store({"runs": [{"run_id": "r"}]}), exposed.PANEL, "r").empty
    )
    assert filled(store_of(), exposed.PANEL, "r").empty.startswith("No step has a collective")
