"""Lowers collectives: synchronous ones, start and done pairs, and the fusions that hide them."""

from __future__ import annotations

from tests.synth.hlo import Computation, Instruction, Shape
from tests.synth.lowering import Lowering, called_computation
from tests.synth.programs import permute_pairs, written_groups
from tests.synth.segments import Segment

SCALAR = Shape("f32")


def _attributes(lowering: Lowering, segment: Segment) -> dict:
    """Groups or pairs, and the channel, of the next collective."""
    written = written_groups(lowering.run, lowering.program, segment, lowering.collectives)
    lowering.collectives += 1
    channel = lowering.collectives if written.channel else 0
    if segment.transfer.kind == "collective-permute":
        return {"pairs": permute_pairs(written.groups), "channel_id": channel}
    dimension = None if segment.transfer.kind == "all-reduce" else 0
    return {"groups": written, "channel_id": channel, "dimension": dimension}


def _members(lowering: Lowering, segment: Segment) -> int:
    return len(lowering.program.local_groups(segment)[0])


def _all_reduce(lowering, body, segment, value, attributes) -> Instruction:
    add = {"calls": "add", "calls_key": "to_apply"}
    operand = lowering.fitted(body, value, segment.transfer.dims)
    if not lowering.run.appended_scalar:
        op = Instruction(segment.op, "all-reduce", operand.shape, (operand,), **add, **attributes)
        return lowering.traced(body, segment, op)
    scalar = body.add(Instruction(f"{segment.op}.scalar", "constant", SCALAR))
    pair = Shape("tuple", parts=(operand.shape, SCALAR))
    op = Instruction(segment.op, "all-reduce", pair, (operand, scalar), **add, **attributes)
    op = lowering.traced(body, segment, op)
    return body.add(Instruction(f"{segment.op}.gte", "get-tuple-element", operand.shape, (op,)))


def _reduce_scatter(lowering, body, segment, value, attributes) -> Instruction:
    dims = segment.transfer.dims
    part = lowering.array((dims[0] // _members(lowering, segment), *dims[1:]))
    operand, add = lowering.fitted(body, value, dims), {"calls": "add", "calls_key": "to_apply"}
    if not lowering.run.fused_scatter:
        op = Instruction(segment.op, "reduce-scatter", part, (operand,), **add, **attributes)
        return lowering.traced(body, segment, op)
    source = Instruction(f"{segment.op}.param", "parameter", operand.shape)
    attributes = {**attributes, "dimension": None}
    reduce = Instruction(
        f"{segment.op}.sum", "all-reduce", operand.shape, (source,), **add, **attributes
    )
    index = Instruction(f"{segment.op}.index", "partition-id", Shape("u32"))
    slice_ = Instruction(f"{segment.op}.slice", "dynamic-slice", part, (reduce, index, index))
    called = called_computation(
        lowering, f"all-reduce-scatter.{segment.op}", [source, reduce, index, slice_]
    )
    op = Instruction(segment.op, "fusion", part, (operand,), calls=called)
    return lowering.traced(body, segment, op)


def lower_sync(lowering: Lowering, body: Computation, segment: Segment, value: Instruction):
    """A synchronous collective, as the value that follows."""
    transfer, attributes = segment.transfer, _attributes(lowering, segment)
    if transfer.kind == "all-reduce":
        return _all_reduce(lowering, body, segment, value, attributes)
    if transfer.kind == "reduce-scatter":
        return _reduce_scatter(lowering, body, segment, value, attributes)
    dims = transfer.dims
    if transfer.kind == "all-gather":
        dims = (dims[0] // _members(lowering, segment), *dims[1:])
    operand = lowering.fitted(body, value, dims)
    op = Instruction(
        segment.op, transfer.kind, lowering.array(transfer.dims), (operand,), **attributes
    )
    return lowering.traced(body, segment, op)


def lower_start(
    lowering: Lowering, body: Computation, segment: Segment, value: Instruction
) -> None:
    """The start op of an async collective; a gather's operand is a weight."""
    kind, dims = segment.transfer.kind, segment.transfer.dims
    attributes = _attributes(lowering, segment)
    if kind == "all-reduce":
        attributes |= {"calls": "add", "calls_key": "to_apply"}
    if kind == "all-gather":
        part = lowering.array((dims[0] // _members(lowering, segment), *dims[1:]))
        operand = body.add(Instruction(f"{segment.op}.weight", "parameter", part))
    else:
        operand = lowering.fitted(body, value, dims)
    wrap = _wrapped if lowering.run.wrapped_async else _plain
    lowering.traced(body, segment, wrap(lowering, segment, operand, attributes))


def _plain(lowering, segment, operand, attributes) -> Instruction:
    """Its shape: an all-reduce's result alone, else operand, result, a permute's two scalars."""
    kind, whole = segment.transfer.kind, lowering.array(segment.transfer.dims)
    extra = (Shape("u32"),) * 2 if kind == "collective-permute" else ()
    pair = Shape("tuple", parts=(operand.shape, whole, *extra))
    shape = whole if kind == "all-reduce" else pair
    return Instruction(segment.op, f"{kind}-start", shape, (operand,), **attributes)


def _wrapped(lowering, segment, operand, attributes) -> Instruction:
    """An async-start that calls a computation with the collective, on a thread of its own."""
    kind, whole = segment.transfer.kind, lowering.array(segment.transfer.dims)
    source = Instruction(f"{segment.op}.param", "parameter", operand.shape)
    inner = Instruction(f"{segment.op}.inner", kind, whole, (source,), **attributes)
    called = called_computation(lowering, f"async.{segment.op}", [source, inner])
    shape = Shape("tuple", parts=(Shape("tuple", parts=(operand.shape,)), whole, Shape("s32")))
    return Instruction(
        segment.op, "async-start", shape, (operand,), calls=called, thread="sparsecore"
    )


def lower_done(lowering: Lowering, body: Computation, segment: Segment) -> Instruction:
    """The done op of an async collective."""
    start = lowering.ops[segment.pair]
    whole = lowering.array(segment.transfer.dims)
    opcode = start.opcode.replace("-start", "-done")
    calls = start.calls if start.opcode == "async-start" else ""
    return lowering.traced(
        body, segment, Instruction(segment.op, opcode, whole, (start,), calls=calls)
    )
