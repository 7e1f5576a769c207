"""How long one execution of a compiled program takes: its instructions in their scheduled order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from xlahouse.capture.errors import WarehouseError

SYNC_FLAGS = "S(2)"  # in a shape: the memory of the flags by which a transfer is waited for
_DEEPEST = 64


class Instruction(NamedTuple):
    """A scheduled instruction."""

    op: str  # name of the instruction
    computation: str  # name of the computation that holds it
    opcode: str  # of the instruction
    called: tuple[str, ...]  # names of the computations that it calls
    operands: tuple[str, ...]  # names of the instructions that it reads
    shape: str  # of its result, as HLO text
    executions: int | None  # in one execution of the program; None: decided at run time


class InstructionTime(NamedTuple):
    """What an instruction takes."""

    line_ps: float = 0.0  # while the device does nothing else
    flight_ps: float | None = None  # of a start: until its done may end; None of all others
    is_transfer: bool = False  # between devices


@dataclass(frozen=True)
class Parts:
    """A time, and what it consists of."""

    compute_ps: float = 0.0  # all but transfers and copies
    transfer_ps: float = 0.0  # transfers between devices that nothing hides
    copy_ps: float = 0.0  # copies within a device that nothing hides

    @property
    def total_ps(self) -> float:
        """All of it."""
        return self.compute_ps + self.transfer_ps + self.copy_ps

    def plus(self, other: Parts, times: int = 1) -> Parts:
        """With another time, so often."""
        return Parts(
            self.compute_ps + times * other.compute_ps,
            self.transfer_ps + times * other.transfer_ps,
            self.copy_ps + times * other.copy_ps,
        )


@dataclass(frozen=True)
class Timeline:
    """A program's instructions by computation, each in its scheduled order."""

    name: str  # of the run, for errors
    by_computation: Mapping[str, list[Instruction]]  # name of a computation -> its instructions
    start_of: Mapping[str, str] = field(default_factory=dict)  # done -> start

    @classmethod
    def of(cls, name: str, instructions: Iterable[Instruction]) -> Timeline:
        """Prepare a program. instructions: in the order of its schedule."""
        held: dict[str, list[Instruction]] = {}
        for instruction in instructions:
            held.setdefault(instruction.computation, []).append(instruction)
        start_of = {done: start for rows in held.values() for start, done in _pairs(rows)}
        return cls(name, held, start_of)

    @cached_property
    def starts(self) -> frozenset[str]:
        """Starts whose done is known: their copies and transfers may run beside other instructions."""
        return frozenset(self.start_of.values())

    def duration(self, entry: str, costs: Mapping[str, InstructionTime], at_most: bool) -> Parts:
        """The time of an execution.

        Args:
            entry: the computation that runs first.
            costs: of each instruction that takes time.
            at_most: whether a conditional takes its longest branch, and flights of a kind (copies,
                transfers) follow one another; else the shortest, and they do not.

        Raises:
            WarehouseError: the rounds of a loop are decided at run time.
        """
        return self._run(entry, costs, at_most, 0, {})

    def _run(
        self,
        name: str,
        costs: Mapping[str, InstructionTime],
        at_most: bool,
        depth: int,
        known: dict[str, Parts],
    ) -> Parts:
        """known: of computations, each replayed once, however often it is called."""
        if name in known:
            return known[name]
        now = Parts()
        landing: dict[str, float] = {}
        free = {True: 0.0, False: 0.0}  # from when on links are free, and copies
        if depth > _DEEPEST:
            raise WarehouseError(f"{self.name}: {name} calls itself")
        for each in self.by_computation.get(name, ()):
            cost = costs.get(each.op, _NOTHING)
            start = self.start_of.get(each.op)
            if start in landing:
                wait = max(0.0, landing[start] - now.total_ps)
                now = now.plus(_waited(wait, costs[start].is_transfer))
            if cost.flight_ps is not None:
                begin = max(now.total_ps, free[cost.is_transfer] if at_most else 0.0)
                landing[each.op] = free[cost.is_transfer] = begin + cost.flight_ps
            for inner, times in self._inner(each):
                now = now.plus(self._run(inner, costs, at_most, depth + 1, known), times)
            if each.opcode == "conditional" and each.called:
                ways = [self._run(inner, costs, at_most, depth + 1, known) for inner in each.called]
                choose = max if at_most else min
                now = now.plus(choose(ways, key=lambda way: way.total_ps))
            line = cost.line_ps
            now = now.plus(Parts(transfer_ps=line) if cost.is_transfer else Parts(line))
        known[name] = now
        return now

    def _inner(self, each: Instruction) -> list[tuple[str, int]]:
        """Computations that an instruction runs, and how often."""
        if each.opcode == "call":
            return [(name, 1) for name in each.called]
        if each.opcode != "while":
            return []
        found = []
        for name in each.called:
            rows = self.by_computation.get(name, ())
            rounds = rows[0].executions if rows else 0
            if rounds is None or not each.executions or rounds % each.executions:
                raise WarehouseError(
                    f"{self.name}: the rounds of loop {each.op} are decided at run time, so its time "
                    "cannot be forecast"
                )
            found.append((name, rounds // each.executions))
        return found


_NOTHING = InstructionTime()


def _waited(wait: float, is_transfer: bool) -> Parts:
    return Parts(transfer_ps=wait) if is_transfer else Parts(copy_ps=wait)


def _pairs(rows: list[Instruction]) -> list[tuple[str, str]]:
    """(start, done) of a computation's async pairs.

    A done takes its start, seen through updates. Where a TPU spreads a transfer over fusions, its start
    gives flags, fusions in between take them and give others, and the done takes them and gives none.
    """
    begun: dict[str, str] = {}  # value -> the start that it comes from
    found = []
    for each in rows:
        starts = {begun[name] for name in each.operands if name in begun}
        flagged = SYNC_FLAGS in each.shape
        ends = each.opcode.endswith("-done") or (each.opcode == "fusion" and not flagged)
        passes = flagged and each.opcode in ("get-tuple-element", "fusion")
        if each.opcode.endswith("-start") or (each.opcode == "fusion" and flagged and not starts):
            begun[each.op] = each.op
        elif len(starts) == 1 and ends:
            found.append((starts.pop(), each.op))
        elif len(starts) == 1 and (passes or each.opcode.endswith("-update")):
            begun[each.op] = starts.pop()
    return found
