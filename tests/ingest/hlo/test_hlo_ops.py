"""Category, kind, payload and partner of instructions, on modules of a few instructions."""

from __future__ import annotations

import pytest

from tests.ingest.build import ModuleBuilder, shape, tuple_shape
from xlahouse.ingest.hlo.ops import op_facts
from xlahouse.ingest.hlo.program import instruction_rows, parse_program

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


def wrapped(module, opcode, *inner, result=X, operand=None):
    """A wrapper around a computation with these (opcode, result) on one parameter each."""
    called = module.computation(f"c{module._next}")
    p = module.add(called, f"p{module._next}", "parameter", X)
    for kind, shaped in inner:
        module.add(called, f"{kind}.{module._next}", kind, shaped, p)
    entry = module.computation(f"e{module._next}")
    x = operand or module.add(entry, f"x{module._next}", "parameter", X)
    return entry, module.add(entry, f"w{module._next}", opcode, result, x, calls=[called])


def test_fusions_around_the_halves_of_a_pair_are_its_halves(module):
    gathered = shape("f32", 16, 16)
    entry, start = wrapped(module, "fusion", ("all-gather-start", tuple_shape(X, gathered)))
    called = module.computation("done_computation")
    p = module.add(called, "q", "parameter", tuple_shape(X, gathered))
    module.add(called, "d", "all-gather-done", gathered, p)
    done = module.add(entry, "done", "fusion", gathered, start, calls=[called])
    assert (facts_of(module, start).role, facts_of(module, start).payload_bytes) == ("start", 1024)
    facts = facts_of(module, done)
    assert (facts.role, facts.start_op, facts.kind) == ("done", start.name.decode(), "all-gather")


def test_a_fusion_of_two_all_reduces_adds_them(module):
    _, fusion = wrapped(module, "fusion", ("all-reduce", X), ("all-reduce", X))
    assert facts_of(module, fusion).payload_bytes == 1024


def test_a_constant_slice_makes_no_reduce_scatter(module):
    called = module.computation("c")
    p = module.add(called, "p", "parameter", X)
    reduced = module.add(called, "ar", "all-reduce", X, p)
    module.add(called, "s", "slice", shape("f32", 7, 16), reduced)
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", X)
    fusion = module.add(entry, "f", "fusion", shape("f32", 7, 16), x, calls=[called])
    assert facts_of(module, fusion).kind == "all-reduce"


@pytest.mark.parametrize(
    ("groups", "taken", "kind"),
    [
        ([[0, 1, 2, 3]], (2, 16), "reduce-scatter"),  # a quarter of 8 rows for each of 4
        ([[0, 1], [2, 3]], (4, 16), "reduce-scatter"),
        ([[0, 1, 2]], (3, 16), "reduce-scatter"),  # 8 rows among 3: padded to 9
        ([[0, 1]], (2, 8), "all-reduce"),  # a quarter for each of 2: half of it is lost
        ([[0, 1, 2, 3]], (4, 8), "reduce-scatter"),  # halves of both dimensions for each of 4
        ([[0, 1]], (1, 16), "all-reduce"),  # a row, as a loop takes one after the other
        ([[0, 1, 2, 3]], (4, 16), "all-reduce"),  # half of it for each of 4: two get the same
        ([[0, 1], [2, 3, 4]], (2, 16), "reduce-scatter"),  # sizes differ: nothing speaks against it
    ],
)
def test_a_reduce_scatter_leaves_each_member_its_share(module, groups, taken, kind):
    called = module.computation("c")
    p = module.add(called, "p", "parameter", X)
    index = module.add(called, "i", "parameter", shape("s32"))
    reduced = module.add(called, "ar", "all-reduce", X, p, groups=groups)
    module.add(called, "ds", "dynamic-slice", shape("f32", *taken), reduced, index)
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", X)
    fusion = module.add(entry, "f", "fusion", shape("f32", *taken), x, calls=[called])
    assert facts_of(module, fusion).kind == kind


def test_an_async_fusion_that_slices_is_a_reduce_scatter(module):
    called = module.computation("c")
    p = module.add(called, "p", "parameter", X)
    index = module.add(called, "i", "parameter", shape("s32"))
    reduced = module.add(called, "ar", "all-reduce", X, p)
    module.add(called, "ds", "dynamic-slice", shape("f32", 2, 16), reduced, index)
    middle = module.computation("m")
    q = module.add(middle, "q", "parameter", X)
    module.add(middle, "f", "fusion", shape("f32", 2, 16), q, calls=[called])
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", X)
    start = module.add(entry, "s", "async-start", tuple_shape(X, X), x, calls=[middle])
    assert facts_of(module, start).kind == "reduce-scatter"


def test_a_call_in_a_wrapper_is_looked_into(module):
    inner = module.computation("inner")
    p = module.add(inner, "p", "parameter", X)
    module.add(inner, "ar", "all-reduce", X, p)
    middle = module.computation("middle")
    q = module.add(middle, "q", "parameter", X)
    module.add(middle, "call", "call", X, q, calls=[inner])
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", X)
    start = module.add(entry, "s", "async-start", tuple_shape(X, X), x, calls=[middle])
    assert (facts_of(module, start).kind, facts_of(module, start).role) == ("all-reduce", "start")


def test_a_done_whose_start_lies_outside_is_still_a_collective(module):
    body = module.computation("body")
    carried = module.add(body, "p", "parameter", tuple_shape(X, X))
    done = module.add(body, "agd", "all-gather-done", X, carried)
    facts = facts_of(module, done)
    assert (facts.category, facts.kind, facts.role) == ("collective", "all-gather", "done")
    assert (facts.start_op, facts.payload_bytes) == (None, None)


def test_a_done_takes_the_tuple_element_that_it_names(module):
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", X)
    first = module.add(entry, "s0", "all-gather-start", tuple_shape(X, X), x)
    second = module.add(entry, "s1", "collective-permute-start", tuple_shape(X, X), x)
    pair = module.add(entry, "t", "tuple", tuple_shape(X, X), first, second)
    taken = module.add(entry, "g", "get-tuple-element", X, pair, tuple_index=1)
    done = module.add(entry, "d", "collective-permute-done", X, taken)
    assert facts_of(module, done).start_op == "s1"


def test_four_arrays_in_one_permute_all_count_and_offsets_do_not(module):
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", X)
    offset = module.add(entry, "o", "parameter", shape("s32"))
    combined = module.add(entry, "c4", "collective-permute", tuple_shape(X, X, X, X), x, x, x, x)
    in_place = module.add(entry, "ip", "collective-permute", X, x, x, offset, offset)
    assert facts_of(module, combined).payload_bytes == 2048
    assert facts_of(module, in_place).payload_bytes == 512


def test_two_scalars_are_data(module):
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", shape("f32"))
    both = module.add(entry, "ar", "all-reduce", tuple_shape(shape("f32"), shape("f32")), x, x)
    assert facts_of(module, both).payload_bytes == 8


def test_a_synchronous_copy_to_the_host_is_a_host_transfer(module):
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", X)
    copied = module.add(entry, "c", "copy", shape("f32", 8, 16, space=5), x)
    assert facts_of(module, copied).category == "host_transfer"


def test_hlo_that_calls_itself_ends(module):
    called = module.computation("c")
    p = module.add(called, "p", "parameter", X)
    fusion = module.add(called, "f", "fusion", X, p, calls=[called])
    assert facts_of(module, fusion).category == "compute"
