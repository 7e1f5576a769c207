"""Transfers that a TPU's compiler spreads over a start, fusions that compute, and a done."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.ingest.build import ModuleBuilder, PlaneBuilder, shape, space, tuple_shape, varint
from tests.ingest.traces import rows, write
from xlahouse.ingest.hlo.program import parse_program
from xlahouse.ingest.hlo.program_facts import gather
from xlahouse.ingest.run import ingest_paths

COMPILED = Path(__file__).parents[2] / "cases" / "compiled"
X, WHOLE = shape("f32", 16, 128), shape("f32", 64, 128)
SPREAD = tuple_shape(X, WHOLE)
GATHER = {
    "channel_id": 32,
    "use_global_device_ids": True,
    "groups": [[0, 1, 2, 3]],
    "dimensions": [0],
}


@pytest.fixture(scope="module")
def compiled():
    """deepseek_v2, fsdp4 decode, compiled for v6e-4 (an HloModuleProto)."""
    raw = gzip.decompress(
        (COMPILED / "fsdp4_decode_v6e.libtpu0.0.21.hlo_module.pb.gz").read_bytes()
    )
    return parse_program(b"\x0a" + varint(len(raw)) + raw, 1, "decode")


def entry_facts(program):
    rows = gather([program], "f").ops.iter_rows(named=True)
    by_id = program.computations
    entry = by_id.get(program.proto.entry_computation_id, program.proto.computations[-1])
    names = {each.name.decode() for each in entry.instructions}
    return {row["op"]: row for row in rows if row["op"] in names}


def test_the_compiled_decode_step_has_27_all_gathers(compiled):
    facts = entry_facts(compiled)
    moving = [row for row in facts.values() if row["category"] == "collective"]
    assert sum(row["kind"] == "all-gather" and row["role"] != "done" for row in moving) == 27
    # Every all-gather of the program, each once: 24 by themselves and 3 that are spread.
    assert len({row["transfer_op"] for row in moving}) == 27
    for suffix in ("", ".1", ".2"):
        start, done = (facts[f"async-collective-{role}{suffix}"] for role in ("start", "done"))
        assert (start["role"], done["role"]) == ("start", "done")
        assert done["start_op"] == f"async-collective-start{suffix}"
        assert start["payload_bytes"] == 64 * 128 * 4
    assert [facts[op]["category"] for op in ("fusion.73", "fusion.80", "fusion.87")] == [
        "compute"
    ] * 3


def test_what_goes_on_in_a_fusion_is_no_transfer_of_its_own(compiled):
    found = gather([compiled], "f")
    inner = found.ops.filter(found.ops["op"].is_in(["all-gather.165", "all-gather.167"]))
    assert inner["transfer_op"].to_list() == [None, None]
    assert found.groups.filter(found.groups["op"] == "all-gather.165").is_empty()


def module(*, targets=True, channel=True, middle="async_collective_fusion.7", other=False):
    """A start, a fusion that computes meanwhile, and a done; other: it holds another transfer, too."""
    built = ModuleBuilder("jit_f", devices=[[n] for n in range(4)])
    gather_fields = GATHER if channel else {**GATHER, "channel_id": 0}

    def part(name, result, number, target=""):
        inner = built.computation(name)
        x = built.add(inner, f"p{number}", "parameter", X)
        built.add(inner, f"all-gather.{number}", "all-gather", WHOLE, x, **gather_fields)
        if target and targets:
            built.add(
                inner, f"c{number}", "custom-call", result, x, custom_call_target=target.encode()
            )
        return inner

    begin = part("fused.1", SPREAD, 1, "AsyncCollectiveStart")
    compute = part(middle, SPREAD, 2)
    if other:
        y = built.add(compute, "p9", "parameter", X)
        reduce = {"channel_id": 50, "use_global_device_ids": True, "groups": [[0, 1, 2, 3]]}
        built.add(compute, "all-reduce.9", "all-reduce", X, y, **reduce)
    end = part("fused.3", WHOLE, 3, "AsyncCollectiveDone")
    entry = built.computation("main")
    x = built.add(entry, "x", "parameter", X)
    start = built.add(entry, "async-collective-start.2", "fusion", SPREAD, x, calls=[begin])
    taken = built.add(entry, "gte.1", "get-tuple-element", X, start)
    through = built.add(entry, "fusion.7", "fusion", SPREAD, taken, calls=[compute])
    last = built.add(entry, "gte.2", "get-tuple-element", X, through)
    built.add(entry, "async-collective-done.2", "fusion", WHOLE, last, calls=[end])
    return built


def roles(built):
    facts = entry_facts(parse_program(built.serialize(), 5, "jit_f"))
    return {op: (row["category"], row["role"], row["start_op"]) for op, row in facts.items()}


@pytest.mark.parametrize(
    ("targets", "channel", "middle"),
    [
        (True, True, "async_collective_fusion.7"),
        (False, True, "async_collective_fusion.7"),  # the names say it
        (True, True, "fused_computation.7"),  # the channel says it
        (False, False, "async_collective_fusion.7"),
    ],
)
def test_a_transfer_is_told_by_calls_channels_or_names(targets, channel, middle):
    found = roles(module(targets=targets, channel=channel, middle=middle))
    assert found["async-collective-start.2"] == ("collective", "start", None)
    assert found["async-collective-done.2"] == ("collective", "done", "async-collective-start.2")
    assert found["fusion.7"] == ("compute", "sync", None)


def test_a_fusion_that_transfers_something_else_meanwhile_is_that_transfer():
    assert roles(module(other=True))["fusion.7"] == ("collective", "sync", None)


def test_the_fusions_between_are_compute_that_hides_the_transfer(tmp_path):
    plane = PlaneBuilder("/device:TPU:0", core_details=b"\x28\x00\x30\x00")
    plane.event(plane.line("XLA Modules"), "jit_f(5)", 0, 1000)
    line = plane.line("XLA Ops")
    for name, start, duration in [
        ("async-collective-start.2", 100, 10),
        ("fusion.7", 150, 200),
        ("async-collective-done.2", 360, 40),
    ]:
        plane.event(line, f"%{name}", start, duration, name, {"program_id": 5})
    metadata = PlaneBuilder("/host:metadata")
    metadata.metadata("jit_f(5)", meta={"Hlo Proto": module().serialize()})
    path = write(tmp_path / "a.xplane.pb", space(plane.plane, metadata.plane))
    ingest_paths([path], str(tmp_path / "wh"))
    found = rows(tmp_path / "wh", "collectives").select(
        "kind", "start_ps", "duration_ps", "payload_bytes"
    )
    assert found.rows() == [("all-gather", 100, 300, 32768)]  # from 100 to 400; f32[64,128]
    steps = rows(tmp_path / "wh", "device_steps").select(
        "compute_ps", "collective_ps", "overlapped_ps"
    )
    assert steps.rows() == [(200, 300, 200)]
    assert "collective_unseen" not in set(rows(tmp_path / "wh", "issues")["code"])
