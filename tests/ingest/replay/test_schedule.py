"""Replays of small runs whose times are worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ingest.replay.building import measured, op, savings, spans, step_of, transfer
from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.replay.moved import LEFT_OUT, MADE, MOVED
from xlahouse.ingest.replay.schedule import Costs, Schedule
from xlahouse.ingest.schema import TABLES


def meeting():
    """Two devices that compute 100 and 130, then all-reduce until 160, then compute 10."""
    ops = [op(0, 0, 100), op(1, 0, 130), op(0, 160, 170, "tail"), op(1, 160, 170, "tail")]
    return Schedule.of(measured(ops, [transfer(0, 100, 160, 7), transfer(1, 130, 160, 7)]))


def replayed(schedule, **costs):
    return sorted(spans(schedule, schedule.replay(Costs(**costs))))


def scale(schedule, **of):
    """Scales of ops by device, as d0=…; of fusion.1 only."""
    rows = schedule.run.ops.select("device_id", "op").rows()
    return np.array(
        [of.get(f"d{device}", 1.0) if name == "fusion.1" else 1.0 for device, name in rows]
    )


def test_without_a_change_nothing_moves():
    schedule = meeting()
    assert replayed(schedule) == sorted(
        (row["device_id"], row["op"], row["start_ps"], row["start_ps"] + row["duration_ps"])
        for row in schedule.run.ops.to_dicts()
    )


def test_a_transfer_begins_with_its_last_arrival():
    # Device 1 computes 65 instead of 130, so device 0 is last, at 100; the transfer still takes 30.
    schedule = meeting()
    assert replayed(schedule, op_scale=scale(schedule, d1=0.5)) == [
        (0, "all-reduce.1", 100, 130),
        (0, "fusion.1", 0, 100),
        (0, "tail", 130, 140),
        (1, "all-reduce.1", 65, 130),
        (1, "fusion.1", 0, 65),
        (1, "tail", 130, 140),
    ]


@pytest.mark.parametrize(
    ("saved", "end"),
    [(15, 145), (30, 130), (1_000, 130), (-20, 180)],
    ids=["faster", "infinite", "beyond", "slower"],
)
def test_a_transfer_that_saves_time_ends_so_much_earlier(saved, end):
    found = replayed(meeting(), savings=savings({7: saved}))
    assert [row[2:] for row in found if row[1] == "tail"] == [(end, end + 10)] * 2


def test_without_skew_each_device_leaves_after_its_own_transfer():
    found = replayed(meeting(), skew=False)
    assert [row for row in found if row[1] == "tail"] == [
        (0, "tail", 130, 140),
        (1, "tail", 160, 170),
    ]


def test_with_perfect_overlap_the_longer_of_compute_and_transfers_counts():
    # Compute 140 on device 1 hides the 30 of the transfer, which begins at 130: 160 is its end.
    found = replayed(meeting(), overlap=True)
    assert [row[2:] for row in found if row[1] == "tail"] == [(130, 160), (130, 160)]


def test_with_perfect_overlap_a_barrier_still_ends_with_the_last_arrival():
    """A step that ends with its transfer lasts as long as that: it has nothing to run beside."""
    ops = [op(0, 0, 100), op(0, 100, 130, "barrier-cores", "wait", "XLA TraceMe"), op(1, 0, 130)]
    transfers = [transfer(0, 130, 160, 7, arrival_ps=100), transfer(1, 130, 160, 7)]
    found = replayed(Schedule.of(measured(ops, transfers)), overlap=True)
    assert (0, "barrier-cores", 100, 130) in found
    assert (0, "all-reduce.1", 130, 160) in found


def test_a_barrier_moves_with_the_wait_that_it_is_part_of():
    ops = [
        op(0, 0, 100),
        op(0, 100, 128, "barrier-cores", "wait", "XLA TraceMe"),
        op(1, 0, 130),
    ]
    transfers = [transfer(0, 128, 160, 7, arrival_ps=100), transfer(1, 130, 160, 7)]
    schedule = Schedule.of(measured(ops, transfers))
    # The wait from 100 to 130 becomes one from 100 to 115: its barrier ends 28/30 of the way.
    found = replayed(schedule, op_scale=scale(schedule, d1=115 / 130))
    assert (0, "barrier-cores", 100, 114) in found
    assert (0, "all-reduce.1", 114, 145) in found


def test_the_barrier_of_a_device_that_is_no_longer_last_ends_as_long_before_its_transfer():
    ops = [
        op(0, 0, 100),
        op(1, 0, 130),
        op(1, 130, 137, "barrier-cores", "wait", "XLA TraceMe"),
    ]
    transfers = [transfer(0, 100, 170, 7), transfer(1, 140, 170, 7, arrival_ps=130)]
    schedule = Schedule.of(measured(ops, transfers))
    # Device 0 arrives at 160: from there the barrier lasts 7 and its gap 3, as from 130 on before.
    found = replayed(schedule, op_scale=scale(schedule, d0=1.6))
    assert (1, "barrier-cores", 130, 167) in found
    assert (1, "all-reduce.1", 170, 200) in found


def flight(done):
    """An async all-reduce from 0 (device 0) and 10 (device 1) to 80; dones begin at `done`."""
    ops, transfers = [], []
    for device, start in ((0, 0), (1, 10)):
        ops += [
            op(device, start, start + 2, "start", "collective", is_async=True),
            op(device, start + 2, done),
            op(device, done, 80, "done", "collective", is_async=True),
        ]
        transfers.append(
            transfer(device, start, 80, 3, "start", is_async=True, wait_ps=80 - done, issue_ps=2)
        )
    # Waits of 1 us and more show when a transfer ended: all times are in us.
    us = 1_000_000
    for row in (*ops, *transfers):
        for name in ("start_ps", "duration_ps", "wait_ps", "issue_ps", "arrival_ps"):
            if name in row:
                row[name] *= us
    return Schedule.of(measured(ops, transfers)), us


def test_a_faster_async_transfer_is_waited_for_only_where_compute_ends_before():
    schedule, us = flight(done=50)
    # In flight 70 from the last arrival at 10 on: 35 less leaves 45, and compute runs until 50.
    found = replayed(schedule, savings=savings({3: 35 * us}))
    assert [row for row in found if row[1] == "done"] == [
        (device, "done", 50 * us, 50 * us) for device in (0, 1)
    ]
    found = replayed(schedule, savings=savings({3: 10 * us}))
    assert [row[2:] for row in found if row[1] == "done"] == [(50 * us, 70 * us)] * 2


def test_a_permute_waits_for_its_sender_and_not_for_its_receiver():
    ops = [op(0, 0, 40), op(1, 0, 10), op(1, 60, 70, "tail"), op(0, 50, 60, "tail")]
    rows = {"name": "permute.1", "kind": "collective-permute"}
    transfers = [transfer(0, 40, 50, 1, **rows), transfer(1, 10, 60, 1, **rows)]
    schedule = Schedule.of(measured(ops, transfers, pairs=[("permute.1", 0, 1)]))
    # The receiver gets slower by 100: the sender, which waits for no device, ends as before.
    found = replayed(schedule, op_scale=scale(schedule, d1=11.0))
    assert [row[2:] for row in found if row[1] == "tail"] == [(50, 60), (130, 140)]


def test_perfect_overlap_counts_transfers_that_are_in_flight_together_once():
    """Two async transfers from 2 and 4 on until 80 and 90: 88 of the step's 90, not 164."""
    us, ops, transfers = 1_000_000, [], []
    for number, start, done, end in ((1, 2, 70, 80), (2, 4, 80, 90)):
        name = f"all-reduce.{number}"
        ops += [
            op(0, start * us, (start + 1) * us, f"{name}-start", "collective", is_async=True),
            op(0, done * us, end * us, f"{name}-done", "collective", is_async=True),
        ]
        wait = {"is_async": True, "wait_ps": 10 * us, "name": name}
        transfers.append(transfer(0, start * us, end * us, number, **wait))
    ops += [op(0, 0, 2 * us), op(0, 5 * us, 70 * us)]
    schedule = Schedule.of(measured(ops, transfers))
    found = spans(schedule, schedule.replay(Costs(overlap=True)))
    assert max(row[3] for row in found) == 90 * us


