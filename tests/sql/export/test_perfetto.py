"""The Perfetto export, read back with Perfetto's own messages by the rules of its trace processor."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

from tests.command import run_command
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import WarehouseError
from xlahouse.sql import Warehouse
from xlahouse.sql.export.perfetto import write_perfetto
from xlahouse.sql.export.perfetto_slices import lanes

NS = 1000  # ps


def read(path):
    """Tracks, slices and samples of a trace: packets are sorted by time, an end closes the innermost."""
    trace = perfetto_trace_pb2.Trace()
    trace.ParseFromString(path.read_bytes())
    names = defaultdict(dict)
    found = SimpleNamespace(tracks={}, slices=[], samples=[])
    events = []
    assert trace.packet[0].sequence_flags == 1  # state cleared
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        for table, entries in packet.interned_data.ListFields():
            for entry in entries:
                text = entry.str.decode() if hasattr(entry, "str") else entry.name
                names[table.name][entry.iid] = text
        if packet.HasField("track_descriptor"):
            found.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if packet.HasField("track_event"):
            assert packet.sequence_flags == 2
            assert packet.track_event.track_uuid in found.tracks
            events.append(packet)
    opened = defaultdict(list)
    for packet in sorted(events, key=lambda packet: packet.timestamp):
        event, stack = packet.track_event, opened[packet.track_event.track_uuid]
        if event.type == event.TYPE_COUNTER:
            found.samples.append(
                (track(found, event), packet.timestamp, event.double_counter_value)
            )
        elif event.type == event.TYPE_SLICE_BEGIN:
            beside = {}
            for annotation in event.debug_annotations:
                label = names["debug_annotation_names"][annotation.name_iid]
                text = annotation.string_value_iid
                texts = names["debug_annotation_string_values"]
                beside[label] = texts[text] if text else annotation.int_value
            made = SimpleNamespace(
                track=track(found, event),
                name=names["event_names"].get(event.name_iid),
                category=[names["event_categories"][iid] for iid in event.category_iids],
                start=packet.timestamp,
                depth=len(stack),
                flows=list(event.flow_ids),
                beside=beside,
            )
            stack.append(made)
        else:
            assert event.type == event.TYPE_SLICE_END
            closed = stack.pop()
            closed.end = packet.timestamp
            found.slices.append(closed)
    assert not any(opened.values())
    return found


def track(found, event):
    described = found.tracks[event.track_uuid]
    parent = found.tracks.get(described.parent_uuid)
    return (parent.process.process_name if parent else None, described.name)


def device(number):
    return {
        "run_id": "ab12",
        "device_id": number,
        "logical_id": number,
        "world": 0,
        "traced": True,
        "inferred": False,
        "kind": "TPU v6 Lite",
        "plane": f"/device:TPU:{number}",
        "host": "h",
    }


def op(name, start, duration, line="XLA Ops", **more):
    return {
        "run_id": "ab12",
        "device_id": 0,
        "op": name,
        "category": "compute",
        "line": line,
        "is_async": line != "XLA Ops",
        "start_ps": start * NS,
        "duration_ps": duration * NS,
        **more,
    }


def all_reduce(device_id, start, duration, instance=7, **more):
    return {
        "run_id": "ab12",
        "device_id": device_id,
        "program_id": 1,
        "op": "all-reduce.1",
        "kind": "all-reduce",
        "instance": instance,
        "group_index": 0,
        "group_size": 2,
        "payload_bytes": 64,
        "start_ps": start * NS,
        "duration_ps": duration * NS,
        **more,
    }


def export(tmp_path, given):
    tables = {"runs": [{"run_id": "ab12", "name": "base"}], "devices": [device(0), device(1)]}
    root = write_warehouse(tmp_path / "w", tables | given)
    with Warehouse(root) as warehouse:
        count = write_perfetto(warehouse, "base", tmp_path / "t.pftrace")
    return count, read(tmp_path / "t.pftrace")


def spans(found, line):
    return sorted(
        (s.name, s.start - 1, s.end - 1, s.depth) for s in found.slices if s.track[1] == line
    )


def test_ops_nest_as_they_do_on_their_line(tmp_path):
    given = [
        op("while.1", 0, 100),
        op("fusion.1", 0, 40),
        op("fusion.2", 40, 0),
        op("fusion.3", 40, 60),
        op("fusion.4", 100, 5, phase="decode", request=0, step=3, layer=2, component="mlp"),
    ]
    count, found = export(tmp_path, {"ops": given})
    assert count == 5
    # Times are ns after the shift of 1 that keeps Perfetto from a time of 0.
    assert spans(found, "XLA Ops") == [
        ("fusion.1", 0, 40, 1),
        ("fusion.2", 40, 40, 2),  # where fusion.3 begins, hence inside it
        ("fusion.3", 40, 100, 1),
        ("fusion.4", 100, 105, 0),
        ("while.1", 0, 100, 0),
    ]
    (last,) = (s for s in found.slices if s.name == "fusion.4")
    assert last.beside == {"detail": "decode request 0 step 3 layer 2 mlp"}
    assert last.category == ["compute"]
    assert last.track[0] == "TPU v6 Lite 0 /device:TPU:0 h"


def test_times_below_a_nanosecond_keep_their_order(tmp_path):
    rows = [op("a", 0, 0) | {"start_ps": 100, "duration_ps": 200}]
    rows += [op("b", 0, 0) | {"start_ps": 300, "duration_ps": 1_800}]
    _, found = export(tmp_path, {"ops": rows})
    assert spans(found, "XLA Ops") == [("a", 0, 0, 0), ("b", 0, 2, 0)]


def test_transfers_in_flight_at_once_get_lanes(tmp_path):
    rows = [op(name, start, 10, "Async XLA Ops") for name, start in (("a", 0), ("b", 5), ("c", 10))]
    _, found = export(tmp_path, {"ops": rows})
    assert spans(found, "Async XLA Ops") == [("a", 0, 10, 0), ("c", 10, 20, 0)]
    assert spans(found, "Async XLA Ops (1)") == [("b", 5, 15, 0)]


def test_arrows_join_the_participants_of_an_instance_and_no_others(tmp_path):
    given = {
        "collectives": [
            all_reduce(0, 0, 10),
            all_reduce(1, 2, 8),
            all_reduce(0, 20, 10, instance=8),
            all_reduce(0, 40, 1, instance=9, group_size=1),
        ]
    }
    _, found = export(tmp_path, given)
    by_flow = defaultdict(set)
    for each in found.slices:
        for flow in each.flows:
            by_flow[flow].add((each.track[0].split()[3], each.start - 1))
    assert sorted(map(sorted, by_flow.values())) == [[("0", 0), ("1", 2)], [("0", 20)]]
    first = min(found.slices, key=lambda each: each.start)
    # Without a mesh the axis is unknown; two members of 64 bytes each send 2 * 1/2 * 64.
    assert first.track[1] == "collectives over unclassified"
    assert first.beside == {"payload_bytes": 64, "wire_bytes": 64, "group_size": 2}


def test_hosts_and_counters_have_their_tracks(tmp_path):
    event = {"run_id": "ab12", "host": "h", "thread": "python", "name": "step", "start_ps": -5 * NS}
    given = {
        "phases": [
            {"run_id": "ab12", "host": "h", "phase": "prefill", "start_ps": 0, "duration_ps": NS}
        ],
        "host_events": [event | {"duration_ps": 3 * NS}],
        "counters": [
            {"run_id": "ab12", "device_id": 0, "name": "power", "start_ps": 2 * NS, "value": 2.5},
            {"run_id": "ab12", "device_id": None, "name": "x_bytes", "start_ps": 0, "value": 1.0},
        ],
        "ops": [op("a", 0, 1)],
    }
    _, found = export(tmp_path, given)
    # The earliest time, -5 ns, becomes 1.
    assert {(s.track, s.name, s.start, s.end) for s in found.slices} == {
        (("host h", "phases"), "prefill", 6, 7),
        (("host h", "python"), "step", 1, 4),
        (("TPU v6 Lite 0 /device:TPU:0 h", "XLA Ops"), "a", 6, 7),
    }
    assert sorted(found.samples, key=str) == [
        (("TPU v6 Lite 0 /device:TPU:0 h", "power"), 8, 2.5),
        ((None, "x_bytes"), 6, 1.0),
    ]
    assert {t.counter.unit_name for t in found.tracks.values() if t.HasField("counter")} == {
        "",
        "bytes",
    }


def test_a_run_without_events_is_an_empty_trace(tmp_path):
    count, found = export(tmp_path, {})
    assert (count, found.slices) == (0, [])


def test_names_are_data(tmp_path):
    text = 'é "<script>" \x01'
    _, found = export(tmp_path, {"ops": [op(text, 0, 1)]})
    assert [each.name for each in found.slices] == [text]


def test_the_command_writes_a_file_or_a_folder(tmp_path, monkeypatch, capsys):
    runs = [{"run_id": f"ab{number}", "name": name} for number, name in enumerate("a/a")]
    root = write_warehouse(tmp_path / "w", {"runs": runs})

    def command(*words):
        code = run_command(monkeypatch, "export", "perfetto", *words, "-w", root)
        return code, capsys.readouterr()

    out = tmp_path / "out"
    assert command("ab1", "-o", str(out / "one.pftrace"))[0] == 0
    code, said = command("ab0", "ab1", "ab2", "-o", str(out))
    assert code == 0
    assert said.out.split() == [str(out / f"{name}.pftrace") for name in ("a-ab0", "ab1", "a-ab2")]
    assert len(list(out.glob("*.pftrace"))) == 4
    code, said = command("x", "-o", str(out))
    assert code == 1
    assert "no run 'x'" in said.err


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    root = write_warehouse(tmp_path / "w", {"runs": [{"run_id": "ab12", "name": "base"}]})
    with Warehouse(root) as warehouse, pytest.raises(WarehouseError):
        write_perfetto(warehouse, "other", tmp_path / "t.pftrace")
    assert [path.name for path in tmp_path.iterdir()] == ["w"]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), min_size=1), st.booleans())
def test_no_two_slices_of_a_lane_cross(slices, nested):
    frame = pl.DataFrame(slices, schema=["start_ps", "duration_ps"], orient="row")
    frame = frame.sort("start_ps", "duration_ps", descending=[False, True])
    rows = frame.with_columns(lanes(frame, nested)).rows()
    for place, (start, duration, lane) in enumerate(rows):
        for other, length, other_lane in rows[:place]:
            if lane != other_lane:
                continue
            overlap = start < other + length
            inside = start + duration <= other + length
            assert not overlap or (nested and inside), (rows, place)
