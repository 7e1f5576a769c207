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


@dataclass
class _Walk:
    """Where a group is: the nominal clock, how late each member is, which transfers are in flight."""

    run: Run
    late: dict[int, int]
    clock: int = 0
    starts: dict[str, tuple[int, dict[int, int]]] = field(default_factory=dict)

    def each(self, segment: Segment, stay: dict[int, int], **more: dict[int, int]) -> Visit:
        wait = more.pop("wait", dict.fromkeys(self.late, 0))
        return Visit(segment, self.late, stay, wait, **more)

    def alone(self, segment: Segment) -> Visit:
        """A segment in which no device waits; only compute is slower on a lagged member."""
        lag = self.run.lag if segment.what == "compute" else lambda position: 0
        visit = self.each(segment, {p: segment.ps + lag(p) for p in self.late})
        if segment.what == "start":
            self.starts[segment.op] = self.clock, self.late
        self.late = {p: late + lag(p) for p, late in self.late.items()}
        self.clock += segment.ps
        return visit

    def meet(self, segment: Segment) -> Visit:
        """A synchronous collective: all leave it together."""
        run, latest = self.run, max(self.late.values())
        behind = {p: latest - late for p, late in self.late.items()}
        if run.barriers:
            wait = {p: behind[p] + run.barrier_ps for p in behind}
            visit = self.each(segment, dict.fromkeys(behind, segment.ps), wait=wait)
        else:
            visit = self.each(segment, {p: behind[p] + segment.ps for p in behind})
        pause = run.barrier_ps + run.wait_ps if run.barriers else 0
        self.clock += latest + pause + segment.ps
        self.late = dict.fromkeys(self.late, 0)
        return visit

    def end(self, segment: Segment) -> Visit:
        """A done op: over at the latest start plus the transfer, or when its member comes later."""
        began, start_late = self.starts[segment.pair]
        arrival = began + max(start_late.values()) + segment.transfer.ps
        ends = {p: max(self.clock + self.late[p] + segment.ps, arrival) for p in self.late}
        stay = {p: ends[p] - self.clock - self.late[p] for p in ends}
        flight = {p: ends[p] - began - start_late[p] for p in ends}
        visit = self.each(segment, stay, flight=flight, start_late=start_late)
        self.clock = min(ends.values())
        self.late = {p: ends[p] - self.clock for p in ends}
        return visit


@lru_cache(maxsize=256)
def walk(run: Run, program: Program, members: tuple[int, ...]) -> tuple[Visit, ...]:
    """A group's way through a program.

    A lagged device is late by its lag for each compute op since the last meeting, and by its offset
    at the first.
    """
    state = _Walk(run, {p: run.offset(p) for p in members})
    steps = {"sync": state.meet, "done": state.end}
    return tuple(steps.get(segment.what, state.alone)(segment) for segment in program.segments)


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

    def seen(
        self, run: Run, visit: Visit
    ) -> Iterator[tuple[tuple[int, ...], Pass | None, list[int]]]:
        """(group, pass, its members that the trace holds) of each time that a group of a visit meets."""
        for group in self.program.groups(visit.segment):
            if not set(group) <= set(visit.stay):
                continue
            for each in self.passes or (None,):
                traced = filter(run.traced, group)
                yield group, each, [p for p in traced if each is None or run.saw(p, each.index)]


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