def test_a_kernel_waits_across_streams_for_what_ended_last():
    ops = [op(0, 0, 100, line="stream 7"), op(0, 110, 130, "copy", "copy", "stream 9")]
    schedule = Schedule.of(measured(ops, cores={0: "gpu"}))
    found = replayed(schedule, op_scale=scale(schedule, d0=0.5))
    assert found == [(0, "copy", 60, 80), (0, "fusion.1", 0, 50)]


def test_a_kernel_with_hlo_waits_for_its_operands_only():
    ops = [
        op(0, 0, 20, "a", line="stream 7", launch=0),
        op(0, 20, 100, line="stream 7", launch=0),
        op(0, 110, 130, "user", "copy", "stream 9", launch=0),
    ]
    rows = [
        {"program_id": 1, "op": name, "operands": operands}
        for name, operands in (("a", ""), ("fusion.1", ""), ("bitcast", "a"), ("user", "bitcast"))
    ]
    schedule = Schedule.of(measured(ops, cores={0: "gpu"}, instructions=rows))
    # The user waits 90 after its operand through the bitcast; fusion.1 is not an operand of it.
    found = replayed(schedule, op_scale=scale(schedule, d0=0.5))
    assert found == [(0, "a", 0, 20), (0, "fusion.1", 20, 60), (0, "user", 110, 130)]


