"""Lowers a program's recipe to HLO, as a TPU compiler would leave it: one instruction an op."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tests.synth.describe import Run
from tests.synth.hlo import Computation, Instruction, Shape, fill_module
from tests.synth.lower_collectives import SCALAR, lower_done, lower_start, lower_sync
from tests.synth.lowering import Lowering, called_computation
from tests.synth.programs import Program
from tests.synth.protos import HloProto
from tests.synth.segments import Segment

HOST, VMEM = 5, 1


@dataclass
class Lowered:
    """A program's computations, callees first, and its traced instructions by op name."""

    computations: list[Computation]
    ops: dict[str, Instruction]


def _compute(lowering: Lowering, body: Computation, segment: Segment, value: Instruction):
    shape = lowering.array((max(value.shape.dims[-2], 1), lowering.run.hidden))
    if segment.op.startswith("attention_kernel"):
        call = Instruction(segment.op, "custom-call", shape, (value,), target="tpu_custom_call")
        return lowering.traced(body, segment, call)
    source = Instruction(f"{segment.op}.param", "parameter", value.shape)
    inner = Instruction(f"{segment.op}.mul", "multiply", shape, (source, source))
    called = called_computation(lowering, f"fused.{segment.op}", [source, inner])
    return lowering.traced(
        body, segment, Instruction(segment.op, "fusion", shape, (value,), calls=called)
    )


def _copy(lowering: Lowering, body: Computation, segment: Segment) -> None:
    host = segment.op.endswith(".1")
    source, target = (
        Shape("f32", (256, 256), HOST if host else 0),
        Shape("f32", (256, 256), 0 if host else VMEM),
    )
    if segment.what == "copy-start":
        table = body.add(Instruction(f"{segment.op}.source", "parameter", source))
        parts = (target, source, Shape("u32", space=2))
        op = Instruction(segment.op, "copy-start", Shape("tuple", parts=parts), (table,))
    else:
        op = Instruction(segment.op, "copy-done", target, (lowering.ops[segment.pair],))
    lowering.traced(body, segment, op)


def _lower_body(lowering: Lowering, body: Computation, segments, value) -> Instruction:
    for segment in segments:
        if segment.op in lowering.ops:
            continue
        if segment.what == "compute":
            value = _compute(lowering, body, segment, value)
        elif segment.what == "sync":
            value = lower_sync(lowering, body, segment, value)
        elif segment.what == "start":
            lower_start(lowering, body, segment, value)
        elif segment.what == "done":
            done = lower_done(lowering, body, segment)
            value = value if segment.transfer.kind == "all-gather" else done
        elif segment.what.startswith("copy"):
            _copy(lowering, body, segment)
    return value


def _lower_loop(lowering: Lowering, entry: Computation, segments, value) -> Instruction:
    """The layers as the body of a while; each of its ops runs once a layer."""
    body = Computation("layers_body")
    state = body.add(Instruction("body.param", "parameter", value.shape))
    result = _lower_body(lowering, body, segments, state)
    if result is not body.instructions[-1]:
        body.add(Instruction("body.root", "bitcast", result.shape, (result,)))
    lowering.callees.append(body)
    state = Instruction("condition.param", "parameter", value.shape)
    go_on = Instruction("condition.go_on", "constant", Shape("pred"))
    lowering.callees.append(Computation("layers_condition", [state, go_on]))
    loop = Instruction(
        "while",
        "while",
        value.shape,
        (value,),
        calls=body.name,
        calls_key="body",
        condition="layers_condition",
    )
    lowering.ops["while"] = loop
    return entry.add(loop)


@lru_cache(maxsize=256)
def lower(run: Run, program: Program) -> Lowered:
    """The HLO of a program; nothing may change it."""
    lowering = Lowering(run, program)
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
