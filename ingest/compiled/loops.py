"""How many rounds a loop makes, where its program says it."""

from __future__ import annotations

import re

from google.protobuf.message import DecodeError

from xlahouse.ingest.compiled.schedule import is_condition
from xlahouse.ingest.events.proto import message_class
from xlahouse.ingest.hlo.messages import HloComputation, HloInstruction
from xlahouse.ingest.hlo.program import Program

_TRIPS = re.compile(rb'"known_trip_count"\s*:\s*\{\s*"n"\s*:\s*"?(\d{1,18})"?')
_VIEWS = (b"copy", b"bitcast")
_DEEPEST = 16  # copies of copies; damaged HLO may lead back


def trip_count(program: Program, loop: HloInstruction) -> int | None:
    """Rounds of a `while`; None where they are decided at run time.

    The compiler's note (`known_trip_count`), else those of a loop that counts: it goes on while an item
    of its tuple is less than a constant, begins it with a constant, and adds a constant in each round.
    """
    noted = _TRIPS.search(loop.backend_config)
    if noted:
        return int(noted[1])
    called = program.called(loop)
    conditions = [each for each in called if is_condition(program, each)]
    bodies = [each for each in called if not is_condition(program, each)]
    if len(conditions) != 1 or len(bodies) != 1:
        return None
    bound = _bound(program, conditions[0])
    if bound is None:
        return None
    place, limit = bound
    begin, step = _given(program, loop, place), _step(program, bodies[0], place)
    if begin is None or step is None or step <= 0:
        return None
    return max(0, -(-(limit - begin) // step))


def _bound(program: Program, condition: HloComputation) -> tuple[int, int] | None:
    """(item of the tuple, number that it must be less than)."""
    root = program.by_id.get(condition.root_id)
    if root is None or root.opcode != b"compare" or root.comparison_direction != b"LT":
        return None
    operands = program.operands(root)
    if len(operands) != 2:
        return None
    item, limit = _source(program, operands[0]), _constant(program, operands[1])
    if item.opcode != b"get-tuple-element" or limit is None:
        return None
    return item.tuple_index, limit


def _given(program: Program, loop: HloInstruction, place: int) -> int | None:
    """The constant that an item of the tuple begins as."""
    operands = program.operands(loop)
    parts = program.operands(_source(program, operands[0])) if operands else []
    return _constant(program, parts[place]) if place < len(parts) else None


def _step(program: Program, body: HloComputation, place: int) -> int | None:
    """The constant that each round adds to an item of the tuple."""
    root = program.by_id.get(body.root_id)
    parts = [] if root is None or root.opcode != b"tuple" else program.operands(root)
    if place >= len(parts):
        return None
    added = _source(program, parts[place])
    operands = program.operands(added)
    if added.opcode != b"add" or len(operands) != 2:
        return None
    for item, step in (operands, operands[::-1]):
        source = _source(program, item)
        if source.opcode == b"get-tuple-element" and source.tuple_index == place:
            return _constant(program, step)
    return None


def _constant(program: Program, value: HloInstruction) -> int | None:
    """The whole number of 32 or 64 bits that a value is; None where it is not a constant of one."""
    source = _source(program, value)
    if source.opcode != b"constant":
        return None
    read = message_class("Literal")()
    try:
        read.ParseFromString(source.literal)
    except DecodeError:
        return None
    values = [*read.s32s, *read.s64s, *read.u32s, *read.u64s]
    return int(values[0]) if len(values) == 1 else None


def _source(program: Program, value: HloInstruction) -> HloInstruction:
    """The instruction that makes a value, behind copies."""
    for _ in range(_DEEPEST):
        operands = program.operands(value)
        if value.opcode not in _VIEWS or not operands:
            break
        value = operands[0]
    return value
