"""Waits, stragglers and the load of devices, from a few steps of two devices."""

from __future__ import annotations

import pytest

from tests.reports.example import Store
from tests.reports.sections import filled, rows_of
from tests.reports.vega_lite import assert_valid, data
from xlahouse.reports.charts.palette import AXIS_COLOURS
from xlahouse.reports.panels.time import stragglers, waits

TP4 = "a" * 12
DEVICES = [
    {"run_id": "r", "device_id": device, "traced": True, "core": "tensorcore"} for device in (0, 1)
]


def store_of(**tables):
    return Store({"runs": [{"run_id": "r"}], "devices": DEVICES, **tables})


def window(device, number, phase="decode"):
    key = {"run_id": "r", "device_id": device, "request": 0, "step": number, "phase": phase}
    return {**key, "window_ps": 1000}


def wait(device, number, axis, ps, count=1):
    return {**window(device, number), "axis": axis, "wait_count": count, "sync_wait_ps": ps}


def test_waits_are_means_over_all_steps_also_those_without():
    store = store_of(
        device_time_v1=[window(d, k) for d in (0, 1) for k in (1, 2)],
        sync_wait_v1=[
            wait(0, 1, "tp", 30, 2),
            wait(0, 2, "tp", 10),
            wait(0, 2, "dp", 100),
            wait(1, 1, None, 4),
        ],
    )
    rows = rows_of(store, waits.PANEL, "r")
    assert rows.select("device_id", "axis", "waits", "sync_wait_ps", "steps", "ratio").rows() == [
        (0, "dp", 1, 100, 2, 0.05),
        (0, "tp", 3, 40, 2, 0.02),
        (1, "no collective", 1, 4, 2, 0.002),
    ]
    section = filled(store, waits.PANEL, "r")
    assert_valid(section)
    (figure,) = section.figures
    assert {(row["device_id"], row["axis"], row["step_ps"]) for row in data(figure.spec)} == {
        (0, "tp", 20),
        (0, "dp", 50),
        (1, "no collective", 2),
    }
    scale = figure.spec["encoding"]["color"]["scale"]
    colours = dict(zip(scale["domain"], scale["range"], strict=True))
    assert colours["tp"] == AXIS_COLOURS["tp"]
    assert section.coverage.startswith("5 waits of 2 devices.")
    assert section.notes == ["Barriers without a collective after them have no axis."]


def test_virtual_devices_have_no_barriers(two_runs):
    assert filled(two_runs, waits.PANEL, TP4).empty.startswith("Virtual devices have no barriers")


def straggler(device, last, instances=10, inferred=False):
    row = {"run_id": "r", "device_id": device, "host": "h", "inferred": inferred}
    ratio = None if instances == 0 else last / instances
    lags = {"mean_lag_ps": 2000.0 * last, "max_lag_ps": 9000, "mean_wait_ps": 5.0}
    return {**row, "instances": instances, "last_count": last, "last_ratio": ratio, **lags}


def virtual(device):
    measures = (
        "instances",
        "last_count",
        "last_ratio",
        "mean_lag_ps",
        "max_lag_ps",
        "mean_wait_ps",
    )
    return {**straggler(device, 0, inferred=True), **dict.fromkeys(measures)}


def test_stragglers_are_drawn_by_share_and_lag():
    store = store_of(straggler_v2=[straggler(0, 1), straggler(1, 9)])
    rows = rows_of(store, stragglers.STRAGGLERS, "r")
    assert rows.select("device_id", "last_ratio").rows() == [(1, 0.9), (0, 0.1)]
    section = filled(store, stragglers.STRAGGLERS, "r")
    assert_valid(section)
    last, lag = section.figures
    assert [(row["device_id"], row["last_ratio"]) for row in data(last.spec)] == [
        (0, 0.1),
        (1, 0.9),
    ]
    assert [row["amount"] for row in data(lag.spec)] == [2, 18]
    assert lag.spec["encoding"]["x"]["title"] == "Mean lag behind the first to arrive (ns)"
    assert section.notes == []
    assert section.coverage.startswith("2 of 2 devices, 20 arrivals.")


