"""JAX 0.10 on 8 virtual devices: ops that state execution and device need no name of another event.

The case was captured by the script beside it: a program that runs 6 times on a mesh dp=2,tp=4.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ingest.build import space
from tests.layers import first_few
from xlahouse.ingest.events.proto import message_class
from xlahouse.ingest.run import ingest_paths
from xlahouse.ingest.xplane import wire
from xlahouse.sql.warehouse import Warehouse

CASE = Path(__file__).parents[2] / "cases" / "foreign" / "jax_0_10_cpu_8_devices"
LAUNCHES, OPS, COLLECTIVES = 48, 864, 240  # 6 on each device, 18 and 5 in each
STATS = ("hlo_op", "run_id", "device_ordinal", "hlo_module", "program_id", "global_device_id", "_p")
COUNTS = """
    select
        (select count(*) from launches), (select count(*) from ops),
        (select count(*) from collectives), (select count(distinct launch_instance) from launches),
        (select count(*) from ops where launch is null or step is null),
        (select count(*) from devices where inferred)
"""


def planes():
    """The planes, parsed."""
    kind = message_class("XPlane")
    raw = (CASE / "vm.xplane.pb").read_bytes()
    return [kind.FromString(bytes(plane)) for plane in wire.split_space(raw, "vm").planes]


def renamed(tmp_path, entries, chosen):
    """The warehouse of the case after names of event or stat kinds are changed."""
    changed = planes()
    for plane in changed:
        for entry in getattr(plane, entries):
            if chosen(entry.value.name.decode()):
                entry.value.name = b"Renamed" + bytes(entry.value.name[::-1])
    (tmp_path / "vm.xplane.pb").write_bytes(space(*changed))
    return ingested(tmp_path / "vm.xplane.pb", tmp_path / "w")


def ingested(trace, folder):
    ingest_paths([str(trace)], str(folder), name="run")
    return Warehouse(str(folder))


def codes(warehouse):
    return {code for (code,) in warehouse.query("select code from issues").rows}


def test_launches_and_identity_are_those_that_ops_state(tmp_path):
    with ingested(CASE, tmp_path) as warehouse:
        assert warehouse.query(COUNTS).rows == [(LAUNCHES, OPS, COLLECTIVES, 6, 0, 0)]
        assert codes(warehouse) == {"device_virtual", "scope_unknown"}
        sql = "select min(start_ps - enqueue_ps) > 0, count(distinct enqueue_ps) from launches"
        assert warehouse.query(sql).rows == [(True, 6)]


def test_times_of_virtual_devices_are_not_an_accelerators_though_identity_is_known(tmp_path):
    with ingested(CASE, tmp_path) as warehouse:
        assert warehouse.query("select count(peak_flops_per_s) from hardware_peaks").rows == [(0,)]
        assert warehouse.query("select inferred from run_summary").rows == [(True,)]
        sql = "select count(*), count(utilization_ratio) from collective_bandwidth"
        ((instances, stated),) = warehouse.query(sql).rows
        assert instances > 0
        assert stated == 0


def test_no_name_of_an_event_is_needed(tmp_path):
    with renamed(tmp_path, "event_metadata", lambda name: "::" in name) as warehouse:
        assert warehouse.query(COUNTS).rows == [(LAUNCHES, OPS, COLLECTIVES, 6, 0, 0)]


@pytest.mark.parametrize("stat", first_few(STATS, 3))
def test_a_renamed_stat_changes_nothing_or_is_a_finding(tmp_path, stat):
    """Without run_id or device_ordinal the names of events lead to the same executions."""
    with renamed(tmp_path, "stat_metadata", stat.__eq__) as warehouse:
        ((launches, ops, collectives, *_),) = warehouse.query(COUNTS).rows
        if stat == "hlo_op":
            assert (launches, ops) == (0, 0)
            assert "no_device_events" in warehouse.query("select status from runs").rows[0]
        else:
            assert (launches, ops, collectives) == (LAUNCHES, OPS, COLLECTIVES) or (
                codes(warehouse) - {"device_virtual", "device_inferred", "scope_unknown"}
            )


def test_ops_that_no_stat_and_no_known_name_gives_an_execution_are_a_finding(tmp_path):
    changed = planes()
    for plane in changed:
        for entry in plane.stat_metadata:
            if entry.value.name == b"run_id":
                entry.value.name = b"other"
        for entry in plane.event_metadata:
            if b"PjRt" in entry.value.name:
                entry.value.name = b"Other" + entry.value.name.replace(b"PjRt", b"")
    (tmp_path / "vm.xplane.pb").write_bytes(space(*changed))
    with ingested(tmp_path / "vm.xplane.pb", tmp_path / "w") as warehouse:
        ((launches, ops, *_),) = warehouse.query(COUNTS).rows
        assert (launches, ops) == (0, OPS)
        sql = "select severity, count from issues where code = 'launch_unknown'"
        assert warehouse.query(sql).rows == [("warning", OPS)]


def test_numbers_of_a_process_lead_to_those_of_groups(tmp_path):
    """A process whose local devices 0 to 7 are 8 to 15 of all: executions state both."""
    changed = planes()
    for plane in changed:
        names = {entry.key: entry.value.name for entry in plane.stat_metadata}
        for event in (event for line in plane.lines for event in line.events):
            for stat in event.stats:
                if names[stat.metadata_id] == b"global_device_id":
                    number = stat.int64_value or stat.uint64_value
                    stat.Clear()
                    stat.metadata_id = next(
                        k for k, name in names.items() if name == b"global_device_id"
                    )
                    stat.int64_value = number + 8
    (tmp_path / "vm.xplane.pb").write_bytes(space(*changed))
    with ingested(tmp_path / "vm.xplane.pb", tmp_path / "w") as warehouse:
        sql = "select distinct device_id, local_ordinal from devices where traced order by 1"
        assert warehouse.query(sql).rows == [(8 + k, k) for k in range(8)]
