"""Collectives that a program has and its executions never showed."""

from __future__ import annotations

import polars as pl

from tests.ingest.build import ModuleBuilder, PlaneBuilder, shape, space
from tests.ingest.traces import rows, write
from xlahouse.ingest.run import ingest_paths


def codes(tmp_path, shown, launched=True):
    """Issues of a program with the all-reduces `a` and, in a fusion `f`, `b`; ops shown on a device."""
    module = ModuleBuilder("jit_f", devices=[[0], [1]])
    both = {"channel_id": 1, "use_global_device_ids": True, "groups": [[0, 1]]}
    inner = module.computation("fused")
    p = module.add(inner, "p", "parameter", shape("f32", 8))
    module.add(inner, "b", "all-reduce", shape("f32", 8), p, **both)
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", shape("f32", 8))
    module.add(entry, "a", "all-reduce", shape("f32", 8), x, **both)
    module.add(entry, "f", "fusion", shape("f32", 8), x, calls=[inner])
    metadata = PlaneBuilder("/host:metadata")
    metadata.metadata("jit_f(77)", meta={"Hlo Proto": module.serialize()})
    plane = PlaneBuilder("/device:TPU:0", core_details=b"")
    if launched:
        plane.event(plane.line("XLA Modules"), "jit_f(77)", 0, 100)
    line = plane.line("XLA Ops")
    for number, op in enumerate(shown):
        plane.event(line, f"%{op} = f32[8] x()", number * 10, 5, op, {"program_id": 77})
    path = write(tmp_path / "a.xplane.pb", space(metadata.plane, plane.plane))
    ingest_paths([path], str(tmp_path / "wh"))
    found = rows(tmp_path / "wh", "issues").filter(pl.col("code") == "collective_unseen")
    return found.select("message", "count").rows()


def test_each_collective_of_a_program_that_ran_is_expected_once(tmp_path):
    ((message, count),) = codes(tmp_path, ["x"])
    assert count == 2
    assert "a, b" in message


def test_a_fusion_shows_the_collective_that_it_holds(tmp_path):
    assert codes(tmp_path, ["a", "f"]) == []


def test_a_program_that_did_not_run_lacks_nothing(tmp_path):
    assert codes(tmp_path, ["x"], launched=False) == []
