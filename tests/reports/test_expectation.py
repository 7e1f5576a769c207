"""Expected against measured: ratios, unexpected traffic, and what cannot be compared, in words."""

from __future__ import annotations

import pytest

from tests.reports.example import Store
from tests.reports.sections import filled
from tests.reports.vega_lite import assert_valid, data, layers, texts
from xlahouse.reports.panels.communication import expectation


def row(axis, kind, expected, measured, phase="decode", problem=None, count=3):
    ratio = measured / expected if expected and measured is not None else None
    return {
        "run_id": "r",
        "phase": phase,
        "axis": axis,
        "kind": kind,
        "expected_count": None if problem else count,
        "measured_count": count,
        "expected_payload_bytes": expected,
        "measured_payload_bytes": measured,
        "ratio": ratio,
        "expected_problem": problem,
    }


def section_of(*rows):
    devices = [{"run_id": "r", "device_id": 0, "traced": True, "core": "tensorcore"}]
    tables = {"runs": [{"run_id": "r"}], "devices": devices, "expected_traffic_v1": list(rows)}
    return filled(Store(tables), expectation.PANEL, "r")


def plain(sentences):
    return [sentence.replace("\u00a0", " ") for sentence in sentences]


def test_what_is_as_expected_is_said_to_be():
    section = section_of(row("tp", "all-reduce", 4000, 4000))
    assert_valid(section)
    assert plain(section.notes) == [
        "All expected traffic was sent, to the byte.",
        "No unexpected traffic was sent.",
    ]
    assert section.coverage.startswith("3 of 3 measured collectives compared.")


def test_a_compiler_that_differs_is_a_finding():
    section = section_of(
        row("tp", "all-reduce", 4000, 4000, "prefill"),
        row("tp", "all-gather", 2000, 5000),
        row("tp", "reduce-scatter", 2000, 0, count=0),
        row("dp", "all-gather", 0, 7000, count=2),
    )
    assert_valid(section)
    against, surplus = section.figures
    assert [(bar["label"], bar["ratio"], bar["text"]) for bar in data(against.spec)] == [
        ("prefill, tp\nall-reduce", 1.0, "1.00"),
        ("decode, tp\nall-gather", 2.5, "2.50"),
        ("decode, tp\nreduce-scatter", 0.0, "0"),
    ]
    assert data(against.spec, 1) == [{"ratio": 1.0}]
    assert surplus.title == "Measured but not expected"
    assert [(bar["label"], bar["amount"]) for bar in data(surplus.spec)] == [
        ("decode, dp\nall-gather", 7.0)
    ]
    assert layers(surplus.spec)[0]["encoding"]["x"]["title"] == "Payload (kB)"
    assert plain(section.notes) == [
        "decode, tp, all-gather: 5.00 kB measured, 2.00 kB expected: 2.50 times as much.",
        "decode, tp, reduce-scatter: 0 B measured, 2.00 kB expected: none was sent.",
        "decode, dp, all-gather: 2 collectives, none expected.",
    ]


def test_labels_are_two_lines_and_the_ratio_stands_beside_its_bar():
    (figure,) = section_of(row("tp", "all-reduce", 4000, 5000)).figures
    shown = " ".join(texts(figure.spec))
    assert "1.25" in shown
    assert "decode, tp" in shown
    assert "\\n" not in shown


def test_what_cannot_be_compared_says_why():
    reason = "no mesh is known"
    whole = section_of(row("unclassified", "all-reduce", None, 5000, problem=reason))
    assert whole.figures == []
    remedy = "`xlahouse set mesh RUN MESH` states the mesh"
    assert whole.notes == [f"No expectation for any collective: {reason}; {remedy}."]
    assert whole.coverage.startswith("0 of 3 measured collectives compared.")
    part = section_of(
        row("tp", "all-reduce", 4000, 4000),
        row("mixed", "all-gather", None, 10, problem="the axis is not known"),
    )
    assert part.notes[-1] == (
        "No expectation for decode, mixed, all-gather: the axis is not known."
    )


def test_measured_bytes_that_are_not_known_are_named():
    section = section_of(
        row("ep", "ragged-all-to-all", 4000, None), row("tp", "all-reduce", 4000, 4000)
    )
    assert section.notes[-1] == "Measured bytes are not known for decode, ep, ragged-all-to-all."
    assert [bar["axis"] for bar in data(section.figures[0].spec)] == ["tp"]


@pytest.mark.parametrize(
    ("devices", "reason"),
    [
        ([], "no device events"),
        ([{"run_id": "r", "device_id": 0, "traced": True}], "Nothing was sent"),
    ],
)
def test_a_run_that_sends_nothing_says_so(devices, reason):
    store = Store({"runs": [{"run_id": "r"}], "devices": devices})
    assert reason in filled(store, expectation.PANEL, "r").empty