@pytest.mark.parametrize(("stages", "microbatches"), [(2, 2), (4, 8), (3, 5)])
def test_a_pipeline_without_transfers_has_gpipes_bubble(stages, microbatches):
    # Each stage computes 100 a microbatch, and sends for 40 before it goes on.
    ops, transfers, pairs = [], [], []
    for stage in range(stages):
        ready = 0
        for batch in range(microbatches):
            start = (stage + batch) * 140
            if stage:
                rows = {"name": f"permute.{stage}", "kind": "collective-permute"}
                number = (stage - 1) * microbatches + batch
                transfers.append(transfer(stage, ready, start, number, **rows))
            ops.append(op(stage, start, start + 100))
            ready = start + 100
            if stage < stages - 1:
                rows = {"name": f"permute.{stage + 1}", "kind": "collective-permute"}
                number = stage * microbatches + batch
                transfers.append(transfer(stage, ready, ready + 40, number, **rows))
                ready += 40
        pairs.append((f"permute.{stage + 1}", stage, stage + 1))
    schedule = Schedule.of(measured(ops, transfers, pairs=pairs))
    free = savings(dict.fromkeys(range(stages * microbatches), 1_000))
    found = spans(schedule, schedule.replay(Costs(savings=free)))
    end = max(row[3] for row in found)
    assert end == (microbatches + stages - 1) * 100
    compute = sum(row[3] - row[2] for row in found if row[1] == "fusion.1")
    bubble = 1 - compute / (stages * end)
    assert bubble == pytest.approx((stages - 1) / (microbatches + stages - 1))


def test_times_grow_with_every_transfer():
    schedule = meeting()
    ends = [
        max(row[3] for row in replayed(schedule, savings=savings({7: -more})))
        for more in range(0, 100, 10)
    ]
    assert ends == [170 + more for more in range(0, 100, 10)]


def test_a_transfer_that_ends_before_its_last_arrival_keeps_its_time():
    ops = [op(0, 0, 100), op(1, 0, 170)]
    schedule = Schedule.of(measured(ops, [transfer(0, 100, 160, 7), transfer(1, 170, 200, 7)]))
    assert schedule.unmet == 2
    assert replayed(schedule, savings=savings({7: 1_000}))[0] == (0, "all-reduce.1", 100, 160)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"instance": None}, "the groups of 1 of 1 collectives are not known .all-reduce.1."),
        (
            {"arrival_ps": None},
            "1 collectives are between clocks whose offset is not known .host1.",
        ),
    ],
    ids=["groups", "clocks"],
)
def test_a_run_that_does_not_say_who_waits_is_refused(change, why):
    clocks = [{"clock": "host1", "state": "ambiguous"}, {"clock": "host0", "state": "reference"}]
    run = measured([op(0, 0, 5)], [transfer(0, 5, 9, 1) | change], clocks=clocks)
    with pytest.raises(WarehouseError, match=why):
        Schedule.of(run)


def test_a_run_without_steps_is_refused():
    steps = [step_of(0, [op(0, 0, 5)], step=None)]
    with pytest.raises(WarehouseError, match="it has no steps"):
        Schedule.of(measured([op(0, 0, 5)], steps=steps))


def test_every_table_with_times_is_moved_made_or_left_out():
    # Clocks state what was subtracted from a host's times, which a replay leaves as it is.
    timed = {
        table.name
        for table in TABLES
        if any(column.name in ("start_ps", "duration_ps") for column in table.columns)
    }
    of_hosts = {"host_events", "host_gaps", "kv_transfers"}
    assert timed - {"runs"} == {*MOVED, *MADE} | of_hosts
    assert of_hosts <= set(LEFT_OUT)
