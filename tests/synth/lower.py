"""Lowers a program's recipe to HLO, as a TPU compiler would leave it: one instruction an op."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from tests.synth.describe import Run
from tests.synth.hlo import Computation, Instruction, Shape, fill_module
from tests.synth.programs import Program, permute_pairs, written_groups
from tests.synth.protos import HloProto
from tests.synth.segments import Segment

SCOPES = {"attention": "self_attn", "mlp": "mlp"}
SCALAR = Shape("f32")
HOST, VMEM = 5, 1


@dataclass
class Lowered:
    """A program's computations, callees first, and its traced instructions by op name."""

    computations: list[Computation]
    ops: dict[str, Instruction]


@dataclass
class _Lowering:
    run: Run
    program: Program
    callees: list[Computation] = field(default_factory=list)
    ops: dict[str, Instruction] = field(default_factory=dict)
    collectives: int = 0

    def array(self, dims: tuple[int, ...], space: int = 0) -> Shape:
        return Shape(self.run.dtype, dims, space)

    def op_name(self, segment: Segment) -> str:
        """torch_xla's path: each scope with a counter of its own."""
        count = len(self.ops)
        path = [] if segment.tick is None else [f"xlahouse.tick.{segment.tick}.{count}"]
        if segment.layer is not None and segment.component in SCOPES:
            layer = f"model.layers.{segment.layer}"
            path += [f"{layer}.{count}", f"{layer}.{SCOPES[segment.component]}.{count}"]
        elif segment.component in ("embedding", "head"):
            path.append({"embedding": "model.embed_tokens", "head": "lm_head"}[segment.component])
        return "/".join([*path, "aten__mm"])

    def fitted(self, body: Computation, value: Instruction, dims: tuple[int, ...]) -> Instruction:
        """The value sliced or broadcast to the dims that an instruction wants."""
        if value.shape == self.array(dims):
            return value
        opcode = "slice" if math.prod(dims) < math.prod(value.shape.dims) else "broadcast"
        name = f"{opcode}.{len(body.instructions)}"
        return body.add(Instruction(name, opcode, self.array(dims), (value,)))

    def traced(self, body: Computation, segment: Segment, instruction: Instruction) -> Instruction:
        named = replace(instruction, op_name=self.op_name(segment))
        self.ops[segment.op] = named
        return body.add(named)


def _called(lowering: _Lowering, name: str, inner: list[Instruction]) -> str:
    """A computation of a parameter and what is done with it."""
    lowering.callees.append(Computation(name, inner))
    return name


def _compute(lowering: _Lowering, body: Computation, segment: Segment, value: Instruction):
    shape = lowering.array((max(value.shape.dims[-2], 1), lowering.run.hidden))
    if segment.op.startswith("attention_kernel"):
        call = Instruction(segment.op, "custom-call", shape, (value,), target="tpu_custom_call")
        return lowering.traced(body, segment, call)
    source = Instruction(f"{segment.op}.param", "parameter", value.shape)
    inner = Instruction(f"{segment.op}.mul", "multiply", shape, (source, source))
    called = _called(lowering, f"fused.{segment.op}", [source, inner])
    return lowering.traced(
        body, segment, Instruction(segment.op, "fusion", shape, (value,), calls=called)
    )


def _attributes(lowering: _Lowering, segment: Segment) -> dict:
    """Groups or pairs, and the channel, of the next collective."""
    written = written_groups(lowering.run, lowering.program, segment, lowering.collectives)
    lowering.collectives += 1
    channel = lowering.collectives if written.channel else 0
    if segment.transfer.kind == "collective-permute":
        return {"pairs": permute_pairs(written.groups), "channel_id": channel}
    dimension = None if segment.transfer.kind == "all-reduce" else 0
    return {"groups": written, "channel_id": channel, "dimension": dimension}


def _members(lowering: _Lowering, segment: Segment) -> int:
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
    slice_ = Instruction(f"{segment.op}.slice", "dynamic-slice", part, (reduce, index))
    called = _called(lowering, f"all-reduce-scatter.{segment.op}", [source, reduce, index, slice_])
    op = Instruction(segment.op, "fusion", part, (operand,), calls=called)
    return lowering.traced(body, segment, op)


def _sync(lowering: _Lowering, body: Computation, segment: Segment, value: Instruction):
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


