"""The order in which a program's instructions run, as one sequence."""

from __future__ import annotations

from collections.abc import Iterator

from xlahouse.ingest.hlo import shapes
from xlahouse.ingest.hlo.messages import HloComputation, HloInstruction
from xlahouse.ingest.hlo.program import Program

# Their computations run before they end; those of fusions and of reductions are parts of their instruction.
_RUNS_OTHERS = (b"while", b"conditional", b"call", b"async-start")


def places(program: Program) -> dict[int, int]:
    """Place of each instruction in the program's schedule, by id; {} where the program states no schedule.

    As XLA flattens it: from the entry on, and each computation that a loop, a branch, a call or an async
    start runs stands once, before the instruction that first runs it; a loop's condition before its body.
    """
    sequences = program.proto.schedule.sequences
    order = {entry.key: list(entry.value.instruction_ids) for entry in sequences}
    entry = entry_of(program)
    if entry is None or entry.id not in order:
        return {}
    found: dict[int, int] = {}
    begun = {entry.id}
    open_ones: list[Iterator[int]] = [iter(order[entry.id])]
    waiting: list[int] = []  # instructions whose computations come first
    while open_ones:
        number = next(open_ones[-1], None)
        if number is None:
            open_ones.pop()
            if open_ones:
                number = waiting.pop()
                found.setdefault(number, len(found))
            continue
        inner = [n for n in _run_by(program, number) if n in order and n not in begun]
        if not inner:
            found.setdefault(number, len(found))
            continue
        begun.update(inner)
        waiting.append(number)
        open_ones.append(iter([each for n in inner for each in order[n]]))
    return found


def is_condition(program: Program, computation: HloComputation) -> bool:
    """Whether a computation that a loop runs says if it goes on: its root is one truth value."""
    root = program.by_id.get(computation.root_id)
    return root is not None and shapes.dtype(root.shape) == "pred" and not root.shape.dimensions


def entry_of(program: Program) -> HloComputation | None:
    """The computation that runs first; the last one where none is named."""
    everything = program.proto.computations
    named = program.computations.get(program.proto.entry_computation_id)
    return named or (everything[-1] if len(everything) else None)


def _run_by(program: Program, number: int) -> list[int]:
    instruction: HloInstruction | None = program.by_id.get(number)
    if instruction is None or instruction.opcode not in _RUNS_OTHERS:
        return []
    called = program.called(instruction)
    if instruction.opcode == b"while":
        called.sort(key=lambda each: not is_condition(program, each))
    return [computation.id for computation in called]
