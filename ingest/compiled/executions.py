"""How often one execution of a program runs each of its instructions."""

from __future__ import annotations

from collections import Counter

from xlahouse.ingest.compiled.loops import trip_count
from xlahouse.ingest.compiled.schedule import entry_of, is_condition
from xlahouse.ingest.hlo.messages import HloComputation, HloInstruction
from xlahouse.ingest.hlo.program import Program

_MOST = 1 << 53  # times; more is damage, as of loops within loops without end
Times = dict[int, int | None]


def executions(program: Program) -> Times:
    """Times that each instruction runs, by id; None where that is decided at run time.

    Instructions in fusions, async operations and reductions are parts of another and have no entry. A
    loop's body runs once a round, its condition once more; whether a branch of a conditional runs is
    decided at run time. Damaged HLO may call itself: what it then runs has None.
    """
    entry = entry_of(program)
    if entry is None:
        return {}
    reached, calls = _reached(program, entry)
    times = _times(entry.id, calls)
    return {
        instruction.id: times.get(number)
        for number, computation in reached.items()
        for instruction in computation.instructions
    }


def _reached(
    program: Program, entry: HloComputation
) -> tuple[dict[int, HloComputation], dict[int, list[tuple[int, int | None]]]]:
    """(the computations that run, by id; which of them each runs, with how often)."""
    reached, waiting = {entry.id: entry}, [entry]
    calls: dict[int, list[tuple[int, int | None]]] = {}
    while waiting:
        computation = waiting.pop()
        inner = [pair for each in computation.instructions for pair in _inner(program, each)]
        calls[computation.id] = [(each.id, rounds) for each, rounds in inner]
        for each, _ in inner:
            if each.id not in reached:
                reached[each.id] = each
                waiting.append(each)
    return reached, calls


def _times(entry: int, calls: dict[int, list[tuple[int, int | None]]]) -> Times:
    """Times that each computation runs, callers first; what calls itself, or such calls, has none."""
    callers = Counter(inner for called in calls.values() for inner, _ in called)
    times: Times = {entry: 1}
    ready = [] if callers[entry] else [entry]
    done: Times = {}
    while ready:
        number = ready.pop()
        own = done[number] = times[number]
        for inner, rounds in calls[number]:
            before = times.get(inner, 0)
            times[inner] = None
            if before is not None and own is not None and rounds is not None:
                total = before + own * rounds
                times[inner] = total if total <= _MOST else None
            callers[inner] -= 1
            if not callers[inner]:
                ready.append(inner)
    return done


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
