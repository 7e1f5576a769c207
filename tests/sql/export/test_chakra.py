"""Chakra traces, read back by their published field numbers: nodes, sizes, groups, what waits for what."""

from __future__ import annotations

import json

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from tests.sql.export.test_perfetto import NS, all_reduce, device, op
from tests.warehouse import write_warehouse
from xlahouse.capture.errors import ReportError
from xlahouse.sql import Warehouse
from xlahouse.sql.export.chakra import write_chakra

US = 1_000_000  # ps


def messages():
    """Metadata and Node declared again from mlcommons/chakra's et_def.proto, apart from our tables."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="et.proto", package="et", syntax="proto3")

    def message(name, *fields):
        made = file.message_type.add(name=name)
        for number, label, kind, repeated in fields:
            added = made.field.add(number=number, name=label)
            added.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            if isinstance(kind, str):
                added.type, added.type_name = field.TYPE_MESSAGE, f".et.{kind}"
            else:
                added.type = kind

    text, number = field.TYPE_STRING, field.TYPE_UINT64
    message(
        "Attribute",
        (1, "name", text, False),
        (7, "int32_val", field.TYPE_INT32, False),
        (9, "int64_val", field.TYPE_INT64, False),
        (13, "uint64_val", number, False),
        (27, "bool_val", field.TYPE_BOOL, False),
        (29, "string_val", text, False),
    )
    message("Metadata", (1, "version", text, False), (2, "attr", "Attribute", True))
    message(
        "Node",
        (1, "id", number, False),
        (2, "name", text, False),
        (3, "type", field.TYPE_INT32, False),
        (4, "ctrl_deps", number, True),
        (5, "data_deps", number, True),
        (6, "start_time_micros", number, False),
        (7, "duration_micros", number, False),
        (10, "attr", "Attribute", True),
    )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [
        message_factory.GetMessageClass(pool.FindMessageTypeByName(f"et.{name}"))
        for name in ("Metadata", "Node")
    ]


METADATA, NODE = messages()


def read(path):
    """(attributes of the trace, nodes) of a file of length-prefixed messages."""
    data, place, parts = path.read_bytes(), 0, []
    while place < len(data):
        length = shift = 0
        while True:
            byte = data[place]
            place += 1
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        parts.append(data[place : place + length])
        place += length
    assert place == len(data)
    about = METADATA.FromString(parts[0])
    assert about.version == "0.0.4"
    return attributes(about), [NODE.FromString(part) for part in parts[1:]]


def attributes(message):
    found = {}
    for attribute in message.attr:
        values = [value for field, value in attribute.ListFields() if field.name != "name"]
        found[attribute.name] = values[0] if values else 0
    return found


def beside(node):
    """A node's attributes but for the two that every node has."""
    found = attributes(node)
    assert found.pop("is_cpu_op") == 0
    found.pop("duration_ps")
    return found


def export(tmp_path, given):
    devices = [device(number) for number in (0, 1, 2)]
    devices[2]["traced"] = False
    tables = {"runs": [{"run_id": "ab12", "name": "base"}], "devices": devices}
    root = write_warehouse(tmp_path / "w", tables | given)
    with Warehouse(root) as warehouse:
        paths = write_chakra(warehouse, "base", tmp_path / "out")
    assert [path.name for path in paths] == ["comm_groups.json", "base.0.et", "base.1.et"]
    groups = json.loads(paths[0].read_text())
    return groups, *(read(path) for path in paths[1:])


def work(name, start, duration, **more):
    return (
        op(name, 0, 0, self_ps=duration * US, start_ps=start * US, duration_ps=duration * US) | more
    )


def member(device_id, position, group=0, name="all-reduce.1"):
    return {
        "run_id": "ab12",
        "world": 0,
        "program_id": 1,
        "op": name,
        "group_index": group,
        "position": position,
        "logical_id": device_id,
        "device_id": device_id,
    }


def transfer(device_id, start, duration, **more):
    return all_reduce(device_id, 0, 0) | {
        "start_ps": start * US,
        "duration_ps": duration * US,
        "is_async": False,
        **more,
    }


