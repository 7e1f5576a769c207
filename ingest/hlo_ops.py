"""What an HLO instruction is: its category, and for a collective its kind, payload and partners.

The called computation decides for wrappers (METRICS, "Category of an op", "Kind of a collective").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from xlahouse.ingest import shapes
from xlahouse.ingest.hlo import Program

KINDS = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
)
CONTROL = ("while", "call", "conditional")
# Instructions that compute nothing: what a slice or a copy may be wrapped with.
_FREE = ("parameter", "bitcast", "tuple", "get-tuple-element", "constant", "reshape", "transpose")
_COPIES = ("copy", "slice", "dynamic-slice", "dynamic-update-slice", "copy-start", "copy-done")
HOST_MEMORY = 5
_ROLES = {"-start": "start", "-update": "update", "-done": "done"}


@dataclass(frozen=True)
class OpFacts:
    """What the HLO says of an op.

    role: `sync`, or `start`, `update` or `done` of an async pair. start_op: on a done, its start.
    collective: the instruction that transfers, here or in a called computation; kind, dtype and
    payload_bytes (METRICS, Bytes) are those of the transfer.
    """

    op: str
    opcode: str
    category: str
    role: str
    start_op: str | None = None
    collective: Any = None
    kind: str | None = None
    dtype: str | None = None
    payload_bytes: int | None = None


def op_facts(program: Program, instruction: Any) -> OpFacts:
    """Category of an instruction, and its transfer if it is a collective."""
    opcode = instruction.opcode.decode()
    base, role = _split_role(opcode)
    name = instruction.name.decode("utf-8", "replace")
    start = _start_of(program, instruction) if role in ("done", "update") else instruction
    start_op = start.name.decode() if start is not None and role != "start" else None
    start_op = start_op if role in ("done", "update") else None
    inner = _transfer(program, start) if start is not None else None
    if inner is not None:
        kind = _kind(program, start, inner)
        leaves = _payload_leaves(program, inner, kind)
        sizes = [shapes.logical_bytes(leaf) for leaf in leaves]
        known = None if None in sizes else sum(size for size in sizes if size is not None)
        return OpFacts(
            op=name,
            opcode=opcode,
            category="collective",
            role=role,
            start_op=start_op,
            collective=inner,
            kind=kind,
            dtype=shapes.dtype(leaves[0]) if leaves else None,
            payload_bytes=known,
        )
    return OpFacts(name, opcode, _category(program, start, base), role, start_op)


def _split_role(opcode: str) -> tuple[str, str]:
    for suffix, role in _ROLES.items():
        if opcode.endswith(suffix):
            return opcode.removesuffix(suffix), role
    return opcode, "start" if opcode in ("send", "recv") else "sync"


def _start_of(program: Program, done: Any) -> Any:
    """The start of an async chain: follow the first operand; None where the chain breaks."""
    seen = 0
    current = done
    while current is not None and seen < 1000:
        if current is not done and _split_role(current.opcode.decode())[1] == "start":
            return current
        operands = program.operands(current)
        current = operands[0] if operands else None
        seen += 1
    return None


def _transfer(program: Program, instruction: Any) -> Any:
    """The collective that an instruction is or wraps; None where it is none."""
    base, _ = _split_role(instruction.opcode.decode())
    if base in KINDS:
        return instruction
    if base in ("send", "recv"):
        return None if instruction.is_host_transfer else instruction
    if base in ("fusion", "async"):
        for computation in program.called(instruction):
            for inner in computation.instructions:
                found = _transfer(program, inner)
                if found is not None:
                    return found
    return None


def _kind(program: Program, wrapper: Any, inner: Any) -> str:
    base, _ = _split_role(inner.opcode.decode())
    if base in ("send", "recv"):
        return "send-recv"
    if (
        base == "all-reduce"
        and wrapper.opcode == b"fusion"
        and _only_sliced(program, wrapper, inner)
    ):
        return "reduce-scatter"
    return base


def _only_sliced(program: Program, fusion: Any, reduced: Any) -> bool:
    """Whether a fusion's all-reduce is only sliced: TPU writes a reduce-scatter that way."""
    for computation in program.called(fusion):
        users: dict[int, list[Any]] = {}
        for user in computation.instructions:
            for operand in user.operand_ids:
                users.setdefault(operand, []).append(user)
        pending, sliced = [reduced], False
        while pending:
            for user in users.get(pending.pop().id, []):
                if user.opcode in (b"dynamic-slice", b"slice"):
                    sliced = True
                elif user.opcode in (b"bitcast", b"copy", b"reshape", b"get-tuple-element"):
                    pending.append(user)
                else:
                    return False
        if sliced:
            return True
    return False


def _payload_leaves(program: Program, inner: Any, kind: str) -> list[Any]:
    """The arrays whose bytes are the payload S (METRICS, Bytes)."""
    if inner.opcode == b"recv":
        return []
    operands = [operand.shape for operand in program.operands(inner)]
    if kind == "all-gather":
        result = inner.shape
        if inner.opcode.endswith(b"-start") and len(result.tuple_shapes) > 1:
            result = result.tuple_shapes[1]
        return shapes.leaves(result)
    if kind in ("all-reduce", "reduce-scatter", "all-to-all"):
        data = [leaf for shape in operands for leaf in shapes.leaves(shape)]
        # torch_xla threads a scalar through its collectives as the last operand.
        if len(data) > 1 and not data[-1].dimensions:
            data = data[:-1]
        return data
    if kind == "collective-permute" and len(operands) != 4:
        # four operands are (input, output, input offset, output offset): an in-place permute
        return [leaf for shape in operands for leaf in shapes.leaves(shape)]
    return shapes.leaves(operands[0]) if operands else []


def _category(program: Program, instruction: Any, base: str) -> str:
    if base in CONTROL:
        return "control"
    if base in ("send", "recv", "infeed", "outfeed"):
        return "host_transfer"
    if instruction is None:
        return "copy" if base == "copy" else "compute"
    if base == "copy" and instruction.opcode == b"copy-start":
        return "host_transfer" if _touches_host(program, instruction) else "copy"
    if base == "async" and _only_copies(program, instruction):
        return "host_transfer" if _touches_host(program, instruction) else "copy"
    return "compute"


def _only_copies(program: Program, instruction: Any) -> bool:
    opcodes = {
        inner.opcode.decode()
        for computation in program.called(instruction)
        for inner in computation.instructions
    }
    return bool(opcodes & set(_COPIES)) and opcodes <= set(_COPIES + _FREE)


def _touches_host(program: Program, instruction: Any) -> bool:
    sides = [instruction.shape, *(operand.shape for operand in program.operands(instruction))]
    return any(
        leaf.layout.memory_space == HOST_MEMORY for side in sides for leaf in shapes.leaves(side)
    )
