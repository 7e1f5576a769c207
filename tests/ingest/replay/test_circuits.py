"""Runs over optical circuits: by hand, against a simulator, and without any delay."""

from __future__ import annotations

import polars as pl
import pytest

from tests.ingest.replay.building import measured, op, spans, transfer
from tests.ingest.replay.networks import Simulation, draw, tables_of
from tests.layers import first_few
from xlahouse.ingest.replay.circuits import POLICIES, Circuits
from xlahouse.ingest.replay.schedule import Costs, Schedule


def circuits(rows, policy, delay=0, at_once=1):
    sent = rows | {"wire_bytes": rows.get("wire_bytes", [8] * len(rows["instance"]))}
    schema = {"instance": pl.Int64, "axis": pl.String, "wire_bytes": pl.Float64}
    return Circuits(pl.DataFrame(sent, schema=schema), at_once, delay, policy)


def figures(schedule, given):
    """(end of the last op, changes, hidden, exposed, carried bytes) of a replay."""
    found = schedule.switch(Costs(), given)
    times = schedule.replay(Costs(circuits=given))
    last = max(row[3] for row in spans(schedule, times))
    changes, traffic = found.changes, found.traffic
    carried = traffic.filter("carried")["wire_bytes"].sum()
    return last, changes.height, changes["hidden_ps"].sum(), changes["exposed_ps"].sum(), carried


def alternating(rounds, sizes=(6, 2)):
    """Four devices, 2 x 2: in turn 100 of compute, 10 over a, 30 of compute, 10 over b."""
    programs, meetings, sent = {device: [] for device in range(4)}, {}, []
    for turn in range(rounds):
        for compute, axis, groups, size in (
            (100, "a", ((0, 1), (2, 3)), sizes[0]),
            (30, "b", ((0, 2), (1, 3)), sizes[1]),
        ):
            for group in groups:
                name = f"{axis}{turn}{group}"
                meetings[name] = (axis, group, 10)
                sent.append(size)
                for device in group:
                    programs[device] += [("compute", compute), ("meet", name)]
    run, rows = tables_of(programs, meetings)
    return Schedule.of(run), rows | {"wire_bytes": sent}


@pytest.mark.parametrize("delay", [0, 20, 30, 31, 70, 100, 400])
def test_two_axes_in_turn_pay_for_what_their_windows_do_not_hide(delay):
    # A round takes 150: windows of 30 before b and of 100 before a. The first a has its circuits already.
    # Of 4 rounds the port of each device changes 4 times to b and 3 times to a; all devices are alike, so
    # each late change delays all: the end is 4 x 150 + 4 x (delay - 30) + 3 x (delay - 100), none below 0.
    late_b, late_a = max(0, delay - 30), max(0, delay - 100)
    schedule, rows = alternating(4)
    expected = 600 + 4 * late_b + 3 * late_a
    exposed = 4 * (4 * late_b + 3 * late_a)  # of four devices
    for policy in ("every", "prefetch"):  # one port leaves no spare one to prefetch with
        found = figures(schedule, circuits(rows, policy, delay))
        assert found == (expected, 28, 28 * delay - exposed, exposed, 4 * 2 * (6 + 2))


def test_two_ports_need_no_change_for_two_axes():
    schedule, rows = alternating(4)
    for policy in POLICIES:
        found = figures(schedule, circuits(rows, policy, 1_000, at_once=2))
        assert found == (600, 0, 0, 0, 4 * 2 * (6 + 2))
    assert schedule.switch(Costs(), circuits(rows, "every", 1_000, at_once=3)).ports == 2


def test_circuits_that_never_change_carry_the_axis_with_most_bytes():
    assert figures(*_never(alternating(4))) == (600, 0, 0, 0, 4 * 2 * 6)
    assert figures(*_never(alternating(4, sizes=(1, 3)))) == (600, 0, 0, 0, 4 * 2 * 3)


def _never(given):
    schedule, rows = given
    return schedule, circuits(rows, "never", 1_000)


def test_changes_that_fit_cost_no_time():
    schedule, rows = alternating(4)
    # A delay of 30 fits into both windows. One of 31 does not fit before b: the ports stay with a.
    assert figures(schedule, circuits(rows, "fits", 30)) == (600, 28, 28 * 30, 0, 64)
    assert figures(schedule, circuits(rows, "fits", 31)) == (600, 0, 0, 0, 48)


