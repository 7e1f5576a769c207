"""The category of an HLO instruction, and a collective's transfer and partner.

The called computation decides for wrappers (METRICS, "Category of an op").
"""

from __future__ import annotations

from dataclasses import dataclass

from xlahouse.ingest.hlo import shapes
from xlahouse.ingest.hlo.messages import HloInstruction
from xlahouse.ingest.hlo.program import Program
from xlahouse.ingest.hlo.transfer import (
    HloTransfer,
    find_transfer,
    kind_of,
    payload_leaves,
    split_role,
    start_of,
)

CONTROL_OPCODES = ("while", "call", "conditional")
# Opcodes that compute nothing: a wrapper may hold them beside a slice or a copy.
_FREE = ("parameter", "bitcast", "tuple", "get-tuple-element", "constant", "reshape", "transpose")
_COPIES = ("copy", "slice", "dynamic-slice", "dynamic-update-slice", "copy-start", "copy-done")
HOST_MEMORY = 5
# hlo_opcode.h of openxla/xla; of the forms -start, -update and -done only the part before.
_OPCODES = frozenset(
    (
        "abs", "acos", "acosh", "add", "add-dependency", "after-all", "all-gather", "all-reduce",
        "all-to-all", "and", "asin", "asinh", "async", "atan2", "atanh", "batch-norm-grad",
        "batch-norm-inference", "batch-norm-training", "bitcast", "bitcast-convert", "broadcast",
        "call", "cbrt", "ceil", "cholesky", "clamp", "collective-broadcast", "collective-permute",
        "compare", "complex", "concatenate", "conditional", "constant", "convert", "convolution",
        "copy", "cosine", "cosh", "count-leading-zeros", "custom-call", "divide", "domain", "dot",
        "dynamic-reshape", "dynamic-slice", "dynamic-update-slice", "erf", "exponential",
        "exponential-minus-one", "fft", "floor", "fusion", "gather", "get-dimension-size",
        "get-tuple-element", "imag", "infeed", "iota", "is-finite", "log", "log-plus-one", "logistic",
        "map", "maximum", "minimum", "multiply", "negate", "not", "opt-barrier", "or", "outfeed", "pad",
        "parameter", "partition-id", "popcnt", "power", "ragged-all-to-all", "ragged-dot", "real",
        "recv", "reduce", "reduce-precision", "reduce-scatter", "reduce-window", "remainder",
        "replica-id", "reshape", "reverse", "rng", "rng-bit-generator", "rng-get-and-update-state",
        "round-nearest-afz", "round-nearest-even", "rsqrt", "scaled-dot", "scan", "scatter", "select",
        "select-and-scatter", "send", "set-dimension-size", "shift-left", "shift-right-arithmetic",
        "shift-right-logical", "sign", "sine", "sinh", "slice", "sort", "sqrt", "stochastic-convert",
        "subtract", "tan", "tanh", "topk", "transpose", "triangular-solve", "tuple", "while", "xor",
    )
)  # fmt: skip


@dataclass(frozen=True)
class OpFacts:
    """Facts of an op in the HLO."""

    op: str  # name of the instruction
    opcode: str  # of the instruction
    category: str  # as in the table ops
    role: str  # sync; or start, update, done of an async pair
    # On a done or an update its start, on a start that a loop's done may end the loop's own start.
    start_op: str | None = None  # None where it cannot be found
    collective: HloInstruction | None = None  # that transfers, here or in a called computation
    kind: str | None = None  # of the transfer
    dtype: str | None = None  # of the transfer
    payload_bytes: int | None = None  # of the transfer (METRICS, Bytes)
    # whether a dimension is dynamic, so that it may be less; None if unknown
    payload_is_bound: bool | None = None


def op_facts(program: Program, instruction: HloInstruction) -> OpFacts:
    """Category of an instruction, and its transfer if it is a collective."""
    name = instruction.name.decode("utf-8", "replace")
    opcode = _opcode(instruction)
    base, role = split_role(opcode)
    transfer = find_transfer(program, instruction)
    role = role if transfer is None else transfer.role
    waits = role in ("done", "update")
    start = start_of(program, instruction) if waits else instruction
    start_op = start.name.decode("utf-8", "replace") if waits and start is not None else None
    if waits and start is not None:
        transfer = find_transfer(program, start) or transfer
    if transfer is None:
        return OpFacts(name, opcode, _category(program, start, base), role, start_op)
    kind = kind_of(program, transfer)
    dtype, payload, is_bound = _payload(program, transfer, kind)
    return OpFacts(
        op=name,
        opcode=opcode,
        category="collective",
        role=role,
        start_op=start_op,
        collective=transfer.instructions[0] if transfer.instructions else None,
        kind=kind,
        dtype=dtype,
        payload_bytes=payload,
        payload_is_bound=is_bound,
    )


def is_opcode(opcode: str) -> bool:
    """Whether it is an opcode of HLO, or a form of one that text has, as `slice-start`."""
    return split_role(opcode)[0] in _OPCODES


def _payload(
    program: Program, transfer: HloTransfer, kind: str | None
) -> tuple[str | None, int | None, bool | None]:
    """(element type, bytes, whether these are a bound) of a transfer's instructions; None where unknown."""
    if not transfer.instructions or kind is None:
        return None, None, None
    leaves = [
        leaf for each in transfer.instructions for leaf in payload_leaves(program, each, kind)
    ]
    sizes = [shapes.logical_bytes(leaf) for leaf in leaves]
    if not sizes and any(each.opcode != b"recv" for each in transfer.instructions):
        return None, None, None  # operands that are not known
    known = None if None in sizes else sum(size for size in sizes if size is not None)
    is_bound = None if known is None else any(shapes.is_bound(leaf) for leaf in leaves)
    return shapes.dtype(leaves[0]) if leaves else None, known, is_bound


def _category(program: Program, instruction: HloInstruction | None, base: str) -> str:
    if base in CONTROL_OPCODES:
        return "control"
    if base in ("send", "recv", "infeed", "outfeed"):
        return "host_transfer"
    if instruction is None:
        return "copy" if base == "copy" else "compute"
    copies = base == "async" and _only_copies(program, instruction)
    # Text writes an async-start that calls a slice as `slice-start`.
    copies = copies or (base in _COPIES and split_role(_opcode(instruction))[1] == "start")
    if base != "copy" and not copies:
        return "compute"
    if _touches_host(program, instruction):
        return "host_transfer"
    return "compute" if instruction.opcode == b"copy" else "copy"


def _opcode(instruction: HloInstruction) -> str:
    return str(instruction.opcode.decode("utf-8", "replace"))


def _only_copies(program: Program, instruction: HloInstruction) -> bool:
    opcodes = {
        inner.opcode.decode("utf-8", "replace")
        for computation in program.called(instruction)
        for inner in computation.instructions
    }
    return bool(opcodes & set(_COPIES)) and opcodes <= set(_COPIES + _FREE)


def _touches_host(program: Program, instruction: HloInstruction) -> bool:
    sides = [instruction.shape, *(operand.shape for operand in program.operands(instruction))]
    return any(
        leaf.layout.memory_space == HOST_MEMORY for side in sides for leaf in shapes.leaves(side)
    )
