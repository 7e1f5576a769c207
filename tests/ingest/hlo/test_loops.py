"""Transfers that one round of a loop begins and the next one, or what follows the loop, ends."""

from __future__ import annotations

import pytest

from tests.ingest.build import ModuleBuilder, PlaneBuilder, shape, space, tuple_shape
from tests.ingest.traces import rows, write
from xlahouse.ingest.hlo.module_text import read_module_text
from xlahouse.ingest.hlo.program import parse_program
from xlahouse.ingest.hlo.transfer import begun_before_loops, start_of
from xlahouse.ingest.run import ingest_paths

X, N = shape("f32", 256), shape("s32")
CARRIED = tuple_shape(N, X)
REDUCE = {"channel_id": 1, "use_global_device_ids": True, "groups": [[0, 1]]}


def module(place=1):
    """A loop that carries a started all-reduce at a place of its tuple: each round ends what the one
    before it began, the first one what began before the loop, and after the loop the last one ends."""
    built = ModuleBuilder("jit_f", devices=[[0], [1]])
    carried = CARRIED if place else tuple_shape(X, N)

    def taken(computation, name, value, at):
        kind = X if at == place else N
        return built.add(computation, name, "get-tuple-element", kind, value, tuple_index=at)

    def packed(computation, name, started, number):
        parts = (number, started) if place else (started, number)
        return built.add(computation, name, "tuple", carried, *parts)

    body = built.computation("body")
    state = built.add(body, "state", "parameter", carried)
    ended = built.add(body, "done.2", "all-reduce-done", X, taken(body, "t", state, place))
    begun = built.add(body, "start.2", "all-reduce-start", X, ended, **REDUCE)
    packed(body, "next", begun, taken(body, "n", state, 1 - place))
    condition = built.computation("condition")
    built.add(condition, "c", "parameter", carried)
    built.add(condition, "go_on", "constant", shape("pred"))
    entry = built.computation("main")
    x = built.add(entry, "x", "parameter", X)
    first = built.add(entry, "start.1", "all-reduce-start", X, x, **REDUCE)
    zero = built.add(entry, "zero", "constant", N)
    given = packed(entry, "given", first, zero)
    loop = built.add(entry, "while.1", "while", carried, given, calls=[body, condition])
    built.add(entry, "done.9", "all-reduce-done", X, taken(entry, "last", loop, place))
    return built


@pytest.mark.parametrize("place", [0, 1])
def test_dones_take_the_start_that_the_loop_carries(place):
    program = parse_program(module(place).serialize(), 5, "jit_f")
    by_name = {each.name.decode(): each for _, each in program.instructions()}
    assert [start_of(program, by_name[name]).name for name in ("done.2", "done.9")] == [
        b"start.2",
        b"start.2",
    ]
    assert begun_before_loops(program) == {by_name["start.1"].id: "start.2"}


def test_each_start_is_ended_by_the_done_that_follows_it(tmp_path):
    events = [  # name, start, duration; three transfers in two rounds
        ("start.1", 100, 10), ("done.2", 300, 50), ("start.2", 400, 10),
        ("done.2", 600, 50), ("start.2", 700, 10), ("done.9", 900, 50),
    ]  # fmt: skip
    plane = PlaneBuilder("/device:TPU:0", core_details=b"\x28\x00\x30\x00")
    plane.event(plane.line("XLA Modules"), "jit_f(5)", 50, 1000)
    line = plane.line("XLA Ops")
    for name, start, duration in events:
        plane.event(line, f"%{name}", start, duration, name, {"program_id": 5})
    metadata = PlaneBuilder("/host:metadata")
    metadata.metadata("jit_f(5)", meta={"Hlo Proto": module().serialize()})
    path = write(tmp_path / "a.xplane.pb", space(plane.plane, metadata.plane))
    ingest_paths([path], str(tmp_path / "wh"))
    found = rows(tmp_path / "wh", "collectives").sort("start_ps")
    columns = ["op", "start_ps", "duration_ps", "issue_ps", "wait_ps", "payload_bytes"]
    # in flight from 100 to 350, from 400 to 650, from 700 to 950; f32[256] each
    assert found.select(columns).rows() == [
        ("start.1", 100, 250, 10, 50, 1024),
        ("start.2", 400, 250, 10, 50, 1024),
        ("start.2", 700, 250, 10, 50, 1024),
    ]
    assert found["group_size"].to_list() == [2, 2, 2]
    assert "async_unpaired" not in set(rows(tmp_path / "wh", "issues")["code"])


def test_a_text_names_the_condition_first():
    text = """HloModule m
%condition (c: (s32[], f32[8])) -> pred[] {
  %c = (s32[], f32[8]) parameter(0)
  ROOT %go_on = pred[] constant(true)
}
%body (state: (s32[], f32[8])) -> (s32[], f32[8]) {
  %state = (s32[], f32[8]) parameter(0)
  %n = s32[] get-tuple-element(%state), index=0
  %t = f32[8] get-tuple-element(%state), index=1
  %done = f32[8] all-reduce-done(%t)
  %start = f32[8] all-reduce-start(%done), replica_groups={{0,1}}
  ROOT %next = (s32[], f32[8]) tuple(%n, %start)
}
ENTRY %main (x: (s32[], f32[8])) -> (s32[], f32[8]) {
  %x = (s32[], f32[8]) parameter(0)
  ROOT %loop = (s32[], f32[8]) while(%x), condition=%condition, body=%body
}
"""
    program = read_module_text(text, 5, "m.txt").program
    (done,) = (each for _, each in program.instructions() if each.name == b"done")
    assert start_of(program, done).name == b"start"
    assert begun_before_loops(program) == {}  # what began before it is not in this text


def test_a_value_that_a_loop_hands_round_unchanged_has_no_start():
    built = ModuleBuilder("jit_f")
    body = built.computation("body")
    state = built.add(body, "state", "parameter", CARRIED)
    parts = [
        built.add(body, f"t{at}", "get-tuple-element", kind, state, tuple_index=at)
        for at, kind in enumerate((N, X))
    ]
    done = built.add(body, "done", "all-reduce-done", X, parts[1])
    built.add(body, "next", "tuple", CARRIED, *parts)
    entry = built.computation("main")
    x = built.add(entry, "x", "parameter", CARRIED)
    built.add(entry, "loop", "while", CARRIED, x, calls=[body])
    program = parse_program(built.serialize(), 5, "jit_f")
    assert start_of(program, program.by_id[done.id]) is None
