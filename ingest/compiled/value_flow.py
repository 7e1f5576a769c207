"""Which values reach which instruction, so that the last use of each is known.

A value is a part of an instruction's result that has memory of its own. Tuples, loops and the dones of
pairs pass values on: what uses the result of these uses the value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xlahouse.ingest.compiled.schedule import is_condition
from xlahouse.ingest.hlo.messages import HloComputation, HloInstruction
from xlahouse.ingest.hlo.program import Program

Index = tuple[int, ...]  # into the tuples of a result; () is the whole
Values = dict[Index, frozenset[int]]  # ids of the values in each part of a result

_SAME = (
    b"bitcast",
    b"opt-barrier",
    b"domain",
    b"add-dependency",
    b"async-update",
    b"all-reduce-done",
)
# Of a start's result, the part that its done passes on.
_PART_OF_START = {
    b"copy-done": 0,
    b"recv-done": None,
    b"all-gather-done": 1,
    b"collective-permute-done": 1,
    b"async-done": 1,
}
# Where in its result a start holds on to what it reads: its done is a use of that too.
_KEPT_BY_START = {
    b"copy-start": 1,
    b"send": 0,
    b"all-gather-start": 0,
    b"collective-permute-start": 0,
}
_MOST_ROUNDS = 8  # until values that loops carry around change no more: one a level of nesting


@dataclass
class ValueFlow:
    """The values in the results of a program's instructions, and the last use of each value."""

    program: Program  # with a schedule
    places: Mapping[int, int]  # of instructions in the schedule, by id
    defined: Mapping[int, Mapping[Index, int]]  # values by instruction and part
    # values that each instruction's result may hold, by id
    results: dict[int, Values] = field(default_factory=dict)
    callers: dict[int, HloInstruction] = field(default_factory=dict)  # by id of a computation

    def __post_init__(self) -> None:
        """Let values flow until nothing changes."""
        ordered = [self.program.by_id[n] for n in self.places if n in self.program.by_id]
        for each in ordered:
            if each.opcode in (b"while", b"call", b"conditional", b"async-start"):
                for computation in self.program.called(each):
                    self.callers.setdefault(computation.id, each)
        for _ in range(_MOST_ROUNDS):
            changed = False
            for each in ordered:
                found = self._result(each)
                if found != self.results.get(each.id):
                    self.results[each.id] = found
                    changed = True
            if not changed:
                return

    def spans(self) -> dict[int, tuple[int, int]]:
        """Places from which on and up to which each value is held, the last use included.

        What a computation returns is held until its caller takes it over, the program's results to the end
        of the schedule, and a loop's state from the start of each of its computations.
        """
        runs = self._runs()
        held: dict[int, tuple[int, int]] = {}
        for number, place in self.places.items():
            instruction = self.program.by_id[number]
            holder = self.program.computation_of(instruction)
            first, last = runs[holder.id]
            caller = self.callers.get(holder.id)
            is_state = (
                instruction.opcode == b"parameter"
                and caller is not None
                and caller.opcode == b"while"
            )
            for value in self.defined.get(number, {}).values():
                through = is_state and is_condition(self.program, holder)
                _reach(held, value, first if is_state else place, last + 1 if through else place)
            at = min(
                (runs[one.id][0] for one in self._run(instruction) if one.id in runs), default=place
            )
            for value in self._used_by(instruction):
                _reach(held, value, at, at)
            if number == holder.root_id:
                for value in (each for values in self.results[number].values() for each in values):
                    _reach(held, value, place, last + 1)
        return held

    def _runs(self) -> dict[int, tuple[int, int]]:
        """First and last place of each computation, by id."""
        runs: dict[int, tuple[int, int]] = {}
        for number, place in self.places.items():
            holder = self.program.computation_of(self.program.by_id[number])
            first, last = runs.get(holder.id, (place, place))
            runs[holder.id] = min(first, place), max(last, place)
        return runs

    def _run(self, instruction: HloInstruction) -> list[HloComputation]:
        """Computations of a loop, which takes over its operands as it begins."""
        return self.program.called(instruction) if instruction.opcode == b"while" else []

    def _used_by(self, instruction: HloInstruction) -> set[int]:
        """Values that it reads: a tuple reads none, and what takes an element of a tuple only the tuple."""
        if instruction.opcode in (b"tuple", b"domain"):
            return set()
        parts = [self._of(number) for number in instruction.operand_ids]
        if instruction.opcode in (b"get-tuple-element", b"copy"):
            return {value for values in parts for value in values.get((), ())}
        return {value for values in parts for each in values.values() for value in each}

    def _of(self, number: int) -> Values:
        return self.results.get(number, {})

    def _result(self, instruction: HloInstruction) -> Values:
        """What it passes on, and what it makes itself."""
        own = self.defined.get(instruction.id, {})
        passed = {
            index: values for index, values in self._passed(instruction).items() if index not in own
        }
        return passed | {index: frozenset((value,)) for index, value in own.items()}

    def _passed(self, instruction: HloInstruction) -> Values:
        opcode, operands = instruction.opcode, [self._of(n) for n in instruction.operand_ids]
        first = operands[0] if operands else {}
        if opcode == b"tuple":
            return {
                (k, *index): values
                for k, one in enumerate(operands)
                for index, values in one.items()
            }
        if opcode == b"get-tuple-element":
            return _part(first, instruction.tuple_index)
        if opcode in _SAME:
            return first
        if opcode in _PART_OF_START:
            part = _PART_OF_START[opcode]
            return first if part is None else _part(first, part)
        if opcode in _KEPT_BY_START:
            return {(_KEPT_BY_START[opcode], *index): values for index, values in first.items()}
        if opcode == b"while":
            bodies = self._bodies(instruction)
            return _union(first, *(self._of(body.root_id) for body in bodies))
        if opcode in (b"call", b"conditional"):
            return _union(*(self._of(number) for number in self._roots(instruction)))
        if opcode == b"async-start":
            taken = {
                (0, k, *index): v for k, one in enumerate(operands) for index, v in one.items()
            }
            made = _union(*(self._of(number) for number in self._roots(instruction)))
            return taken | {(1, *index): values for index, values in made.items()}
        if opcode == b"parameter":
            return self._given(instruction)
        return {}

    def _roots(self, instruction: HloInstruction) -> list[int]:
        return [computation.root_id for computation in self.program.called(instruction)]

    def _bodies(self, loop: HloInstruction) -> list[HloComputation]:
        """The computations of a loop but its condition."""
        called = self.program.called(loop)
        return [each for each in called if not is_condition(self.program, each)]

    def _given(self, parameter: HloInstruction) -> Values:
        """What the caller of its computation hands over."""
        caller = self.callers.get(self.program.computation_of(parameter).id)
        if caller is None:
            return {}
        if caller.opcode == b"while":
            return _union(self._of(caller.id), *(self._of(n) for n in caller.operand_ids))
        number = parameter.parameter_number
        if (
            caller.opcode == b"conditional"
        ):  # the first operand chooses; each branch has one of its own
            number = 1 + [one.id for one in self.program.called(caller)].index(
                self.program.computation_of(parameter).id
            )
        return self._of(caller.operand_ids[number]) if number < len(caller.operand_ids) else {}


def _part(values: Values, number: int) -> Values:
    """What stands in one element of a tuple."""
    return {index[1:]: each for index, each in values.items() if index[:1] == (number,)}


def _union(*several: Values) -> Values:
    joined: Values = {}
    for one in several:
        for index, values in one.items():
            joined[index] = joined.get(index, frozenset()) | values
    return joined


def _reach(held: dict[int, tuple[int, int]], value: int, first: int, last: int) -> None:
    """Lengthen the time that a value is held."""
    before = held.get(value, (first, last))
    held[value] = min(before[0], first), max(before[1], last)