def test_a_change_fits_while_other_traffic_of_its_axis_takes_the_links():
    # a ends at 110, b begins at 140 and again at 155: a change of 40 from 110 on is too late for the first
    # and in time for the second.
    items = [("compute", 100), ("meet", "a"), ("compute", 30), ("meet", "b0")]
    items += [("compute", 5), ("meet", "b1")]
    meetings = {"a": ("a", (0, 1), 10), "b0": ("b", (0, 1), 10), "b1": ("b", (0, 1), 10)}
    run, rows = tables_of({0: items, 1: items}, meetings)
    schedule = Schedule.of(run)
    assert figures(schedule, circuits(rows, "fits", 45)) == (165, 2, 90, 0, 16)
    assert figures(schedule, circuits(rows, "fits", 46)) == (165, 0, 0, 0, 8)


def test_a_change_hides_while_its_device_waits_for_another():
    # a = {0, 1} ends at 100; device 1 then computes 20, and waits for device 2 until 200 in b. A change of
    # 60 is over at 160: its window on device 1 is 20 long, but 100 have passed until the last arrival.
    programs = {
        0: [("compute", 90), ("meet", "a")],
        1: [("compute", 90), ("meet", "a"), ("compute", 20), ("meet", "b")],
        2: [("compute", 200), ("meet", "b")],
    }
    run, rows = tables_of(programs, {"a": ("a", (0, 1), 10), "b": ("b", (1, 2), 10)})
    schedule = Schedule.of(run)
    assert figures(schedule, circuits(rows, "every", 60))[:4] == (210, 1, 60, 0)
    assert figures(schedule, circuits(rows, "every", 100))[:4] == (210, 1, 100, 0)
    assert figures(schedule, circuits(rows, "every", 130))[:4] == (240, 1, 100, 30)


def test_with_a_spare_port_the_next_circuits_are_set_up_one_transition_earlier():
    # Twice a, b, c, each 50 of compute and 10 of transfer: 360. Two ports hold the last two axes, so c and
    # all of the second round need a change, of the port that was used least lately.
    programs, meetings = {0: [], 1: []}, {}
    for turn in range(2):
        for axis in "abc":
            meetings[f"{axis}{turn}"] = (axis, (0, 1), 10)
            for items in programs.values():
                items += [("compute", 50), ("meet", f"{axis}{turn}")]
    run, rows = tables_of(programs, meetings)
    schedule = Schedule.of(run)

    def last(policy, delay):
        return figures(schedule, circuits(rows, policy, delay, at_once=2))[0]

    # From the end of the transfer before, 50 are hidden: four changes pay 30 each.
    assert last("every", 80) == 360 + 4 * 30
    # Begun with the end of the transfer before that one: 50 + 10 + 50 are hidden.
    assert last("prefetch", 80) == last("prefetch", 110) == 360
    # Of 150: a ends at 60, b at 120. c is ready at 60 + 150 = 210, 40 late, and ends at 220. a: 120 + 150
    # = 270 is when it arrives; it ends at 280. b: 220 + 150 = 370, 40 late, 380. c: 280 + 150 = 430: 440.
    assert last("prefetch", 150) == 440
    assert last("every", 150) == 360 + 4 * 100


def overlapping():
    """An async a from 0 to 80 us, during which b transfers from 40 to 50 us; all of two devices."""
    us, ops, transfers = 1_000_000, [], []
    for device in (0, 1):
        spans_of = [(0, 1, "start", "collective", True), (1, 40, "one", "compute", False)]
        spans_of += [(50, 60, "two", "compute", False), (60, 80, "done", "collective", True)]
        for start, end, name, category, is_async in spans_of:
            ops.append(op(device, start * us, end * us, name, category, is_async=is_async))
        more = {"is_async": True, "wait_ps": 20 * us, "issue_ps": us}
        transfers.append(transfer(device, 0, 80 * us, 0, "start", **more))
        transfers.append(transfer(device, 40 * us, 50 * us, 1))
    rows = {"instance": [0, 1], "axis": ["a", "b"]}
    return Schedule.of(measured(ops, transfers)), rows, us


def test_axes_that_share_a_port_pay_the_whole_delay_from_the_later_ones_begin():
    # b begins at 40 while a is in flight until 80. Without a delay they share the port, as measured. With a
    # delay of 7, b begins at 47 and ends at 57, "two" at 67, before a ends; with 25, "two" ends at 85.
    schedule, rows, us = overlapping()
    for delay, last in ((0, 80), (7, 80), (25, 85)):
        given = circuits(rows, "every", delay * us)
        assert figures(schedule, given)[:4] == (last * us, 2, 0, 2 * delay * us)
        assert schedule.switch(Costs(), given).changes["shares"].to_list() == [True, True]


