"""Gaps within an axis: exact percentiles, and curves whose corners are worked out by hand."""

from __future__ import annotations

import pytest

from tests.reports.example import US, Store
from tests.reports.sections import filled, rows_of
from tests.reports.vega_lite import assert_valid, data
from xlahouse.reports.charts.palette import AXIS_COLOURS
from xlahouse.reports.panels.intervals import gaps

RUN = "b" * 12
# Of the example: an all-reduce ends at 40 us of a step, the all-gather starts at 60 us and ends at 100;
# the next step's all-reduce starts at 230. So gaps of 20 us in a step and 130 us between steps.
SHORT, LONG = 20 * US, 130 * US


def test_gaps_count_to_the_phase_of_the_later_transfer(two_runs):
    rows = rows_of(two_runs, gaps.SUMMARY, RUN)
    picked = rows.select(
        "phase", "axis", "count", "overlapping_count", "min_ps", "p50_ps", "max_ps"
    )
    # A device: prefill 3 short, 2 long (the first has none before it); decode 9 of each.
    assert picked.rows() == [
        ("prefill", "tp", 20, 0, SHORT, SHORT, LONG),
        ("decode", "tp", 72, 0, SHORT, (SHORT + LONG) // 2, LONG),
    ]
    assert rows["mean_ps"].to_list() == [(12 * SHORT + 8 * LONG) / 20, (SHORT + LONG) / 2]


def test_bins_are_a_tenth_of_a_power_of_ten(two_runs):
    rows = rows_of(two_runs, gaps.SPREAD, RUN)
    picked = rows.select("phase", "count", "up_to", "total", "share").rows()
    assert picked == [
        ("prefill", 12, 12, 20, 0.6),
        ("prefill", 8, 20, 20, 1.0),
        ("decode", 36, 36, 72, 0.5),
        ("decode", 36, 72, 72, 1.0),
    ]
    # 2e7 = 10^7.30, 1.3e8 = 10^8.11.
    assert rows["low_ps"].to_list() == pytest.approx([10**7.3, 10**8.1] * 2)
    assert rows["high_ps"].to_list() == pytest.approx([10**7.4, 10**8.2] * 2)


def test_a_curve_is_flat_where_no_gap_is(two_runs):
    section = filled(two_runs, gaps.SPREAD, RUN)
    assert_valid(section)
    prefill, decode = section.figures
    assert prefill.title == "Prefill: gaps between an axis's transfers"
    corners = [(row["at_s"], row["share"], row["series"]) for row in data(prefill.spec)]
    name = "tp (20 gaps)"
    assert corners == [
        (pytest.approx(10**-4.7), 0, name),
        (pytest.approx(10**-4.6), 0.6, name),
        (pytest.approx(10**-3.9), 0.6, name),
        (pytest.approx(10**-3.8), 1, name),
    ]
    colour = decode.spec["layer"][0]["encoding"]["color"]["scale"]
    assert (colour["domain"], colour["range"]) == (["tp (72 gaps)"], [AXIS_COLOURS["tp"]])
    assert section.coverage.startswith(
        "92 gaps between 96 collectives: the first transfer of an axis"
    )


def interval(gap_ps, axis="tp", phase="decode"):
    return {"run_id": "r", "device_id": 0, "axis": axis, "phase": phase, "gap_ps": gap_ps}


def store_of(*rows):
    return Store({"runs": [{"run_id": "r"}], "traffic_interval_v1": list(rows)})


def test_overlapping_gaps_are_counted_below_the_axis():
    store = store_of(*(interval(gap) for gap in (None, -5, 0, 1000, 1000)))
    rows = rows_of(store, gaps.SPREAD, "r")
    # The first transfer has no gap; -5 and 0 share the bin without ends; 1,000 ps is 10^3.0.
    assert rows.select("low_ps", "count", "share").rows() == [
        (None, 2, 0.5),
        (pytest.approx(1000), 2, 1.0),
    ]
    (figure,) = filled(store, gaps.SPREAD, "r").figures
    assert figure.note.replace("\u00a0", " ") == (
        "Below the log axis (overlapping or touching): tp 50.0 %."
    )
    assert [row["share"] for row in data(figure.spec)] == [0.5, 1.0]


def test_a_phase_of_nothing_but_overlaps_has_no_chart():
    section = filled(store_of(interval(-5)), gaps.SPREAD, "r")
    assert section.figures == []
    assert [cell.text for cell in section.cells[0]] == [
        "decode",
        "tp",
        "0 or below",
        "0",
        "1",
        "100\u00a0%",
    ]


@pytest.mark.parametrize(
    ("tables", "reason"),
    [
        ({}, "The trace has no device events"),
        ({"devices": [{"run_id": "r", "device_id": 0, "traced": True}]}, "no collectives"),
    ],
)
def test_a_run_without_gaps_says_why(tables, reason):
    section = filled(Store({"runs": [{"run_id": "r"}], **tables}), gaps.SUMMARY, "r")
    assert reason in section.empty
