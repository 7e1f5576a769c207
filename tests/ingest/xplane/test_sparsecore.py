from __future__ import annotations

from itertools import permutations

import polars as pl
import pytest

from tests.ingest.build import ModuleBuilder, PlaneBuilder, shape, space, tuple_shape
from tests.ingest.traces import rows, write
from tests.layers import first_few
from xlahouse.capture.manifest import MeshAxis
from xlahouse.ingest.run import ingest_paths


def metadata():
    """An all-reduce between devices 4 and 5, offloaded: async-start and async-done."""
    module = ModuleBuilder("jit_f", devices=[[4], [5]])
    f32 = shape("f32", 256)
    inner = module.computation("async_computation")
    p = module.add(inner, "p", "parameter", f32)
    groups = {"channel_id": 1, "use_global_device_ids": True, "groups": [[0, 1]]}
    module.add(inner, "all-reduce.7", "all-reduce", f32, p, **groups)
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", f32)
    wrapped = tuple_shape(tuple_shape(f32), f32)
    called = {"calls": [inner], "async_execution_thread": b"sparsecore"}
    start = module.add(entry, "ar-start", "async-start", wrapped, x, **called)
    module.add(entry, "ar-done", "async-done", f32, start)
    plane = PlaneBuilder("/host:metadata")
    plane.metadata("jit_f(77)", meta={"Hlo Proto": module.serialize()})
    return plane


def tensorcore(ordinal):
    number = 4 + ordinal
    plane = PlaneBuilder(
        f"/device:TPU:{ordinal}",
        core_details=bytes([0x28, number, 0x30, number]),
        device_type_string="TPU7x",
    )
    plane.event(plane.line("XLA Modules"), "jit_f(77)", 1000, 5000)
    line = plane.line("XLA Ops")
    meta = {"program_id": 77}
    plane.event(
        line, "%ar-start = ((f32[256]), f32[256]) async-start()", 2000, 10, "ar-start", meta
    )
    plane.event(line, "%ar-done = f32[256] async-done()", 3000, 100, "ar-done", meta)
    return plane


def sparsecore(ordinal, core):
    plane = PlaneBuilder(f"/device:TPU:{ordinal} SparseCore {core}")
    modules = plane.line("Sparse Core Modules")
    plane.event(modules, "sc_offload(0)", 2010, 1000, tc_offload_start_id=1, offload_core_id=core)
    line = plane.line("Sparse Core Ops")
    text = "%all-reduce.7 = f32[256] all-reduce(f32[256] %p)"
    plane.event(line, text, 2020, 900, "all-reduce.7", {"program_id": 77})
    return plane


@pytest.mark.parametrize("order", first_few(list(map(list, permutations(range(3))))[::-1], 2))
def test_the_order_of_planes_tells_nothing(tmp_path, order):
    """A SparseCore is a part of its TensorCore's chip, be it written before or after it."""
    planes = [tensorcore(1), sparsecore(1, 1), metadata()]
    raw = space(*(planes[place].plane for place in order))
    ingest_paths([write(tmp_path / "a.xplane.pb", raw)], str(tmp_path / "wh"))
    traced = rows(tmp_path / "wh", "devices").filter("traced").sort("device_id")
    # 2^20, and 16 numbers for the SparseCores of each device: core 1 of device 5
    assert traced.select("device_id", "core", "chip_id", "kind").rows() == [
        (5, "tensorcore", 5, "TPU7x"),
        ((1 << 20) + 5 * 16 + 1, "sparsecore", 5, "TPU7x SparseCore"),
    ]
    assert "device_number_assumed" not in set(rows(tmp_path / "wh", "issues")["code"])


def test_offloaded_work_is_kept_and_not_counted_twice(tmp_path):
    planes = [metadata(), tensorcore(0), sparsecore(0, 0), sparsecore(0, 1), tensorcore(1)]
    path = write(tmp_path / "a.xplane.pb", space(*(plane.plane for plane in planes)))
    (result,) = ingest_paths([path], str(tmp_path / "wh"), mesh=[MeshAxis("tp", 2)])
    assert result.status == "complete"
    found = rows(tmp_path / "wh", "collectives").sort("device_id")
    assert found.select("device_id", "kind", "payload_bytes", "duration_ps").rows() == [
        (4, "all-reduce", 1024, 1100),
        (5, "all-reduce", 1024, 1100),
    ]
    devices = rows(tmp_path / "wh", "devices").sort("device_id")
    assert devices.select("core", "logical_id", "kind").rows() == [
        ("tensorcore", 4, "TPU7x"),
        ("tensorcore", 5, "TPU7x"),
        ("sparsecore", None, "TPU7x SparseCore"),
        ("sparsecore", None, "TPU7x SparseCore"),
    ]
    offloaded = rows(tmp_path / "wh", "ops").filter(pl.col("line") == "Sparse Core Ops")
    assert offloaded["op"].to_list() == ["all-reduce.7", "all-reduce.7"]
    assert offloaded["is_async"].all()
    assert offloaded["self_ps"].to_list() == [900, 900]
    modules = rows(tmp_path / "wh", "host_events")
    assert modules["thread"].to_list() == [
        "/device:TPU:0 SparseCore 0/Sparse Core Modules",
        "/device:TPU:0 SparseCore 1/Sparse Core Modules",
    ]
    assert all("tc_offload_start_id" in args for args in modules["args"])
    (file,) = (tmp_path / "wh" / "tables" / "runs").glob("*.parquet")
    run = pl.read_parquet(file).row(0, named=True)
    assert (run["device_count"], run["expected_device_count"]) == (2, 2)
    assert run["device_kind"] == "TPU7x"
    busy = rows(tmp_path / "wh", "busy_intervals")
    assert set(busy["device_id"]) == {4, 5}


def test_a_sparsecore_whose_tensorcore_is_not_in_the_file(tmp_path):
    path = write(tmp_path / "a.xplane.pb", space(sparsecore(3, 1).plane))
    ingest_paths([path], str(tmp_path / "wh"))
    assert "device_number_assumed" in set(rows(tmp_path / "wh", "issues")["code"])
    assert rows(tmp_path / "wh", "ops").height == 1
