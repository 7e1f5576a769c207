"""Where a program's values lie in memory and when, from its BufferAssignment: rows of `buffers`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from google.protobuf.message import DecodeError

from xlahouse.ingest.compiled.users import NOWHERE, Scope, scope_of
from xlahouse.ingest.compiled.value_flow import Index, ValueFlow
from xlahouse.ingest.hlo.messages import BufferAllocation, HloInstruction, buffer_assignment_of
from xlahouse.ingest.hlo.program import Program

TEMPORARY = "temporary"


@dataclass(frozen=True)
class _Value:
    """A value in a place of an allocation, from its first use to its last."""

    number: int  # of the logical buffer
    offset: int  # in its allocation, bytes
    size: int  # bytes
    maker: HloInstruction | None  # the instruction that defines it; None where it is not known
    first: int | None  # NULL outside the schedule
    last: int | None  # last use, as a place in the schedule; NULL outside it

    @property
    def span(self) -> tuple[int, int]:
        """Its first and last use; (0, 0) where these are not known."""
        return self.first or 0, self.last or 0


class DamagedBuffersError(ValueError):
    """A BufferAssignment that cannot be decoded; its text says why."""


def buffer_rows(
    program: Program, places: dict[int, int], scopes: Mapping[int, Scope]
) -> list[dict[str, object]]:
    """Rows of the `buffers` table, without run_id and world; [] where the trace has no BufferAssignment.

    Args:
        program: a program.
        places: of its instructions in its schedule, by id.
        scopes: of instructions without an op_name, by id.

    Raises:
        DamagedBuffersError: its BufferAssignment cannot be decoded, or the program lacks what it names.
    """
    if not program.buffers:
        return []
    try:
        assignment = buffer_assignment_of(program.buffers)
    except DecodeError as error:
        raise DamagedBuffersError(f"its BufferAssignment is damaged: {error}") from error
    values = {buffer.id: buffer for buffer in assignment.logical_buffers}
    defined: dict[int, dict[Index, int]] = {}
    for buffer in values.values():
        where = buffer.defined_at
        defined.setdefault(where.instruction_id, {})[tuple(where.shape_index)] = buffer.id
    try:
        spans = ValueFlow(program, places, defined).spans()
    except LookupError as error:
        raise DamagedBuffersError(f"the program lacks an instruction or value: {error}") from error
    rows: list[dict[str, object]] = []
    for allocation in assignment.buffer_allocations:
        held = []
        for each in allocation.assigned:
            value = values.get(each.logical_buffer_id)
            number = None if value is None else value.defined_at.instruction_id
            first, end = spans.get(each.logical_buffer_id, (None, None))
            maker = None if number is None else program.by_id.get(number)
            held.append(_Value(each.logical_buffer_id, each.offset, each.size, maker, first, end))
        rows += [
            _row(program, allocation, row, scopes)
            for row in _of_allocation(allocation, held, len(places))
        ]
    return rows


def _of_allocation(
    allocation: BufferAllocation, held: list[_Value], end: int
) -> Iterator[list[_Value]]:
    """The values of each buffer in an allocation.

    A program's arguments, results and constants have their memory from its start to its end; of a value
    that lies outside the schedule nothing is known.
    """
    if not allocation.size:
        return
    kind = _kind(allocation)
    if kind != TEMPORARY or not held:
        largest = max(held, key=lambda each: each.size, default=None)
        number, maker = (0, None) if largest is None else (largest.number, largest.maker)
        known = (0, end) if end and kind != "thread_local" else (None, None)
        yield [_Value(number, 0, allocation.size, maker, *known)]
        return
    placed = [each for each in held if each.first is not None and each.size]
    yield from _joined(placed)
    yield from ([each] for each in held if each.first is None)


def _joined(values: list[_Value]) -> Iterator[list[_Value]]:
    """Values that share bytes at a time are one buffer: one takes the memory over from another."""
    leader = {value.number: value.number for value in values}

    def leads(number: int) -> int:
        while leader[number] != number:
            number = leader[number]
        return number

    live: list[_Value] = []
    for value in sorted(values, key=lambda each: (each.span, each.number)):
        live = [other for other in live if other.span[1] >= value.span[0]]
        for other in live:
            if (
                value.offset < other.offset + other.size
                and other.offset < value.offset + value.size
            ):
                leader[leads(value.number)] = leads(other.number)
        live.append(value)
    buffers: dict[int, list[_Value]] = {}
    for value in values:
        buffers.setdefault(leads(value.number), []).append(value)
    yield from buffers.values()


def _kind(allocation: BufferAllocation) -> str:
    """As XLA's memory statistics sort allocations."""
    if allocation.is_entry_computation_parameter:
        return "argument"
    if allocation.maybe_live_out:
        return "output"
    if allocation.is_thread_local:
        return "thread_local"
    return "constant" if allocation.is_constant else TEMPORARY


def _row(
    program: Program,
    allocation: BufferAllocation,
    values: list[_Value],
    scopes: Mapping[int, Scope],
) -> dict[str, object]:
    first = min(values, key=lambda each: (each.span, each.number))
    spans = [each.span for each in values if each.first is not None]
    begin = min(each.offset for each in values)
    maker = first.maker
    path = "" if maker is None else program.framework_op(maker)
    scope = scope_of(path)
    if maker is not None and not path:
        scope = scopes.get(maker.id, NOWHERE)
    return {
        "program_id": program.program_id,
        "module": program.module,
        "buffer": first.number,
        "allocation": allocation.index,
        "kind": _kind(allocation),
        "is_output": allocation.maybe_live_out,
        "memory_space": allocation.color,
        "bytes": max(each.offset + each.size for each in values) - begin,
        "offset_bytes": begin,
        "allocation_bytes": allocation.size,
        "first_use": min(span[0] for span in spans) if spans else None,
        "last_use": max(span[1] for span in spans) if spans else None,
        "op": None if maker is None else maker.name.decode("utf-8", "replace"),
        "scope": path or None,
        "layer": scope.layer,
        "component": scope.component,
    }
