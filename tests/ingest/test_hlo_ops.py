"""Category, kind, payload and partner of instructions, on modules of a few instructions."""

from __future__ import annotations

import pytest

from tests.ingest.build import ModuleBuilder, shape, tuple_shape
from xlahouse.ingest.hlo import instruction_rows, parse_program
from xlahouse.ingest.hlo_ops import op_facts

X = shape("f32", 8, 16)  # 512 bytes


def facts_of(module, instruction):
    program = parse_program(module.serialize(), 1, "m")
    return op_facts(program, program.by_id[instruction.id])


@pytest.fixture
def module():
    return ModuleBuilder()


def test_all_reduce_payload_is_its_operand(module):
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", X)
    facts = facts_of(module, module.add(entry, "psum.896", "all-reduce", X, x))
    assert (facts.category, facts.kind, facts.role) == ("collective", "all-reduce", "sync")
    assert (facts.payload_bytes, facts.dtype) == (512, "f32")


def test_gather_payload_is_the_result_and_scatter_payload_the_operand(module):
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", X)
    gathered = module.add(entry, "ag", "all-gather", shape("f32", 32, 16), x)
    scattered = module.add(entry, "rs", "reduce-scatter", shape("f32", 2, 16), x)
    assert facts_of(module, gathered).payload_bytes == 2048
    assert facts_of(module, scattered).payload_bytes == 512


def test_all_gather_start_carries_operand_and_result(module):
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", X)
    result = tuple_shape(X, shape("f32", 32, 16))
    start = module.add(entry, "all-gather-start", "all-gather-start", result, x)
    done = module.add(entry, "all-gather-done", "all-gather-done", shape("f32", 32, 16), start)
    assert facts_of(module, start).payload_bytes == 2048
    facts = facts_of(module, done)
    assert (facts.role, facts.start_op, facts.kind) == ("done", "all-gather-start", "all-gather")


def test_combined_all_reduce_adds_up_and_leaves_the_appended_scalar_out(module):
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", X)
    y = module.add(entry, "y", "parameter", shape("bf16", 4))
    token = module.add(entry, "t", "parameter", shape("f32"))
    result = tuple_shape(X, shape("bf16", 4), shape("f32"))
    facts = facts_of(module, module.add(entry, "ar", "all-reduce", result, x, y, token))
    assert facts.payload_bytes == 512 + 8


def test_a_lone_scalar_is_data(module):
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", shape("f32"))
    assert (
        facts_of(module, module.add(entry, "ar", "all-reduce", shape("f32"), x)).payload_bytes == 4
    )


def test_async_start_that_calls_a_collective_is_one(module):
    inner = module.computation("async_computation")
    p = module.add(inner, "p", "parameter", X)
    module.add(inner, "rs", "reduce-scatter", shape("f32", 2, 16), p)
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", X)
    wrapped = tuple_shape(tuple_shape(X, shape("token")), shape("f32", 2, 16))
    start = module.add(entry, "async-start", "async-start", wrapped, x, calls=[inner])
    update = module.add(entry, "async-update", "async-update", wrapped, start)
    done = module.add(entry, "async-done", "async-done", shape("f32", 2, 16), update)
    assert facts_of(module, start).payload_bytes == 512
    facts = facts_of(module, done)
    assert (facts.kind, facts.role, facts.start_op) == ("reduce-scatter", "done", "async-start")


def test_fusion_that_only_slices_its_all_reduce_is_a_reduce_scatter(module):
    fused = module.computation("fused")
    p = module.add(fused, "p", "parameter", X)
    index = module.add(fused, "i", "parameter", shape("s32"))
    reduced = module.add(fused, "ar", "all-reduce", X, p)
    view = module.add(fused, "b", "bitcast", X, reduced)
    module.add(fused, "ds", "dynamic-slice", shape("f32", 2, 16), view, index)
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", X)
    fusion = module.add(
        entry, "all-reduce-scatter", "fusion", shape("f32", 2, 16), x, calls=[fused]
    )
    facts = facts_of(module, fusion)
    assert (facts.kind, facts.payload_bytes) == ("reduce-scatter", 512)