def _start(lowering: _Lowering, body: Computation, segment: Segment) -> None:
    dims, attributes = segment.transfer.dims, _attributes(lowering, segment)
    whole = lowering.array(dims)
    part = lowering.array((dims[0] // _members(lowering, segment), *dims[1:]))
    weight = body.add(
        Instruction(f"{segment.op}.weight", "parameter", part, number=lowering.collectives)
    )
    if not lowering.run.wrapped_async:
        pair = Shape("tuple", parts=(part, whole))
        op = Instruction(segment.op, "all-gather-start", pair, (weight,), **attributes)
        lowering.traced(body, segment, op)
        return
    source = Instruction(f"{segment.op}.param", "parameter", part)
    gather = Instruction(f"{segment.op}.gather", "all-gather", whole, (source,), **attributes)
    called = _called(lowering, f"async.{segment.op}", [source, gather])
    parts = (Shape("tuple", parts=(part,)), whole, Shape("s32"))
    op = Instruction(
        segment.op,
        "async-start",
        Shape("tuple", parts=parts),
        (weight,),
        calls=called,
        thread="sparsecore",
    )
    lowering.traced(body, segment, op)


def _done(lowering: _Lowering, body: Computation, segment: Segment) -> None:
    start = lowering.ops[segment.pair]
    whole = lowering.array(segment.transfer.dims)
    opcode = start.opcode.replace("-start", "-done")
    op = Instruction(segment.op, opcode, whole, (start,), calls=start.calls)
    lowering.traced(body, segment, op)


def _copy(lowering: _Lowering, body: Computation, segment: Segment) -> None:
    host = segment.op.endswith(".1")
    source, target = (
        Shape("f32", (256, 256), HOST if host else 0),
        Shape("f32", (256, 256), 0 if host else VMEM),
    )
    if segment.what == "copy-start":
        table = body.add(Instruction(f"{segment.op}.source", "parameter", source, number=90 + host))
        parts = (target, source, Shape("u32", space=2))
        op = Instruction(segment.op, "copy-start", Shape("tuple", parts=parts), (table,))
    else:
        op = Instruction(segment.op, "copy-done", target, (lowering.ops[segment.pair],))
    lowering.traced(body, segment, op)


def _lower_body(lowering: _Lowering, body: Computation, segments, value) -> Instruction:
    for segment in segments:
        if segment.op in lowering.ops:
            continue
        if segment.what == "compute":
            value = _compute(lowering, body, segment, value)
        elif segment.what == "sync":
            value = _sync(lowering, body, segment, value)
        elif segment.what == "start":
            _start(lowering, body, segment)
        elif segment.what == "done":
            _done(lowering, body, segment)
        elif segment.what.startswith("copy"):
            _copy(lowering, body, segment)
    return value


def _lower_loop(lowering: _Lowering, entry: Computation, segments, value) -> Instruction:
    """The layers as the body of a while; each of its ops runs once a layer."""
    body = Computation("layers_body")
    state = body.add(Instruction("body.param", "parameter", value.shape))
    result = _lower_body(lowering, body, segments, state)
    if result is not body.instructions[-1]:
        body.add(Instruction("body.root", "bitcast", result.shape, (result,)))
    lowering.callees.append(body)
    loop = Instruction("while", "while", value.shape, (value,), calls=body.name, calls_key="body")
    lowering.ops["while"] = loop
    return entry.add(loop)


def lower(run: Run, program: Program) -> Lowered:
    """The HLO of a program."""
    lowering = _Lowering(run, program)
    left, right = (Instruction(f"add.{side}", "parameter", SCALAR) for side in ("left", "right"))
    total = Instruction("add.sum", "add", SCALAR, (left, right))
    lowering.callees.append(Computation("add", [left, right, total]))
    entry = Computation("main")
    rows = run.tokens(program.phase) if program.phase else 1
    value = entry.add(Instruction("param", "parameter", lowering.array((rows, run.hidden))))
    whats = [segment.what for segment in program.segments]
    if "loop" in whats:
        begin, end = whats.index("loop"), whats.index("end-loop")
        value = _lower_body(lowering, entry, program.segments[:begin], value)
        value = _lower_loop(lowering, entry, program.segments[begin + 1 : end], value)
        value = _lower_body(lowering, entry, program.segments[end + 1 :], value)
    else:
        value = _lower_body(lowering, entry, program.segments, value)
    entry.add(Instruction("root", "tuple", Shape("tuple", parts=(value.shape,)), (value,)))
    return Lowered([*lowering.callees, entry], lowering.ops)


def hlo_proto(run: Run, program: Program, lowered: Lowered) -> bytes:
    """HloProto bytes, with the device assignment of its replicas and partitions."""
    proto = HloProto()
    proto.hlo_module.name, proto.hlo_module.id = program.name, 1
    fill_module(lowered.computations, proto.hlo_module)
    assignment = proto.hlo_module.device_assignment
    partitions = len(program.positions) // program.replicas
    assignment.replica_count, assignment.computation_count = program.replicas, partitions
    for partition in range(partitions):
        devices = [run.devices[p] for p in program.positions[partition::partitions]]
        assignment.computation_devices.add().replica_device_ids.extend(devices)
    return proto.SerializeToString(deterministic=True)
