"""Wrappers whose computation is not known: what their own text states about the transfer within."""

from __future__ import annotations

import pytest

from xlahouse.ingest.hlo.module_text import program_of_instructions
from xlahouse.ingest.hlo.program_facts import gather

FOUR_TIMES = "((bf16[2,128]{1,0}), bf16[8,128]{1,0}, s32[])"
GATHER = f"%async-start = {FOUR_TIMES} async-start(bf16[2,128]{{1,0}} %weight), calls=%async.1"
UNKNOWN = (None, None, None, None)


def told(*texts):
    """(kind, dtype, operand_bytes, result_bytes) of the last op."""
    read = program_of_instructions(texts, 1, "jit_step", "f")
    assert not read.problems
    columns = ("kind", "dtype", "operand_bytes", "result_bytes")
    return gather([read.program], "f").ops.select(columns).row(-1)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        # 2 x 128 x 2 bytes in, 8 x 128 x 2 out: no copy and no slice gives more than it takes.
        (GATHER, ("all-gather", "bf16", 512, 2048)),
        # Named after a kind that keeps sizes, and it does.
        (
            "%all-reduce-start.7 = ((f32[64]), f32[64], s32[]) async-start(f32[64] %x), calls=%c",
            ("all-reduce", "f32", 256, 256),
        ),
        # Two arrays at once.
        (
            "%all-gather-start = ((f32[2], s8[4,4]), (f32[4], s8[8,4]), u32[]) "
            "async-start(f32[2] %x, s8[4,4] %y), calls=%c",
            ("all-gather", "f32", 24, 48),
        ),
        # The result is a part: a slice as well as a reduce-scatter may do that.
        (
            "%async-start.2 = ((f32[64]), f32[16], s32[]) async-start(f32[64] %x), calls=%c",
            (None, "f32", 256, 64),
        ),
        (
            "%slice-start.2 = ((f32[64]), f32[16], s32[]) async-start(f32[64] %x), calls=%c",
            (None, "f32", 256, 64),
        ),
        # The name says what the shapes deny.
        (
            "%all-gather-start = ((f32[64]), f32[16], s32[]) async-start(f32[64] %x), calls=%c",
            (None, "f32", 256, 64),
        ),
        # A fusion that holds an all-reduce and slices it; the scalar places the slice.
        (
            "%reduce-scatter.3 = f32[2,8] fusion(f32[8,8] %x, u32[] %place), calls=%c",
            ("reduce-scatter", "f32", 256, 64),
        ),
        # What a fusion gives may be larger without any transfer.
        ("%fusion.1 = f32[8,8] fusion(f32[2,8] %x), calls=%c", (None, "f32", 64, 256)),
        ("%all-reduce.1 = f32[8] fusion(f32[8] %x, f32[8] %y), calls=%c", UNKNOWN),
        ("%all-reduce.1 = f32[8] fusion(bf16[8] %x), calls=%c", UNKNOWN),
        ("%all-gather.1 = f32[9] fusion(f32[2] %x), calls=%c", UNKNOWN),
        ("%all-gather.1 = f32[4,4] fusion(f32[2,2] %x), calls=%c", UNKNOWN),
    ],
)
def test_kind_and_sizes_of_a_wrapper(text, found):
    assert told(text) == found


def test_a_done_is_what_its_start_is():
    done = f"%async-done = bf16[8,128]{{1,0}} async-done({FOUR_TIMES} %async-start), calls=%async.1"
    assert told(GATHER, done) == ("all-gather", "bf16", 512, 2048)
    assert told(done) == ("all-gather", "bf16", 512, 2048)  # its operand's shape is in its own text


def test_the_kind_that_a_wrapper_tells_is_said_to_be_inferred():
    program = program_of_instructions([GATHER], 1, "jit_step", "f").program
    found = {issue.code: issue.count for issue in gather([program], "f").issues}
    assert found["kind_inferred"] == 1
