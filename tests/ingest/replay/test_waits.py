"""Waits for circuits: from where to where they last, and which part of them is exposed or sync wait."""

from __future__ import annotations

import polars as pl
import pytest

from tests.ingest.replay.test_circuits import alternating, circuits
from xlahouse.ingest.replay.schedule import Costs
from xlahouse.ingest.replay.waits import Waits, circuit_waits

STEP = {"device_id": 0, "request": 0, "step": 1}


def divided(transfers, busy=(), wait=(100, 160), window=(0, 1000)):
    """(exposed, sync wait) of a wait of the first of some transfers, spans as (start, end)."""
    rows = pl.DataFrame(
        [
            STEP
            | {"program_id": 1, "op": f"ar.{number}", "group_index": 0, "phase": "decode"}
            | {"start_ps": start, "duration_ps": end - start}
            for number, (start, end) in enumerate(transfers)
        ]
    )
    intervals = pl.DataFrame(
        [
            STEP | {"category": category, "start_ps": start, "duration_ps": end - start}
            for category, start, end in busy
        ],
        schema={"device_id": pl.Int64, "request": pl.Int64, "step": pl.Int64}
        | {"category": pl.String, "start_ps": pl.Int64, "duration_ps": pl.Int64},
    )
    opens, closes = window
    steps = pl.DataFrame(
        [STEP | {"phase": "decode", "start_ps": opens, "duration_ps": closes - opens}]
    )
    row, begun, until = (pl.Series([each]).to_numpy() for each in (0, *wait))
    found = circuit_waits(Waits(row, begun, until), rows, intervals, steps)
    assert found["op"].to_list() == ["ar.0"] * found.height
    return found.select("exposed_ps", "sync_wait_ps").rows()


@pytest.mark.parametrize(
    ("transfers", "busy", "expected"),
    [
        # In flight alone from the arrival on: all 60 of the wait.
        ([(100, 170)], [], (60, 0)),
        # 5 beside compute, and half of 20 beside another transfer: 60 - 5 - 10.
        ([(100, 170), (120, 140)], [("compute", 150, 155)], (45, 0)),
        # In a barrier until 5 before the op: 55, less 10 while a copy runs.
        ([(160, 190)], [("sync_wait", 100, 155), ("copy_running", 110, 120)], (0, 45)),
        # Another transfer is in flight throughout: its time is exposed, and no wait of this one.
        ([(160, 190), (90, 200)], [("sync_wait", 100, 160)], (0, 0)),
    ],
)
def test_an_instant_of_a_wait_is_what_it_is_of_the_step(transfers, busy, expected):
    assert divided(transfers, busy) == [expected]


def test_a_wait_ends_with_its_steps_window():
    assert divided([(100, 170)], window=(0, 130)) == [(30, 0)]
    assert divided([(100, 170)], window=(0, 100)) == []


@pytest.mark.parametrize(("delay", "waited"), [(70, [40]), (130, [100, 30]), (20, [])])
def test_transfers_wait_from_their_last_arrival_until_circuits_are_ready(delay, waited):
    # Windows of 30 before b and of 100 before a hide as much of each change, on all four devices.
    schedule, rows = alternating(2)
    times = schedule.replay(Costs(circuits=circuits(rows, "every", delay)))
    row, begun, until = times.waits
    assert sorted(set((until - begun).tolist()), reverse=True) == waited
    assert len(row) == 4 * (2 * (delay > 30) + (delay > 100))


def test_without_circuits_nothing_waits_for_them():
    schedule, _ = alternating(2)
    assert len(schedule.replay(Costs(host_ratio=0.5)).waits.row) == 0