def test_fusion_that_also_adds_stays_an_all_reduce(module):
    fused = module.computation("fused")
    p = module.add(fused, "p", "parameter", X)
    reduced = module.add(fused, "ar", "all-reduce", X, p)
    module.add(fused, "add", "add", X, reduced, p)
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", X)
    fusion = module.add(entry, "fusion", "fusion", X, x, calls=[fused])
    assert facts_of(module, fusion).kind == "all-reduce"


def test_permute_start_counts_its_operand_once(module):
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", X)
    result = tuple_shape(X, X, shape("u32"), shape("u32"))
    start = module.add(entry, "cp", "collective-permute-start", result, x, pairs=[(0, 1)])
    assert facts_of(module, start).payload_bytes == 512


def test_local_broadcast_and_named_like_a_collective_are_compute(module):
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", shape("f32"))
    for name, opcode in (
        ("broadcast.2", "broadcast"),
        ("all-reduce.fake", "add"),
        ("copy.1", "copy"),
    ):
        facts = facts_of(module, module.add(entry, name, opcode, X, x))
        assert (facts.category, facts.kind) == ("compute", None)


@pytest.mark.parametrize(("space", "category"), [(5, "host_transfer"), (1, "copy")])
def test_copies_by_memory_space(module, space, category):
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", X)
    there = shape("f32", 8, 16, space=space)
    start = module.add(entry, "copy-start", "copy-start", tuple_shape(there, X, shape("u32")), x)
    done = module.add(entry, "copy-done", "copy-done", there, start)
    assert facts_of(module, start).category == category
    facts = facts_of(module, done)
    assert (facts.category, facts.role, facts.start_op) == (category, "done", "copy-start")


@pytest.mark.parametrize(
    ("opcode", "category"), [("dynamic-slice", "copy"), ("multiply", "compute")]
)
def test_async_wrapper_is_what_it_calls(module, opcode, category):
    inner = module.computation("inner")
    p = module.add(inner, "p", "parameter", X)
    module.add(inner, "r", opcode, X, p)
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", X)
    start = module.add(entry, "s", "async-start", tuple_shape(X, X), x, calls=[inner])
    assert facts_of(module, start).category == category


def test_control(module):
    body = module.computation("body")
    module.add(body, "p", "parameter", X)
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", X)
    for opcode in ("while", "call", "conditional"):
        assert (
            facts_of(module, module.add(entry, opcode, opcode, X, x, calls=[body])).category
            == "control"
        )


def test_send_and_recv(module):
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", X)
    token = module.add(entry, "t", "after-all", shape("token"))
    sent = tuple_shape(X, shape("u32"), shape("token"))
    send = module.add(entry, "send", "send", sent, x, token, channel_id=1)
    done = module.add(entry, "send-done", "send-done", shape("token"), send, channel_id=1)
    recv = module.add(entry, "recv", "recv", sent, token, channel_id=1)
    host = module.add(entry, "send.h", "send", sent, x, token, channel_id=2, is_host_transfer=True)
    assert (facts_of(module, send).kind, facts_of(module, send).payload_bytes) == ("send-recv", 512)
    assert (facts_of(module, send).role, facts_of(module, done).start_op) == ("start", "send")
    assert facts_of(module, recv).payload_bytes == 0
    assert facts_of(module, host).category == "host_transfer"


def test_instruction_rows_carry_scope_and_shape(module):
    fused = module.computation("fused")
    p = module.add(fused, "p", "parameter", X)
    module.add(
        fused, "dot", "dot", X, p, op_name="model.layers.3.7/model.layers.3.self_attn.4/aten__mm"
    )
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", X)
    module.add(entry, "fusion", "fusion", X, x, calls=[fused])
    rows = instruction_rows(parse_program(module.serialize(), 7, "m"))
    fusion = next(row for row in rows if row["op"] == "fusion")
    # the fusion has no op_name of its own; the root of what it calls decides its scope
    assert (fusion["framework_op"], fusion["layer"], fusion["component"]) == (None, 3, "attention")
    assert (fusion["called"], fusion["operands"], fusion["program_id"]) == ("fused", "x", 7)
    assert (fusion["shape"], fusion["dims"], fusion["logical_bytes"]) == (
        "f32[8,16]{1,0}",
        [8, 16],
        512,
    )


def test_damaged_hlo_is_a_value_error():
    with pytest.raises(ValueError, match="HLO of m is damaged"):
        parse_program(b"\x0a\xff\xff", 1, "m")