def test_synchronous_work_is_a_chain(tmp_path):
    given = {
        "ops": [
            work("fusion.1", 10, 4, flops=1e9, bytes_accessed=64.0),
            work("while.1", 10, 20, category="control"),
            work("fusion.2", 30, 6, flops=None),
        ],
        "collectives": [transfer(0, 14, 10), transfer(1, 12, 12)],
        "replica_groups": [member(0, 0), member(1, 1)],
    }
    groups, (about, nodes), (_, others) = export(tmp_path, given)
    assert groups == {"1": [0, 1]}
    assert about["run"] == "base"
    assert about["device_id"] == "0"
    assert [(n.id, n.name, n.type, list(n.ctrl_deps), list(n.data_deps)) for n in nodes] == [
        (0, "fusion.1", 4, [], []),
        (1, "all-reduce.1", 7, [0], []),
        (2, "fusion.2", 4, [1], []),
    ]
    assert [(n.start_time_micros, n.duration_micros) for n in nodes] == [(0, 4), (4, 10), (20, 6)]
    assert [beside(node) for node in nodes] == [
        {"num_ops": 10**9, "tensor_size": 64},
        {"comm_type": 0, "comm_size": 64, "pg_name": "1"},
        {},
    ]
    assert [node.name for node in others] == ["all-reduce.1"]


def test_an_asynchronous_transfer_is_waited_for_by_what_starts_after_it(tmp_path):
    # The transfer flies from 5 to 25: b runs beside it, c starts at its end.
    given = {
        "ops": [work("a", 0, 5), work("b", 5, 10), work("c", 25, 5), work("d", 30, 5)],
        "collectives": [transfer(0, 5, 20, is_async=True, kind="all-gather")],
        "replica_groups": [member(0, 0), member(1, 1)],
    }
    _, (_, nodes), _ = export(tmp_path, given)
    deps = [(n.id, n.name, list(n.ctrl_deps), list(n.data_deps)) for n in nodes]
    assert deps == [
        (0, "a", [], []),
        (1, "all-reduce.1", [0], []),
        (2, "b", [0], []),
        (3, "c", [2], [1]),
        (4, "d", [3], []),
    ]
    assert attributes(nodes[1])["comm_type"] == 2


def test_a_permute_sends_and_receives_between_npus(tmp_path):
    # 0 -> 1 -> 2: device 1 does both, with the same tag on both ends; 2 was not traced.
    pair = {"run_id": "ab12", "world": 0, "program_id": 1, "op": "all-reduce.1"}
    given = {
        "collectives": [
            transfer(number, 0, 3, kind="collective-permute", group_size=3) for number in (0, 1)
        ],
        "permute_pairs": [
            pair | {"source_device_id": 0, "target_device_id": 1},
            pair | {"source_device_id": 1, "target_device_id": 2},
            pair | {"source_device_id": 0, "target_device_id": 0},
        ],
    }
    groups, (_, first), (_, second) = export(tmp_path, given)
    assert groups == {}
    assert [(n.type, beside(n)) for n in first] == [
        (5, {"comm_size": 64, "comm_dst": 1, "comm_tag": 7})
    ]
    assert [(n.type, beside(n)) for n in second] == [
        (5, {"comm_size": 64, "comm_dst": 2, "comm_tag": 7}),
        (6, {"comm_size": 64, "comm_src": 0, "comm_tag": 7}),
    ]
    assert list(second[1].ctrl_deps) == [0]


def test_equal_groups_share_a_number_and_unknown_sizes_are_absent(tmp_path):
    given = {
        "collectives": [
            transfer(0, 0, 1, payload_bytes=None),
            transfer(0, 2, 1, op="other", group_index=1),
        ],
        "replica_groups": [
            member(0, 0),
            member(1, 1),
            member(0, 0, 1, "other"),
            member(1, 1, 1, "other"),
            member(2, 0, 2, "other"),
        ],
    }
    groups, (_, nodes), _ = export(tmp_path, given)
    assert groups == {"1": [0, 1], "2": [2]}
    assert [beside(node) for node in nodes] == [
        {"comm_type": 0, "pg_name": "1"},
        {"comm_type": 0, "comm_size": 64, "pg_name": "1"},
    ]


def test_durations_below_a_microsecond_add_up(tmp_path):
    # Ten ops of 0.6 us, one after the other: 6 us, not 0 and not 10.
    ops = [work(f"f{number}", 0, 0) for number in range(10)]
    for number, row in enumerate(ops):
        row |= {"start_ps": number * 600 * NS, "duration_ps": 600 * NS, "self_ps": 600 * NS}
    _, (_, nodes), _ = export(tmp_path, {"ops": ops})
    assert sum(node.duration_micros for node in nodes) == 6
    assert [attributes(node)["duration_ps"] for node in nodes] == [600_000] * 10


def test_a_run_without_devices_is_refused(tmp_path):
    root = write_warehouse(tmp_path / "w", {"runs": [{"run_id": "ab12", "name": "base"}]})
    with Warehouse(root) as warehouse, pytest.raises(ReportError, match="base: no device"):
        write_chakra(warehouse, "base", tmp_path / "out")
