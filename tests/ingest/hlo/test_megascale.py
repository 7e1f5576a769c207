"""Collectives between slices of TPUs, which HLO writes as sends and recvs of the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ingest.build import PlaneBuilder, space
from xlahouse.ingest.hlo.megascale import slices_of
from xlahouse.ingest.hlo.module_text import read_module_text
from xlahouse.ingest.hlo.program_facts import gather
from xlahouse.ingest.run import ingest_paths
from xlahouse.sql.warehouse import Warehouse

CASES = Path(__file__).parents[2] / "cases" / "transfers"
PS = 10**6  # a microsecond
TOLD = (
    'is_host_transfer=true, frontend_attributes={{_xla_host_transfer_handler_name="xla_megascale_runtime",'
    '_xla_host_transfer_rendezvous="r.1_0",_xla_megascale_target="{target}",'
    '_xla_megascale_transfer_type="{kind}"}}'
)


def text(kind="ALL_REDUCE", target="{1,2}x{0:3}", taken="f32[64]", given="f32[64]", told=TOLD):
    told = told.format(kind=kind, target=target)
    return f"""HloModule jit_f, is_scheduled=true, num_partitions=8

ENTRY %main (x: {taken}) -> {given} {{
  %x = {taken} parameter(0)
  %tok = token[] after-all()
  %send.1 = ({taken}, u32[], token[]) send(%x, %tok), channel_id=7, {told}
  %recv.1 = ({given}, u32[], token[]) recv(%tok), channel_id=8, {told}
  %send-done.1 = token[] send-done(%send.1), channel_id=7, is_host_transfer=true
  ROOT %recv-done.1 = ({given}, token[]) recv-done(%recv.1), channel_id=8, is_host_transfer=true
}}
"""


def facts(**options):
    read = read_module_text(text(**options), 5, "f")
    assert not read.problems
    found = gather([read.program], "f")
    columns = ("role", "kind", "start_op", "payload_bytes", "over_dcn", "category")
    return {op: row for op, *row in found.ops.select("op", *columns).rows()}, found


def test_a_send_and_a_recv_of_one_rendezvous_are_one_transfer():
    rows, found = facts()
    assert rows["send.1"] == ["start", "all-reduce", None, 256, True, "collective"]
    assert rows["recv-done.1"] == ["done", "all-reduce", "send.1", 256, True, "collective"]
    assert {rows[op][0] for op in ("recv.1", "send-done.1")} == {"update"}
    # {1,2}x{0:3}: devices 0 to 3 are slice 0, 4 to 7 slice 1, and each reduces with its like in the other.
    groups = (
        found.groups.filter(found.groups["op"] == "send.1")
        .group_by("group_index")
        .agg("logical_id")
    )
    assert sorted(groups["logical_id"].to_list()) == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert found.slices == {device: device // 4 for device in range(8)}


@pytest.mark.parametrize(
    ("kind", "taken", "given", "expected"),
    [
        ("ALL_GATHER", "f32[64]", "f32[128]", ("all-gather", 512)),  # S: what all have after it
        ("REDUCE_SCATTER", "f32[64]", "f32[32]", ("reduce-scatter", 256)),
        ("ALL_TO_ALL", "f32[64]", "f32[64]", ("all-to-all", 256)),
        ("ONE_TO_ONE", "f32[64]", "f32[64]", ("send-recv", 256)),
        ("SOMETHING_NEW", "f32[64]", "f32[64]", ("send-recv", 256)),
    ],
)
def test_the_type_of_a_transfer_is_its_kind(kind, taken, given, expected):
    rows, _ = facts(kind=kind, taken=taken, given=given)
    assert (rows["send.1"][1], rows["send.1"][3]) == expected


@pytest.mark.parametrize("target", ["{1,2}x{0:7}", "{1,2,3}x{0:3}", "", "{1,2}x{0:3"])
def test_a_target_that_is_not_the_whole_program_tells_no_groups(target):
    rows, found = facts(target=target)
    assert rows["send.1"][:2] == ["start", "all-reduce"]
    assert found.groups.is_empty()
    assert found.slices == {}


def test_slices_hold_devices_that_follow_one_another():
    assert slices_of(b"{1,2}x{0:1}", [7, 4, 5, 6]) == [[4, 5], [6, 7]]


def test_another_host_transfer_is_none():
    rows, _ = facts(told="is_host_transfer=true")
    assert {row[-1] for op, row in rows.items() if op[:4] in ("send", "recv")} == {"host_transfer"}


def test_attributes_of_another_name_leave_open_what_a_send_does():
    """After a release that renames them: a transfer to the host has no word of Megascale."""
    renamed = TOLD.replace("_xla_host_transfer_handler_name", "_xla_handler").replace(
        "_type", "_kind"
    )
    _, found = facts(told=renamed)
    assert {row["op"] for row in found.ops.to_dicts() if row["communicates"]} == {
        "send.1",
        "recv.1",
    }
    for told in (TOLD, "is_host_transfer=true"):
        assert not facts(told=told)[1].ops["communicates"].any()


@pytest.mark.parametrize("dump", [None, str(CASES / "megascale_dcn_hlo")])
def test_the_all_reduce_between_slices_is_seen(dump, tmp_path):
    path = str(CASES / "megascale_dcn")
    ingest_paths([path], str(tmp_path), name="x", hlo_dump=dump)
    with Warehouse(str(tmp_path)) as warehouse:
        sql = """
            select device_id, step, kind, payload_bytes, duration_ps, over_dcn, count(*)
            from collectives group by all
        """
        found = warehouse.query(sql).rows
        # bf16[7680,1024]; from the send at 200 to the end of the recv-done at 600
        assert len(found) == 6  # two devices, three steps
        assert {row[2:] for row in found} == {("all-reduce", 7680 * 1024 * 2, 400 * PS, True, 1)}
        sql = "select distinct collective_ps, overlapped_ps, exposed_ps from device_time"
        # fusion.2 hides 210 to 300
        assert warehouse.query(sql).rows == [(400 * PS, 90 * PS, 310 * PS)]


@pytest.mark.parametrize("dump", [None, str(CASES / "megascale_dcn_hlo")])
def test_what_a_transfer_between_slices_costs(dump, tmp_path):
    """The send runs 200 to 205, the recv to 210, the send-done 300 to 310, the recv-done to 600.

    Slack: 310 - 200, less 5 + 5 + 10. Of two slices each sends 2 x 1/2 x S.
    """
    ingest_paths([str(CASES / "megascale_dcn")], str(tmp_path), name="x", hlo_dump=dump)
    sql = """
        select rendezvous, slice_count, wire_bytes, in_flight_ps, stall_ps, slack_ps,
            required_bytes_per_s, host_event_count, count(*)
        from dcn_transfer group by all
    """
    size = 7680 * 1024 * 2
    with Warehouse(str(tmp_path)) as warehouse:
        ((*found, rate, events, count),) = warehouse.query(sql).rows
    assert found == ["all-reduce.271_0", 2, size, 400 * PS, 310 * PS, 90 * PS]
    assert (rate, events, count) == (pytest.approx(size / 90e-6), 0, 6)


def test_events_of_megascale_are_linked_to_their_transfer_by_name(tmp_path):
    """The network's part of the first step ends at 590, 280 after the recv-done begins to wait."""
    (trace,) = (CASES / "megascale_dcn").rglob("*.xplane.pb")
    host = PlaneBuilder("/device:CUSTOM:Megascale Trace")
    line = host.line("network")
    host.event(line, "device_1200001_gid_all-reduce.271_0", 220 * PS, 370 * PS)
    host.event(line, "device_1200001_gid_all-reduce.99_0", 220 * PS, 370 * PS)
    (tmp_path / "h.xplane.pb").write_bytes(trace.read_bytes() + space(host.plane, hostnames=()))
    ingest_paths([str(tmp_path / "h.xplane.pb")], str(tmp_path / "w"))
    sql = "select distinct step, host_event_count, host_ps, host_stall_ps from dcn_transfer order by 1"
    with Warehouse(str(tmp_path / "w")) as warehouse:
        assert warehouse.query(sql).rows == [
            (0, 1, 370 * PS, 280 * PS),
            (1, 0, None, None),
            (2, 0, None, None),
        ]
