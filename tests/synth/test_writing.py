"""The writers themselves: bytes that protobuf reads, repeats that are copies, JSON as the exporter's."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from decimal import Decimal

import numpy as np
import pytest

from tests.synth.cases import CASES
from tests.synth.chrome import write_chrome
from tests.synth.decode import decode
from tests.synth.describe import Run
from tests.synth.mesh import iota_along, write_groups
from tests.synth.planes import Line
from tests.synth.protos import MESSAGES
from tests.synth.varints import INT64, UINT64, EventBatch, StatColumn, encode, encoded_size
from tests.synth.write import write_run


def read_line(line):
    """A line's bytes as its plane holds them, read by protobuf."""
    plane = MESSAGES["XPlane"].FromString(b"".join(line.pieces(line.size())))
    return plane.lines[0]


@pytest.mark.parametrize("value", [0, 1, 127, 128, 16_383, 16_384, 1 << 35, (1 << 63) - 1])
def test_varints_of_every_length(value):
    array = np.array([value, value])
    links = np.array([2**64 - 1, 2**63], dtype=np.uint64)
    present = np.array([True, False])
    stats = (StatColumn(5, INT64, links), StatColumn(6, UINT64, array, present))
    line = read_line(Line(3, "XLA Ops", lambda: [EventBatch(array, array, array, stats)], 7))
    assert (line.id, line.name, line.timestamp_ns) == (3, "XLA Ops", 7)
    for event in line.events:
        assert (event.metadata_id, event.offset_ps, event.duration_ps) == (value,) * 3
    assert [event.stats[0].int64_value for event in line.events] == [-1, -(1 << 63)]
    assert [len(event.stats) for event in line.events] == [2, 1]
    assert line.events[0].stats[1].uint64_value == value


def test_a_repeated_batch_is_the_batch_after_each_base():
    # Bases over which offsets grow from 1 to 9 bytes.
    bases = np.array([0, 3, 120, 130, 16_300, 16_400, 1 << 30, 1 << 34, 1 << 62])
    offsets = np.array([0, 5, 9])
    stats = (
        StatColumn(1, UINT64, offsets, moves=True),
        StatColumn(2, UINT64, np.array([7, 8, 9]), np.array([True, False, True])),
    )
    batch = EventBatch(np.array([1, 2, 300]), offsets, np.array([0, 200, 1]), stats, bases)
    expected = b"".join(encode(batch.at(int(base)) for base in bases))
    assert b"".join(encode([batch])) == expected
    assert encoded_size([batch]) == len(expected)


def test_many_steps_are_written_in_chunks_and_read_back(tmp_path):
    # 2 devices x 2,001 steps x (2 + 2 x 4) ops, some of them in repeats of several lengths.
    run = Run(mesh=(("tp", 2),), output_tokens=2_001)
    (path,) = write_run(run, tmp_path)
    lines = Counter(event.line for event in decode([path]).devices[0])
    assert lines["XLA Ops"] == 2_001 * 10
    assert lines["XLA Modules"] == lines["Steps"] == 2_001


def test_fusions_split_what_a_layer_computes(tmp_path):
    # 2 layers x 2 halves x (3 fusions and an all-reduce), the embedding and the head
    run = Run(mesh=(("tp", 2),), output_tokens=2, fusions=3)
    (path,) = write_run(run, tmp_path)
    lines = Counter(event.line for event in decode([path]).devices[0])
    assert lines["XLA Ops"] == 2 * (2 * 2 * (3 + 1) + 2)


def test_iotas_print_as_hlo_prints_them():
    # The all-reduce of the v6e sample: groups {0,4} {1,5} {2,6} {3,7}.
    assert str(iota_along((2, 4), 0)) == "[4,2]<=[2,4]T(1,0)"
    assert str(iota_along((2, 4), 1)) == "[2,4]<=[8]"
    written = write_groups((("dp", 2), ("tp", 4)), "dp", "list", "flattened", 1)
    assert written.text == "{{0,4},{1,5},{2,6},{3,7}}"


def test_mesh_notation_prints_as_hlo_prints_it():
    mesh = (("dp", 2), ("tp", 4))
    whole = write_groups(mesh, "dp", "mesh", "flattened", 1)
    assert whole.text == "mesh['axis_0'=2,'axis_1'=4] {'axis_0'}"
    part = write_groups(mesh, "tp", "sub_axis", "flattened", 1)
    assert part.text == "mesh['axis_0'=8] {'axis_0':(2)4}"
    assert part.groups == ((0, 1, 2, 3), (4, 5, 6, 7))


def test_groups_of_replicas_and_partitions():
    mesh = (("dp", 2), ("tp", 4))
    partitions = write_groups(mesh, "tp", "empty", "partitions", 2)
    assert (partitions.text, partitions.groups) == ("{}", ((0, 1, 2, 3),))
    replicas = write_groups(mesh, "dp", "list", "replicas", 2)
    assert (replicas.groups, replicas.channel) == (((0, 1),), False)
    with pytest.raises(ValueError, match="within a replica"):
        write_groups(mesh, "dp", "list", "partitions", 2)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """(decoded XSpaces, their Chrome exports' texts) of a run with everything in it."""
    run = CASES["dp_tp_skewed_without_barriers"]
    paths = write_run(run, tmp_path_factory.mktemp("chrome"))
    texts = [gzip.decompress(path.read_bytes()).decode() for path in write_chrome(paths)]
    return decode(paths), texts


def test_chrome_has_every_event_to_the_picosecond(exported):
    decoded, (text,) = exported
    document = json.loads(text, parse_float=Decimal)
    found = Counter(
        (event["name"], round(event["ts"] * 10**6), round(event["dur"] * 10**6))
        for event in document["traceEvents"]
        if event.get("ph") == "X"
    )
    events = [*decoded.host, *(e for device in decoded.devices.values() for e in device)]
    assert found == Counter((e.display or e.name, e.start, e.duration or 1) for e in events)


def test_chrome_is_printed_as_the_exporter_prints_it(exported):
    text = exported[1][0]
    document = json.loads(text)
    assert text.startswith(
        '{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":['
    )
    assert document["traceEvents"][-1] == {}
    args = [e["args"] for e in document["traceEvents"] if e.get("ph") == "X" and "args" in e]
    assert all(isinstance(value, str) for values in args for value in values.values())
    assert not any("program_id" in values for values in args)
    names = {
        e["args"]["name"]
        for e in document["traceEvents"]
        if e.get("ph") == "M" and "name" in e["args"]
    }
    assert {"/device:TPU:0", "/device:TPU:3", "/host:CPU", "XLA Ops"} <= names


def test_chrome_keeps_the_earliest_events_at_its_cap(tmp_path):
    paths = write_run(CASES["tp4"], tmp_path)
    (path,) = write_chrome(paths, most=50)
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    kept = [event for event in events if event.get("ph") == "X"]
    assert len(kept) == 50
    assert all(event["name"] != "xlahouse.decode" for event in kept)
