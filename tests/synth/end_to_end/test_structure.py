"""Synthetic runs, ingested: nothing is lost or wrong, and devices, launches and groups are those written."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest

from tests.kept import audited
from tests.synth.describe import Run
from tests.synth.end_to_end.ingested import assert_same, every_run, ingest
from tests.synth.mesh import coordinate
from tests.synth.walk import schedule

pytestmark = pytest.mark.xdist_group("synthetic")


@every_run
def test_nothing_is_wrong_with_the_run(ingested):
    findings = ingested.rows("select run_id, severity, code, message from issues")
    assert [row for row in findings if row["severity"] == "error"] == []
    (row,) = ingested.rows("select run_id, status, device_count, expected_device_count from runs")
    traced = len(ingested.run.positions)
    assert row["device_count"] == traced
    assert row["expected_device_count"] == len(ingested.run.devices)
    assert row["status"] == ("complete" if traced == len(ingested.run.devices) else "partial")


@every_run
def test_every_event_is_accounted_for(ingested):
    rows = ingested.rows(
        "select * from coverage where events_read <> rows_written + events_rejected"
        " or events_rejected > 0"
    )
    assert rows == []


@every_run
def test_row_counts(ingested):
    found = ingested.rows(
        """
        select run_id, device_id, sum(launches) as launches, sum(ops) as ops,
            sum(collectives) as collectives
        from (
            select run_id, device_id, 0 as launches, 0 as ops, 0 as collectives
            from devices where traced
            union all select run_id, device_id, 1, 0, 0 from launches
            union all select run_id, device_id, 0, 1, 0 from ops
            union all select run_id, device_id, 0, 0, 1 from collectives
        )
        group by run_id, device_id
        """
    )
    columns = ("device_id", "launches", "ops", "collectives")
    assert_same(found, ingested.expected["row_counts"], columns)


def ran(ingested):
    """(program, op) of the collectives that ran on a traced device."""
    return {
        (r["program_id"], r["op"])
        for r in ingested.rows("select run_id, program_id, op from collectives")
    }


@every_run
def test_collective_axis(ingested):
    members, programs = ingested.members(), ran(ingested)
    found = [
        {**row, "members": tuple(sorted(members[row["program_id"], row["op"], row["group_index"]]))}
        for row in ingested.rows("select * from collective_axis_v1")
        if (row["program_id"], row["op"]) in programs
    ]
    expected = [
        {**row, "members": tuple(sorted(row["members"]))}
        for row in ingested.expected["collective_axis"]
        if (row["program_id"], row["op"]) in programs
    ]
    assert_same(found, expected, ("program_id", "op", "members", "axis", "partial"))


@every_run
def test_members_stand_in_group_order(ingested):
    """Rings follow this order. A permute's group is a set: its pairs say who sends to whom."""
    rows = ingested.rows(
        "select run_id, program_id, op from collectives where kind <> 'collective-permute'"
    )
    ordered = {(row["program_id"], row["op"]) for row in rows}
    found = {
        (*key[:2], devices) for key, devices in ingested.members().items() if key[:2] in ordered
    }
    expected = {
        (row["program_id"], row["op"], row["members"])
        for row in ingested.expected["collective_axis"]
        if (row["program_id"], row["op"]) in ordered
    }
    assert found == expected


@every_run
def test_launches_are_linked(ingested):
    rows = ingested.rows("select run_id, module, enqueue_ps, start_ps from launches")
    step_launches = [row for row in rows if row["module"] != "jit_iota"]
    assert all(row["enqueue_ps"] < row["start_ps"] for row in step_launches)
    assert all(row["enqueue_ps"] is None for row in rows if row["module"] == "jit_iota")


@every_run
def test_launch_instances(ingested):
    """An instance holds each device of its program that saw the pass, once."""
    run, devices = ingested.run, defaultdict(list)
    sql = "select run_id, program_id, launch_instance, device_id from launches where module <> 'jit_iota'"
    for row in ingested.rows(sql):
        devices[row["program_id"], row["launch_instance"]].append(row["device_id"])
    found = Counter((program, tuple(sorted(group))) for (program, _), group in devices.items())
    expected = Counter()
    for times in schedule(run):
        for each in times.passes:
            seen = [p for p in times.program.positions if run.traced(p) and run.saw(p, each.index)]
            group = tuple(sorted(run.devices[p] for p in seen))
            expected[times.program.id, group] += times.per_step if group else 0
    assert found == +expected


@every_run
def test_coordinates(ingested):
    """Every device of the mesh has the coordinates that the description gives it."""
    run = ingested.run
    found = ingested.rows("select run_id, device_id, axis, coordinate from run_mesh_v1")
    expected = [
        {"device_id": run.devices[p], "axis": axis, "coordinate": coordinate(run.mesh, p, axis)}
        for p in range(len(run.devices))
        for axis in run.axes
    ]
    if run.traced_hosts:  # devices that nothing traced knows of have no rows
        known = {row["device_id"] for row in found}
        expected = [row for row in expected if row["device_id"] in known]
    assert_same(found, expected, ("device_id", "axis", "coordinate"))


@every_run
def test_hbm_capacity(ingested):
    found = ingested.rows("select run_id, device_bytes from hbm_capacity_v1")
    assert_same(found, ingested.expected["hbm_capacity"], ("device_bytes",))


@every_run
def test_hardware_peaks(ingested):
    sql = "select p.* from hardware_peaks_v1 as p inner join devices using (run_id, device_id) where traced"
    expected = ingested.expected["hardware_peaks"]
    assert_same(ingested.rows(sql), expected, list(expected[0]))


def test_audits_find_nothing(synthetic_runs):
    warehouse = next(iter(synthetic_runs.values())).warehouse
    assert [finding for finding in audited(warehouse) if finding.rows] == []


def test_worlds_share_device_numbers_and_nothing_else(tmp_path):
    """Two processes a host, each with devices 0 to 3 of its own: twice everything, nothing mixed."""
    run = Run(worlds=2, lag_ps=(0, 5_003, 70_001, 11))
    ingested = ingest([run], tmp_path)[run.name]
    devices = ingested.rows("select * from devices where traced")
    pairs = Counter((row["world"], row["logical_id"]) for row in devices)
    assert pairs == Counter((world, number) for world in range(2) for number in range(4))
    columns = ("op", "phase", "request", "step", "group_size", "participants_seen")
    columns += ("payload_bytes", "wire_bytes", "skew_ps", "transfer_ps")
    found = ingested.rows("select * from collective_bandwidth_v3")
    assert_same(found, ingested.expected["collective_bandwidth"] * 2, columns)
    volume = ingested.rows("select * from traffic_volume_v1")
    columns = ("phase", "kind", "collectives", "payload_bytes", "wire_bytes")
    assert_same(volume, ingested.expected["traffic_volume"] * 2, columns)