def test_of_many_devices_those_that_are_never_late_have_no_bar():
    on_time = [straggler(device, 0) | {"max_lag_ps": 0} for device in range(2, 17)]
    store = store_of(straggler_v2=[straggler(0, 1), straggler(1, 9), *on_time])
    last, _ = filled(store, stragglers.STRAGGLERS, "r").figures
    assert [row["device_id"] for row in data(last.spec)] == [1, 0]
    assert last.note == "The 2 of 17 devices that ever arrive late."


def test_virtual_devices_have_no_lag():
    devices = [{**device, "inferred": True} for device in DEVICES]
    store = Store(
        {
            "runs": [{"run_id": "r"}],
            "devices": devices,
            "straggler_v2": [virtual(0), virtual(1)],
        }
    )
    rows = rows_of(store, stragglers.STRAGGLERS, "r")
    unknown = ("last_count", "last_ratio", "mean_lag_ps", "max_lag_ps", "mean_wait_ps")
    assert rows.select(unknown).rows() == [(None,) * 5] * 2
    section = filled(store, stragglers.STRAGGLERS, "r")
    assert section.figures == []
    assert section.notes[0].startswith(
        "Which device arrives last is not known: the identities of virtual devices"
    )


def test_devices_that_always_come_together_are_told_not_drawn():
    together = {"mean_lag_ps": 0.0, "max_lag_ps": 0, "mean_wait_ps": 0.0}
    store = store_of(straggler_v2=[{**straggler(k, 0), **together} for k in (0, 1)])
    section = filled(store, stragglers.STRAGGLERS, "r")
    assert section.figures == []
    assert section.notes == [
        "Not drawn: in every collective all devices arrived at the same instant."
    ]
    # Two that share the last place are never last alone, yet late.
    tied = {**together, "mean_lag_ps": 3.0, "max_lag_ps": 30}
    late = store_of(straggler_v2=[straggler(0, 0) | together, straggler(1, 0) | tied])
    assert len(filled(late, stragglers.STRAGGLERS, "r").figures) == 2


def test_devices_seen_alone_cannot_be_late():
    store = store_of(straggler_v2=[{**straggler(0, 0, 0), "mean_lag_ps": None}])
    section = filled(store, stragglers.STRAGGLERS, "r")
    assert section.figures == []
    assert section.notes[0].startswith(
        "Which device arrives last is not known: the trace has no collective"
    )


def test_balance_gives_percentiles_over_steps():
    # 20 steps of 0 to 19 %: the median lies between 9 and 10 %, row ceil(19) is 18 %.
    steps = [
        {
            "run_id": "r",
            "request": 0,
            "step": k,
            "phase": "decode",
            "devices": 2,
            "imbalance_ratio": k / 100,
            "compute_imbalance_ratio": None if k else 0.5,
        }
        for k in range(20)
    ]
    store = store_of(load_balance_v1=steps)
    rows = rows_of(store, stragglers.BALANCE, "r")
    picked = rows.select("measure", "steps", "measured", "p50_ratio", "p95_ratio", "max_ratio")
    assert picked.rows() == [
        ("busy time", 20, 20, pytest.approx(0.095), 0.18, 0.19),
        ("compute time", 20, 1, 0.5, 0.5, 0.5),
    ]
    section = filled(store, stragglers.BALANCE, "r")
    assert_valid(section)
    (figure,) = section.figures
    assert [(row["measure"], row["p50_ratio"]) for row in data(figure.spec)] == [
        ("busy time", pytest.approx(0.095)),
        ("compute time", pytest.approx(0.5)),
    ]


def test_one_device_has_nobody_to_compare_with():
    step = {"run_id": "r", "request": 0, "step": 1, "phase": "decode", "devices": 1}
    store = store_of(
        load_balance_v1=[{**step, "imbalance_ratio": 0.0, "compute_imbalance_ratio": 0.0}]
    )
    section = filled(store, stragglers.BALANCE, "r")
    assert section.figures == []
    assert section.notes == [
        "Not drawn: one device was traced, so there is no other device to compare with."
    ]
