"""When each op happens: a plain simulation of the devices, from which the traces are written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from tests.synth.describe import DECODE, Run
from tests.synth.programs import Program, programs
from tests.synth.segments import Segment

OPS, ASYNC, TRACE_ME = "XLA Ops", "Async XLA Ops", "XLA TraceMe"
EXTRA_PERIOD = 2_000_000  # ps between the extra launches
BARRIER, DEPENDENCY = "barrier-cores", "dependency-wait"


@dataclass(frozen=True)
class Placed:
    """An event of a launch, ps from the launch's nominal start; `index` is its segment's."""

    line: str
    op: str
    start: int
    duration: int
    index: int


@dataclass(frozen=True)
class Launch:
    """A program's launch within a step; `base` is ps after the step's start."""

    program: Program
    base: int


def _wait(run: Run, segment: Segment, index: int, arrival: int, latest: int) -> list[Placed]:
    """A synchronous collective on one device, with what it waits before."""
    if not run.barriers:
        return [Placed(OPS, segment.op, arrival, latest - arrival + segment.ps, index)]
    opened = latest + run.barrier_ps
    return [
        Placed(TRACE_ME, BARRIER, arrival, opened - arrival, index),
        Placed(TRACE_ME, DEPENDENCY, opened, run.wait_ps, index),
        Placed(OPS, segment.op, opened + run.wait_ps, segment.ps, index),
    ]


class _Simulation:
    """Clocks of a program's devices while its segments run."""

    def __init__(self, run: Run, program: Program) -> None:
        self.run, self.program = run, program
        self.clock = {p: run.offset(p) + run.prologue_ps for p in program.positions}
        self.events: dict[int, list[Placed]] = {p: [] for p in program.positions}
        self.started: dict[tuple[int, str], int] = {}
        self.loop = 0

    def step(self, index: int, segment: Segment) -> None:
        """Run one segment on every device."""
        if segment.what in ("sync", "done"):
            for group in self.program.groups(segment):
                self.meet(index, segment, group)
            return
        for position in self.program.positions:
            self.alone(index, segment, position)

    def alone(self, index: int, segment: Segment, position: int) -> None:
        now, duration = self.clock[position], segment.ps
        if segment.what == "compute":
            duration += self.run.lag(position)
        if segment.what in ("start", "copy-start", "loop"):
            self.started[position, segment.op] = now
        late = segment.what == "copy-start" and not segment.ps  # recorded at its done op
        if segment.what == "end-loop":
            begun = self.started[position, "while"]
            self.events[position].append(Placed(OPS, "while", begun, now - begun, index))
        elif segment.what == "copy-done":
            begun = self.started[position, segment.pair]
            if self.run.zero_starts and segment.pair == "copy-start.1":
                self.events[position].append(Placed(OPS, segment.pair, now, 0, index))
                begun = now
            self.events[position].append(
                Placed(ASYNC, segment.pair, begun, now + duration - begun, index)
            )
        if segment.what not in ("idle", "loop", "end-loop") and not late:
            self.events[position].append(Placed(OPS, segment.op, now, duration, index))
        self.clock[position] = now + duration

    def meet(self, index: int, segment: Segment, group: tuple[int, ...]) -> None:
        """Members wait for each other: at a collective's start, or at an async one's end."""
        if segment.what == "sync":
            latest = max(self.clock[p] for p in group)
            for position in group:
                placed = _wait(self.run, segment, index, self.clock[position], latest)
                self.events[position] += placed
                self.clock[position] = placed[-1].start + placed[-1].duration
            return
        arrived = max(self.started[p, segment.pair] for p in group) + segment.transfer.ps
        for position in group:
            now = self.clock[position]
            end = max(now + segment.ps, arrived)
            self.events[position].append(Placed(OPS, segment.op, now, end - now, index))
            self.clock[position] = end


@lru_cache(maxsize=256)
def simulate(run: Run, program: Program) -> dict[int, tuple[Placed, ...]]:
    """Events of one launch on each of its devices, in order of start."""
    simulation = _Simulation(run, program)
    for index, segment in enumerate(program.segments):
        simulation.step(index, segment)
    return {
        position: tuple(sorted(events, key=lambda e: (e.start, -e.duration)))
        for position, events in simulation.events.items()
    }


def launch_span(run: Run, program: Program, position: int) -> tuple[int, int]:
    """Start and end of a launch on a device, ps from its base: a little around its ops."""
    events = simulate(run, program)[position]
    return run.offset(position), max(e.start + e.duration for e in events) + run.epilogue_ps


def _length(run: Run, program: Program) -> int:
    return max(launch_span(run, program, p)[1] for p in program.positions)


def _staged_launches(run: Run, phase: str) -> list[Launch]:
    """Stage s computes microbatch m in tick s + m; ticks end with handovers, odd stages' last."""
    ours = [program for program in programs(run) if program.phase == phase]
    stages = [program for program in ours if program.stage is not None]
    hops = [program for program in ours if program.hop is not None]
    compute = max(_length(run, program) for program in stages)
    hop = max(_length(run, program) for program in hops)
    tick = compute + hop * min(len(hops), 2)
    launches = []
    for microbatch in range(run.microbatches):
        ticks = [(microbatch + (p.hop if p.stage is None else p.stage)) * tick for p in ours]
        for program, base in zip(ours, ticks, strict=True):
            late = 0 if program.hop is None else compute + hop * (program.hop % 2)
            launches.append(Launch(program, base + late))
    return sorted(launches, key=lambda launch: launch.base)


@lru_cache(maxsize=256)
def step_launches(run: Run, phase: str) -> tuple[Launch, ...]:
    """The launches of one forward pass, in order."""
    if run.staged:
        return tuple(_staged_launches(run, phase))
    return tuple(Launch(program, 0) for program in programs(run) if program.phase == phase)


@lru_cache(maxsize=256)
def step_length(run: Run, phase: str) -> int:
    """From a step's start to the end of its last op on any device (traced or not)."""
    return max(
        launch.base + event.start + event.duration
        for launch in step_launches(run, phase)
        for events in simulate(run, launch.program).values()
        for event in events
    )


@dataclass(frozen=True)
class Clock:
    """Times of a run, ps after the first host's profile start; arrays are by pass."""

    marker_start: np.ndarray
    step_start: np.ndarray
    marker_end: np.ndarray
    extra_start: int
    tail_start: int
    end: int


@lru_cache(maxsize=64)
def clock(run: Run) -> Clock:
    """What runs before; then marker, dispatch, step, fetch and host gap, step after step."""
    head = step_length(run, DECODE) if run.head_layers else 0
    head += 1000 * max(run.host_start_ns, default=0)  # every host profiles by then
    first = head + 50_000_000 + run.extra_launches * EXTRA_PERIOD
    lengths = np.array([step_length(run, each.phase) for each in run.passes])
    marker = run.dispatch_ps + lengths + run.fetch_ps
    ends = first + np.cumsum(marker + run.host_gaps)
    starts = ends - marker - run.host_gaps
    tail = int(ends[-1]) + run.dispatch_ps
    end = tail + step_length(run, DECODE) if run.tail_layers else int(ends[-1])
    return Clock(starts, starts + run.dispatch_ps, starts + marker, head + 10_000_000, tail, end)
