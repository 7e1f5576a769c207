"""The least work of instructions: products and bytes by hand, and of real programs by their shapes."""

from __future__ import annotations

import gzip

import pytest

from tests.ingest.build import ModuleBuilder, shape, tuple_shape
from tests.ingest.compiled.test_buffers import COMPILED, compiled
from xlahouse.ingest.compiled.work import Work
from xlahouse.ingest.events.proto import message_class
from xlahouse.ingest.hlo.program import parse_program

HBM, VMEM = 0, 1


def work_of(built):
    """(work, instruction by name) of a module."""
    program = parse_program(built.serialize(), 1, "m")
    return Work(program), {each.name.decode(): each for _, each in program.instructions()}


def made(opcode, result, *operands, **fields):
    """(flops, bytes) of an instruction on parameters of these shapes."""
    built = ModuleBuilder()
    entry = built.computation("main")
    given = [
        built.add(entry, f"p{place}", "parameter", each, parameter_number=place)
        for place, each in enumerate(operands)
    ]
    built.add(entry, "it", opcode, result, *given, **fields)
    work, named = work_of(built)
    return work.flops(named["it"]), work.hbm_bytes(named["it"])


def test_a_dot_multiplies_and_adds_along_what_it_contracts():
    # 5 batches of [2, 3] x [3, 4]: 2 x 5 x 2 x 4 x 3 = 240; bytes 4 x (30 + 60 + 40).
    numbers = {"lhs_contracting_dimensions": [2], "rhs_contracting_dimensions": [1]}
    numbers |= {"lhs_batch_dimensions": [0], "rhs_batch_dimensions": [0]}
    operands = shape("f32", 5, 2, 3), shape("f32", 5, 3, 4)
    found = made("dot", shape("f32", 5, 2, 4), *operands, dot_dimension_numbers=numbers)
    assert found == (240, 520)


@pytest.mark.parametrize(
    ("window", "given", "out", "met"),
    [
        # A window of 2 over 3 places, one of padding at each side: 4 outputs, of 8 places 2 outside.
        ({"size": 2, "stride": 1, "padding_low": 1, "padding_high": 1}, 3, 4, 6),
        # Every other output of the same: begins at -1 and 1: of 4 places 1 outside.
        ({"size": 2, "stride": 2, "padding_low": 1}, 3, 2, 3),
        # Holes of 1 between 3 places make 5; a window of 1 meets a place of the input at 0, 2 and 4.
        ({"size": 1, "stride": 1, "base_dilation": 2}, 3, 5, 3),
        # A window of 2 whose places are 2 apart, at 0 and at 1 of 3: 0, 2 and 1, not 3.
        ({"size": 2, "stride": 1, "window_dilation": 2, "padding_high": 1}, 3, 2, 3),
    ],
    ids=["padded", "strided", "holes in the input", "holes in the window"],
)
def test_a_convolution_counts_the_places_that_lie_in_its_input(window, given, out, met):
    # 7 inputs of 5 features to 11 features: 2 x 7 x 11 x 5 for each place.
    numbers = {
        "input_batch_dimension": 0,
        "input_spatial_dimensions": [1],
        "input_feature_dimension": 2,
        "kernel_spatial_dimensions": [0],
        "kernel_input_feature_dimension": 1,
        "kernel_output_feature_dimension": 2,
        "output_batch_dimension": 0,
        "output_spatial_dimensions": [1],
        "output_feature_dimension": 2,
    }
    flops, _ = made(
        "convolution",
        shape("f32", 7, out, 11),
        shape("f32", 7, given, 5),
        shape("f32", window["size"], 5, 11),
        window={"dimensions": [window]},
        convolution_dimension_numbers=numbers,
    )
    assert flops == 2 * 7 * 11 * 5 * met


def test_bytes_in_other_memories_are_not_of_hbm():
    big, fast = shape("f32", 100), shape("f32", 100, space=VMEM)
    assert made("add", big, big, fast) == (0, 800)
    assert made("add", fast, fast, fast) == (0, 0)
    # A prefetch: its result is (there, here, flag).
    flag = shape("u32", space=2)
    assert made("copy-start", tuple_shape(fast, big, flag), big) == (0, 400)
    assert made("copy-start", tuple_shape(big, fast, flag), fast) == (0, 400)


def test_parts_count_as_what_is_taken():
    big, part, index = shape("f32", 100), shape("f32", 10), shape("s32", space=VMEM)
    assert made("dynamic-slice", part, big, index) == (0, 80)
    assert made("gather", part, big, index) == (0, 80)
    assert made("dynamic-update-slice", big, big, part, index) == (0, 80)


@pytest.mark.parametrize("opcode", ["tuple", "bitcast", "while", "all-reduce", "copy-done"])
def test_names_and_transfers_have_no_work(opcode):
    assert made(opcode, shape("f32", 100), shape("f32", 100)) == (0, 0)


def test_a_kernel_does_what_hlo_does_not_say():
    big = shape("f32", 100)
    assert made("custom-call", big, big, custom_call_target=b"tpu_custom_call") == (None, 800)
    assert made("custom-call", big, big, custom_call_target=b"X64SplitLow") == (0, 800)
    assert made("custom-call", big, big, custom_call_target=b"ConcatBitcast") == (0, 0)


