"""Files that call programs by one id: the same program, another one, or one on devices of its own."""

from __future__ import annotations

import polars as pl
import pytest

from tests.ingest.build import ModuleBuilder, PlaneBuilder, shape, space
from tests.ingest.traces import rows, write
from xlahouse.ingest.events import codes_of_names
from xlahouse.ingest.events.issues import Code
from xlahouse.ingest.events.proto import message_class
from xlahouse.ingest.run import ingest_paths

GROUP = [0, 1, 2, 3]  # partitions
# What such small traces lack: waits, scopes, a host, its links, the kind of the devices.
NAMES_MISSED = {code.code for code in vars(codes_of_names).values() if isinstance(code, Code)}


def module(length, devices, group=GROUP, op_name=""):
    """An all-reduce of f32[length] among partitions."""
    built = ModuleBuilder("jit_f", devices=[[device] for device in devices])
    entry = built.computation("main")
    x = built.add(entry, "x", "parameter", shape("f32", length))
    fields = {"channel_id": 1, "use_global_device_ids": True, "groups": [group]}
    reduced = built.add(
        entry, "ar.1", "all-reduce", shape("f32", length), x, op_name=op_name, **fields
    )
    built.add(entry, "neg.1", "negate", shape("f32", length), reduced)
    return built


def host(path, devices, hlo=None, names=("ar.1",)):
    """A host's trace of program 5 at 100 to 900 ps on each device; each op takes 100 ps."""
    planes = []
    for local, number in enumerate(devices):
        details = message_class("CoreDetails")(global_core_id=number).SerializeToString()
        plane = PlaneBuilder(f"/device:TPU:{local}", core_details=details)
        plane.event(plane.line("XLA Modules"), "jit_f(5)", 100, 800)
        line = plane.line("XLA Ops")
        for place, name in enumerate(names):
            title = f"%{name} = f32[8]{{0}} {OPCODES[name]}(f32[8]{{0}} %x)"
            at = 200 + 100 * place
            plane.event(line, title, at, 100, display=name, meta={"program_id": 5})
        planes.append(plane.plane)
    if hlo is not None:
        metadata = PlaneBuilder("/host:metadata")
        metadata.metadata("jit_f(5)", meta={"Hlo Proto": hlo.serialize()})
        planes.append(metadata.plane)
    planes.append(PlaneBuilder("Task Environment", profile_start_time=5_000_000).plane)
    return write(path, space(*planes, hostnames=(path.name[:2],)))


OPCODES = {"ar.1": "all-reduce", "neg.1": "negate", "fusion.7": "fusion"}


def ingest(tmp_path):
    ingest_paths([str(tmp_path)], str(tmp_path / "wh"), name="r")
    found = rows(tmp_path / "wh", "collectives").sort("device_id")
    files = (tmp_path / "wh").glob("tables/issues/*/*.parquet")
    codes = {code for file in files for code in pl.read_parquet(file)["code"]}
    return found, codes - NAMES_MISSED


COLUMNS = ["device_id", "payload_bytes", "group_size", "instance"]


def test_the_same_program_on_two_hosts_is_one(tmp_path):
    """What a compiler notes beside an instruction differs, such as where its source lies."""
    for name, devices in (("h0", [0, 1]), ("h1", [2, 3])):
        host(tmp_path / f"{name}.xplane.pb", devices, module(8, GROUP, op_name=name))
    found, codes = ingest(tmp_path)
    # f32[8]: 32 bytes, among all 4
    assert found.select(COLUMNS).rows() == [(number, 32, 4, 0) for number in range(4)]
    assert codes == set()


def test_different_programs_of_one_id_keep_their_own_sizes(tmp_path):
    host(tmp_path / "h0.xplane.pb", [0, 1], module(8, [0, 1], [0, 1]))
    host(tmp_path / "h1.xplane.pb", [2, 3], module(1024, [2, 3], [0, 1]))
    found, codes = ingest(tmp_path)
    by_size = found.group_by("payload_bytes").agg(pl.len(), pl.col("instance").n_unique())
    # f32[8] and f32[1024], each on two devices at once
    assert by_size.sort("payload_bytes").rows() == [(32, 2, 1), (4096, 2, 1)]
    assert "program_conflict" in codes


def test_one_program_on_devices_of_its_own_in_each_process_has_groups_in_each(tmp_path):
    host(tmp_path / "h0.xplane.pb", [0, 1], module(8, [0, 1], [0, 1]))
    host(tmp_path / "h1.xplane.pb", [2, 3], module(8, [2, 3], [0, 1]))
    found, codes = ingest(tmp_path)
    groups = rows(tmp_path / "wh", "replica_groups").sort("group_index", "position")
    assert groups.select("group_index", "device_id").rows() == [(0, 0), (0, 1), (1, 2), (1, 3)]
    assert found.select("device_id", "group_index", "group_size").rows() == [
        (0, 0, 2),
        (1, 0, 2),
        (2, 1, 2),
        (3, 1, 2),
    ]
    per_group = found.group_by("group_index").agg(pl.col("instance").n_unique())
    assert per_group["instance"].to_list() == [1, 1]
    assert found["instance"].n_unique() == 2
    assert codes == {"clocks_unconnected"}  # no group spans both processes


def test_one_program_on_shared_devices_in_different_groups_has_none(tmp_path):
    host(tmp_path / "h0.xplane.pb", [0, 1], module(8, [0, 1], [0, 1]))
    host(tmp_path / "h1.xplane.pb", [2, 3], module(8, [1, 2], [0, 1]))
    found, codes = ingest(tmp_path)
    assert found["group_size"].to_list() == [None] * 4
    assert "bad_replica_groups" in codes


@pytest.mark.parametrize("order", [("h0", "h1"), ("h1", "h0")])
def test_hlo_of_one_host_serves_the_other_whatever_their_order(tmp_path, order):
    """Without HLO, groups would be those in the names of ops, which have none here."""
    whole, bare = order
    host(tmp_path / f"{whole}.xplane.pb", [0, 1], module(8, GROUP))
    host(tmp_path / f"{bare}.xplane.pb", [2, 3])
    found, codes = ingest(tmp_path)
    assert found.select(COLUMNS).rows() == [(number, 32, 4, 0) for number in range(4)]
    assert codes == set()


@pytest.mark.parametrize("order", [("h0", "h1"), ("h1", "h0")])
def test_names_of_ops_of_all_hosts_add_up(tmp_path, order):
    first, second = order
    host(tmp_path / f"{first}.xplane.pb", [0, 1], names=("ar.1",))
    host(tmp_path / f"{second}.xplane.pb", [2, 3], names=("neg.1",))
    found, _ = ingest(tmp_path)
    assert found["payload_bytes"].to_list() == [32, 32]
    instructions = rows(tmp_path / "wh", "instructions")
    assert sorted(instructions["op"].to_list()) == ["ar.1", "neg.1"]
