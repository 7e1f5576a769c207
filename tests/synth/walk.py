"""How late each member of a group is at each of its meetings, from the description's sums alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from tests.synth.describe import Pass, Run
from tests.synth.programs import Program, programs
from tests.synth.segments import Segment, layer_cut


@dataclass(frozen=True)
class Visit:
    """One segment as a group goes through it, by member: how late it comes, how long it stays.

    `wait` is the time in barrier-cores. `flight` (of a done op) is the time since its start op's
    start, and `start_late` how late that start was.
    """

    segment: Segment
    late: dict[int, int]
    stay: dict[int, int]
    wait: dict[int, int]
    flight: dict[int, int] = field(default_factory=dict)
    start_late: dict[int, int] = field(default_factory=dict)


def meeting_groups(run: Run, program: Program) -> list[tuple[int, ...]]:
    """Sets of a program's positions that wait for each other; with skew only one axis does."""
    for segment in program.segments:
        if segment.transfer is not None and (run.lag_ps or run.offset_ps):
            return list(program.groups(segment))
    return [program.positions]


@lru_cache(maxsize=256)
def walk(run: Run, program: Program, members: tuple[int, ...]) -> tuple[Visit, ...]:
    """A group's way through a program.

    A lagged device is late by its lag for each compute op since the last meeting, by its offset at
    the first. At a synchronous collective all leave together; an async one ends for all at the
    latest start plus its transfer, or when a member comes for it later than that.
    """
    clock, late = 0, {p: run.offset(p) for p in members}
    visits, starts = [], {}
    for segment in program.segments:
        stay, wait, before = dict.fromkeys(members, segment.ps), dict.fromkeys(members, 0), late
        flight, start_late = {}, {}
        if segment.what == "compute":
            stay = {p: segment.ps + run.lag(p) for p in members}
            late = {p: late[p] + run.lag(p) for p in members}
        elif segment.what == "sync":
            behind = {p: max(late.values()) - late[p] for p in members}
            clock += max(late.values()) + (run.barrier_ps + run.wait_ps if run.barriers else 0)
            late = dict.fromkeys(members, 0)
            if run.barriers:
                wait = {p: behind[p] + run.barrier_ps for p in members}
            else:
                stay = {p: behind[p] + segment.ps for p in members}
        elif segment.what == "start":
            starts[segment.op] = clock, late
        elif segment.what == "done":
            began, start_late = starts[segment.pair]
            arrival = began + max(start_late.values()) + segment.transfer.ps
            ends = {p: max(clock + late[p] + segment.ps, arrival) for p in members}
            stay = {p: ends[p] - clock - late[p] for p in members}
            flight = {p: ends[p] - began - start_late[p] for p in members}
            clock, late = min(ends.values()), {p: ends[p] - min(ends.values()) for p in members}
        visits.append(Visit(segment, before, stay, wait, flight, start_late))
        clock += 0 if segment.what == "done" else segment.ps
    return tuple(visits)


@dataclass(frozen=True)
class Times:
    """When a program (or the visible part of one, `cut`) ran: in which passes of one label."""

    program: Program
    label: str | None  # None: outside every marker
    per_step: int
    passes: tuple[Pass, ...] = ()
    cut: slice = field(default_factory=lambda: slice(None))

    def count(self, run: Run, position: int) -> int:
        """Launches that a position's plane holds."""
        seen = sum(run.saw(position, each.index) for each in self.passes)
        return self.per_step * (seen if self.passes else 1)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Those that the profile saw."""
        return self.program.segments[self.cut]

    def visits(self, run: Run) -> Iterator[tuple[tuple[int, ...], tuple[Visit, ...]]]:
        """(members, their visits that the profile saw) of each set of devices that meets."""
        for members in meeting_groups(run, self.program):
            yield members, walk(run, self.program, members)[self.cut]


@lru_cache(maxsize=64)
def schedule(run: Run) -> tuple[Times, ...]:
    """Every program with how often it ran."""
    per_step, times = run.microbatches if run.staged else 1, []
    for program in programs(run):
        ours = [each for each in run.passes if each.phase == program.phase]
        for label in dict.fromkeys(each.label for each in ours):
            passes = tuple(each for each in ours if each.label == label)
            times.append(Times(program, label, per_step, passes))
    decode = programs(run)[-1]
    if run.head_layers:
        times.append(Times(decode, None, 1, (), layer_cut(run, run.head_layers, from_start=False)))
    if run.tail_layers:
        times.append(Times(decode, None, 1, (), layer_cut(run, run.tail_layers, from_start=True)))
    return tuple(times)