def test_a_fusion_of_a_fusion_reads_the_slice_that_the_inner_one_takes():
    built = ModuleBuilder()
    big, part = shape("f32", 100), shape("f32", 10)
    inner = built.computation("inner")
    p = built.add(inner, "ip", "parameter", big, parameter_number=0)
    built.add(inner, "ds", "slice", part, p)
    outer = built.computation("outer")
    q = built.add(outer, "op", "parameter", big, parameter_number=0)
    held = built.add(outer, "held", "parameter", big, parameter_number=1)
    seen = built.add(outer, "seen", "bitcast", big, q)
    small = built.add(outer, "f", "fusion", part, seen, calls=[inner])
    again = built.add(outer, "twice", "add", part, small, small)
    built.add(outer, "up", "dynamic-update-slice", big, held, again)
    entry = built.computation("main")
    x = built.add(entry, "x", "parameter", big, parameter_number=0)
    y = built.add(entry, "y", "parameter", big, parameter_number=1)
    built.add(entry, "it", "fusion", big, x, y, calls=[outer])
    work, named = work_of(built)
    # It reads 10 of x and none of y, and writes 10 of them in place: 4 bytes each.
    assert work.hbm_bytes(named["it"]) == 80


@pytest.mark.parametrize(("opcode", "read"), [("negate", 400), ("slice", 40)])
def test_a_fusion_that_only_hands_on_reads_what_its_users_take(opcode, read):
    """libtpu wraps weights in such a fusion, beside the product that reads them."""
    built = ModuleBuilder()
    big, fast = shape("f32", 100), shape("f32", 10, space=VMEM)
    inner = built.computation("inner")
    p = built.add(inner, "ip", "parameter", big, parameter_number=0)
    built.add(inner, "same", "bitcast", big, p)
    outer = built.computation("outer")
    q = built.add(outer, "op", "parameter", big, parameter_number=0)
    held = built.add(outer, "held", "fusion", big, q, calls=[inner])
    built.add(outer, "use", opcode, shape("f32", read // 4), held)
    entry = built.computation("main")
    x = built.add(entry, "x", "parameter", big, parameter_number=0)
    built.add(entry, "it", "fusion", fast, x, calls=[outer])
    built.add(entry, "copy", "fusion", fast, x, calls=[inner])
    work, named = work_of(built)
    # The product's result goes to HBM in this module's shapes: read once, and written.
    assert work.hbm_bytes(named["it"]) == 2 * read
    assert work.hbm_bytes(named["copy"]) == 800


def test_a_real_scan_reads_one_layer_a_round():
    program = compiled("scan_tp4_v6e.libtpu0.0.42.1")
    named = {each.name.decode(): each for _, each in program.instructions()}
    work = Work(program)
    # Two products of [64, 1024] x [1024, 1024]; of two stacks of six bf16 layers, one each, and the round.
    assert work.flops(named["fusion.38"]) == 2 * (2 * 64 * 1024 * 1024)
    assert work.hbm_bytes(named["fusion.38"]) == 2 * (2 * 1024 * 1024) + 4
    # One of eight entries of a cache, read and written in place.
    assert work.hbm_bytes(named["constant_dynamic-update-slice_fusion"]) == 2 * (2 * 64 * 1024)


def test_a_real_batch_of_products_is_a_convolution_with_a_padded_window():
    # The TPU's compiler writes [24, 32] x [8, 32, 32] as a window of 8 over 1 place and 7 of padding.
    raw = gzip.decompress(
        (COMPILED / "fsdp4_decode_v6e.libtpu0.0.21.hlo_module.pb.gz").read_bytes()
    )
    whole = message_class("HloProto")()
    whole.hlo_module.ParseFromString(raw)
    program = parse_program(whole.SerializeToString(), 1, "m")
    found = [
        Work(program).flops(each)
        for _, each in program.instructions()
        if each.opcode == b"convolution"
    ]
    assert found == [2 * 24 * (8 * 32) * 32] * 3


def test_hlo_that_calls_itself_is_read_once():
    # Damaged: two fusions in each of their own computation, which counted by depth would be 2 to the depth.
    built = ModuleBuilder()
    big = shape("f32", 100)
    held = built.computation("held")
    p = built.add(held, "p", "parameter", big, parameter_number=0)
    one = built.add(held, "one", "fusion", big, p, calls=[held])
    two = built.add(held, "two", "fusion", big, one, calls=[held])
    built.add(held, "both", "tuple", tuple_shape(big, big), two, two)
    entry = built.computation("main")
    x = built.add(entry, "x", "parameter", big, parameter_number=0)
    built.add(entry, "it", "fusion", tuple_shape(big, big), x, calls=[held])
    work, named = work_of(built)
    assert work.flops(named["it"]) == 0
    assert work.hbm_bytes(named["it"]) > 0


def test_a_part_of_a_tuple_counts_by_itself():
    built = ModuleBuilder()
    big, part = shape("f32", 100), shape("f32", 10)
    both = tuple_shape(big, part)
    inner = built.computation("inner")
    p = built.add(inner, "p", "parameter", both, parameter_number=0)
    second = built.add(inner, "second", "get-tuple-element", part, p, tuple_index=1)
    built.add(inner, "again", "add", part, second, second)
    entry = built.computation("main")
    x = built.add(entry, "x", "parameter", both, parameter_number=0)
    built.add(entry, "it", "fusion", part, x, calls=[inner])
    work, named = work_of(built)
    assert work.hbm_bytes(named["it"]) == 40 + 40  # read once, and written
