"""How often one execution of a program runs each of its instructions."""

from __future__ import annotations

from xlahouse.ingest.compiled.loops import trip_count
from xlahouse.ingest.compiled.schedule import entry_of, is_condition
from xlahouse.ingest.hlo.messages import HloComputation, HloInstruction
from xlahouse.ingest.hlo.program import Program

_DEEPEST = 64  # loops and calls within another; damaged HLO may call itself


def executions(program: Program) -> dict[int, int | None]:
    """Times that each instruction runs, by id; None where that is decided at run time.

    Instructions in fusions, async operations and reductions are parts of another and have no entry. A
    loop's body runs once a round, its condition once more; whether a branch of a conditional runs is
    decided at run time.
    """
    found: dict[int, int | None] = {}
    entry = entry_of(program)
    if entry is not None:
        _run(program, entry, 1, found, 0)
    return found


def _run(
    program: Program,
    computation: HloComputation,
    times: int | None,
    found: dict[int, int | None],
    depth: int,
) -> None:
    """Count a computation's instructions, and those of computations that they run."""
    for instruction in computation.instructions:
        before = found.get(instruction.id, 0)
        found[instruction.id] = None if before is None or times is None else before + times
        if depth < _DEEPEST:
            for inner, rounds in _inner(program, instruction):
                both = None if times is None or rounds is None else times * rounds
                _run(program, inner, both, found, depth + 1)


def _inner(
    program: Program, instruction: HloInstruction
) -> list[tuple[HloComputation, int | None]]:
    """The computations that an instruction runs, each with how often."""
    called = program.called(instruction)
    if instruction.opcode == b"call":
        return [(each, 1) for each in called]
    if instruction.opcode == b"conditional":
        return [(each, None) for each in called]
    if instruction.opcode != b"while":
        return []
    trips = trip_count(program, instruction)
    return [
        (each, trips + 1 if trips is not None and is_condition(program, each) else trips)
        for each in called
    ]