def test_a_permute_that_arrives_before_its_senders_port_is_free_shares_it():
    # us. Device 0 starts a (async, with 2) and sends p to 1, which then meets 2 in q; 2 starts a and sends p
    # to 0. So 0's part of p begins after a, and 1's part before it: a circle, did 1 wait for 0's port.
    us, ops = 1_000_000, []
    for device, start, end, name, category in (
        (0, 0, 1, "start", "collective"),
        (0, 18, 30, "done", "collective"),
        (1, 0, 5, "one", "compute"),
        (2, 0, 8, "two", "compute"),
        (2, 12, 13, "start", "collective"),
        (2, 15, 30, "done", "collective"),
    ):
        is_async = category == "collective"
        ops.append(op(device, start * us, end * us, name, category, is_async=is_async))
    permute = {"name": "p", "kind": "collective-permute"}
    transfers = [
        transfer(0, 0, 30 * us, 0, "start", is_async=True, wait_ps=12 * us, issue_ps=us),
        transfer(2, 12 * us, 30 * us, 0, "start", is_async=True, wait_ps=15 * us, issue_ps=us),
        transfer(0, us, 18 * us, 1, **permute),
        transfer(1, 5 * us, 10 * us, 1, **permute),
        transfer(2, 13 * us, 15 * us, 1, **permute),
        transfer(1, 10 * us, 12 * us, 2, "q"),
        transfer(2, 8 * us, 12 * us, 2, "q"),
    ]
    schedule = Schedule.of(measured(ops, transfers, pairs=[("p", 0, 1), ("p", 2, 0)]))
    rows = {"instance": [0, 1, 2], "axis": ["a", "p", "q"]}
    times = schedule.replay(Costs(circuits=circuits(rows, "every", 10 * us)))
    found = {(row[0], row[1]): row[3] // us for row in spans(schedule, times)}
    # q: 1's port is free at 10 and changed at 20; q ends at 22. a: 2's port changes until 32; a ends at 50.
    # p of 0: without circuits it begins 1 after a does, so both ports are changed at 32 + 1 + 10 = 43.
    assert found[1, "p"] == 10
    assert found[1, "q"] == found[2, "q"] == 22
    assert (found[0, "p"], found[2, "p"]) == (48, 45)
    assert found[0, "done"] == found[2, "done"] == 50


def test_without_delay_a_replay_is_the_run():
    for seed in range(8):
        run, rows = tables_of(*draw(seed))
        schedule = Schedule.of(run)
        measured_spans = spans(schedule, schedule.replay(Costs()))
        for policy in POLICIES:
            for ports in (1, 2):
                times = schedule.replay(Costs(circuits=circuits(rows, policy, 0, ports)))
                assert spans(schedule, times) == measured_spans


@pytest.mark.parametrize("policy", ["every", "prefetch"])
@pytest.mark.parametrize("ports", first_few([1, 2, 3], 1))
def test_random_runs_replay_as_they_are_simulated(policy, ports):
    changed = 0
    for seed in range(100, 108):
        programs, meetings = draw(seed)
        run, rows = tables_of(programs, meetings)
        schedule = Schedule.of(run)
        before = None
        for delay in (0, 3, 40, 200):
            expected = Simulation(programs, meetings, ports, delay, policy).ends()
            times = schedule.replay(Costs(circuits=circuits(rows, policy, delay, ports)))
            found = {}
            for device, _, _, end in sorted(spans(schedule, times), key=lambda row: row[3]):
                found.setdefault(device, []).append(end)
            for device, items in programs.items():
                ours = [expected[device, place] for place in range(len(items))]
                assert found[device] == ours, (seed, delay, device)
            last = max(expected.values())
            assert before is None or last >= before  # monotone in the delay
            changed += before is not None and last > before
            before = last
    assert changed >= 4


@pytest.mark.parametrize("ports", first_few([1, 2], 1))
def test_random_runs_keep_their_times_where_changes_fit(ports):
    carried = set()
    for seed in range(12):
        run, rows = tables_of(*draw(seed))
        schedule = Schedule.of(run)
        unchanged = spans(schedule, schedule.replay(Costs()))
        for delay in (5, 40):
            given = circuits(rows, "fits", delay, ports)
            assert spans(schedule, schedule.replay(Costs(circuits=given))) == unchanged
            found = schedule.switch(Costs(), given)
            assert found.changes["exposed_ps"].sum() == 0
            carried.add(found.traffic["carried"].mean() == 1)
    assert carried == {True, False}
