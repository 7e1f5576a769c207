"""Finds the transfer that an instruction is or wraps: its role in a pair, its kind, its payload."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xlahouse.ingest.hlo import shapes
from xlahouse.ingest.hlo.group_notations import GroupError, names_participants
from xlahouse.ingest.hlo.groups import group_sizes
from xlahouse.ingest.hlo.messages import HloInstruction, Shape
from xlahouse.ingest.hlo.program import Program

COLLECTIVE_KINDS = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "ragged-all-to-all",
    "collective-permute",
    "collective-broadcast",
)
# The computation that these call defines what they do.
WRAPPERS = ("fusion", "async", "call")
_ROLES = {"-start": "start", "-update": "update", "-done": "done"}
# Opcodes that a pair's value may pass through between its start and its done.
_CARRIERS = ("bitcast", "copy", "opt-barrier", "async-update")
_VIEWS = (b"bitcast", b"copy", b"reshape", b"get-tuple-element")
_DEEPEST_WRAPPER = 16  # wrappers within wrappers; damaged HLO may call itself


@dataclass(frozen=True)
class HloTransfer:
    """A transfer."""

    role: str  # sync; or start, update, done of an async pair
    kind: str | None  # None: of an opcode that this version does not know
    # the collectives that transfer, several where a fusion combines them; empty on a done or an update
    instructions: tuple[HloInstruction, ...]
    fused: bool = False  # whether a fusion holds them


def split_role(opcode: str) -> tuple[str, str]:
    """`all-reduce-start` -> (`all-reduce`, `start`); a send or recv is the start of its -done."""
    for suffix, role in _ROLES.items():
        if opcode.endswith(suffix):
            return opcode.removesuffix(suffix), role
    return opcode, "start" if opcode in ("send", "recv") else "sync"


def find_transfer(program: Program, instruction: HloInstruction) -> HloTransfer | None:
    """The transfer that an instruction is, or that the computation it calls holds."""
    return _find(program, instruction, 0, {})


def _find(
    program: Program, instruction: HloInstruction, depth: int, known: dict[int, HloTransfer | None]
) -> HloTransfer | None:
    """known: of instructions within wrappers, each looked at once, however many call it."""
    base, role = split_role(instruction.opcode.decode("utf-8", "replace"))
    if base in COLLECTIVE_KINDS:
        return HloTransfer(role, base, (instruction,) if role in ("sync", "start") else ())
    if base in ("send", "recv"):
        between = program.dcn_parts.get(instruction.id)
        if between is not None:
            held = (instruction,) if between.role == "start" else ()
            return HloTransfer(between.role, between.kind, held)
        if instruction.is_host_transfer:
            return None
        return HloTransfer(role, "send-recv", (instruction,) if role == "start" else ())
    # Text writes an async-start that calls a fusion as `fusion-start`, one that calls a call as `call-start`.
    starts = base == "async" or (base in ("fusion", "call") and role != "sync")
    # A call is control, and its instructions have events of their own, unless it is inside a wrapper.
    if base != "fusion" and not starts and not (base == "call" and depth):
        return HloTransfer(role, None, (instruction,)) if names_participants(instruction) else None
    part = program.async_parts.get(instruction.id)
    inner = [
        found
        for computation in program.called(instruction)
        for each in computation.instructions
        if depth < _DEEPEST_WRAPPER
        and each.id not in program.passing
        and (found := _within(program, each, depth + 1, known)) is not None
    ]
    if not inner:
        return None
    moving = [each for each in inner if each.instructions] or inner
    kind = moving[0].kind
    fused = base == "fusion" or any(each.fused for each in moving)
    if part is not None and part.role != "through":
        return HloTransfer(part.role, kind, _held(moving) if part.role == "start" else (), fused)
    if starts:
        carried = () if role in ("update", "done") else _held(moving)
        return HloTransfer(role, kind, carried, fused)
    return HloTransfer(_role_of_wrapper(inner), kind, _held(moving), fused)


def _within(
    program: Program, instruction: HloInstruction, depth: int, known: dict[int, HloTransfer | None]
) -> HloTransfer | None:
    if instruction.id not in known:
        known[instruction.id] = None  # while it is looked for: damaged HLO may call itself
        known[instruction.id] = _find(program, instruction, depth, known)
    return known[instruction.id]


def _held(transfers: list[HloTransfer]) -> tuple[HloInstruction, ...]:
    every = (each for transfer in transfers for each in transfer.instructions)
    return tuple({each.id: each for each in every}.values())


def _role_of_wrapper(inner: list[HloTransfer]) -> str:
    """A fusion that holds only starts is a start, only dones a done; else it does the whole transfer."""
    roles = {each.role for each in inner}
    return roles.pop() if len(roles) == 1 else "sync"


def start_of(program: Program, done: HloInstruction) -> HloInstruction | None:
    """The start whose value a done (or an update) takes; see start_behind."""
    part = program.async_parts.get(done.id)
    if part is not None and part.start is not None:
        return part.start
    if done.id in program.dcn_parts:
        return program.dcn_parts[done.id].start
    operands = program.operands(done)
    return start_behind(program, operands[0]) if operands else None


def start_behind(program: Program, value: HloInstruction) -> HloInstruction | None:
    """The start whose value a done (or an update) takes; None where the chain leaves the computation.

    Loops are followed: the done of a start in one round is in the next round, or behind the loop.
    """
    current = value
    for _ in range(1000):
        opcode = current.opcode.decode("utf-8", "replace")
        operands = program.operands(current)
        if opcode == "get-tuple-element" and operands:
            carried = _tuple_behind(program, operands[0])
            parts = operands if carried is None else program.operands(carried)
            place = 0 if carried is None else current.tuple_index
            if not 0 <= place < len(parts):  # below 0: an index that could not be read
                return None
            current = parts[place]
            continue
        found = find_transfer(program, current)
        role = found.role if found is not None else split_role(opcode)[1]
        if role == "start":
            return current
        if not operands or (opcode not in _CARRIERS and role != "update"):
            return None
        current = operands[0]
    return None


def _tuple_behind(program: Program, value: HloInstruction) -> HloInstruction | None:
    """The tuple behind a value: itself, or the one that a loop carries, from inside or behind the loop."""
    if value.opcode == b"tuple":
        return value
    if value.opcode == b"while":
        bodies = [each for each in program.called(value) if each.id in program.loop_bodies]
        return program.loop_bodies[bodies[0].id] if bodies else None
    if value.opcode == b"parameter":
        return program.loop_bodies.get(program.computation_of(value).id)
    return None


def begun_before_loops(program: Program) -> dict[int, str]:
    """Starts before a loop whose done is in its first round: id -> name of the start inside the loop.

    The done in the loop ends both.
    """
    found = {}
    for loop in program.loops:
        carried, given = _tuple_behind(program, loop), program.operands(loop)
        if carried is None or not given or given[0].opcode != b"tuple":
            continue
        pairs = zip(program.operands(given[0]), program.operands(carried), strict=False)
        for before, within in pairs:
            if (first := start_behind(program, before)) is None:
                continue
            later = start_behind(program, within)
            if later is not None and first.id != later.id:
                found[first.id] = later.name.decode("utf-8", "replace")
    return found


def kind_of(program: Program, transfer: HloTransfer) -> str | None:
    """METRICS, Kind: a fused all-reduce that is only sliced per device is a reduce-scatter."""
    if transfer.kind != "all-reduce" or not transfer.fused or not transfer.instructions:
        return transfer.kind
    sliced = all(
        _only_sliced(program, each, _group_size(program, each)) for each in transfer.instructions
    )
    return "reduce-scatter" if sliced else "all-reduce"


def _group_size(program: Program, reduced: HloInstruction) -> int | None:
    """Size of its groups; None where it is unknown or differs."""
    try:
        sizes = group_sizes(reduced, program.assignment)
    except GroupError:
        return None
    return sizes.pop() if len(sizes) == 1 else None


def _is_share(whole: Shape, part: Shape, members: int | None) -> bool:
    """Whether a slice of an array is one member's share of it.

    Another slice, such as a loop takes, is not a scatter; the last member's part may be padded.
    """
    if members is None or not (shapes.is_known(whole) and shapes.is_known(part)):
        return True
    dims = zip(whole.dimensions, part.dimensions, strict=False)
    changed = [(old, new) for old, new in dims if old != new]
    if len(changed) == 1:
        ((old, new),) = changed
        return bool(new == -(-old // members))
    return bool(math.prod(whole.dimensions) == members * math.prod(part.dimensions))


def _only_sliced(program: Program, reduced: HloInstruction, members: int | None) -> bool:
    """Whether each use of a fused all-reduce takes a member's share of it, at a computed offset."""
    holder = program.computation_of(reduced)
    pending, sliced = [reduced], False
    while pending:
        value = pending.pop()
        for user in holder.instructions:
            if value.id not in user.operand_ids:
                continue
            if user.opcode == b"dynamic-slice" and user.operand_ids[0] == value.id:
                sliced = _is_share(value.shape, user.shape, members)
                if not sliced:
                    return False
            elif user.opcode in _VIEWS:
                pending.append(user)
            else:
                return False
    return sliced


def payload_leaves(program: Program, inner: HloInstruction, kind: str) -> list[Shape]:
    """The arrays whose bytes are the payload S of one collective instruction (METRICS, Bytes)."""
    if inner.id in program.dcn_parts:
        return shapes.leaves(program.dcn_parts[inner.id].data)
    if inner.opcode == b"recv":
        return []
    operands = [operand.shape for operand in program.operands(inner)]
    if kind == "all-gather":
        result = inner.shape
        if inner.opcode.endswith(b"-start") and len(result.tuple_shapes) > 1:
            result = result.tuple_shapes[1]
        return shapes.leaves(result)
    data = [leaf for shape in operands for leaf in shapes.leaves(shape)]
    if kind in ("all-reduce", "reduce-scatter", "all-to-all"):
        # torch_xla threads a scalar through its collectives as the last operand.
        last_is_scalar = data and shapes.is_known(data[-1]) and not data[-1].dimensions
        appended = last_is_scalar and any(leaf.dimensions for leaf in data)
        return data[:-1] if appended else data
    if kind == "collective-permute" and not _in_place(operands):
        return data
    return shapes.leaves(operands[0]) if operands else []


def _in_place(operands: list[Shape]) -> bool:
    """An in-place permute takes (input, output, input offsets, output offsets)."""
    return len(operands) == 4 and all(
        not leaf.dimensions and shapes.dtype(leaf) in ("s32", "u32", "s64", "u64")
        for shape in operands[2:]
        for leaf in shapes.leaves(shape)
    )
