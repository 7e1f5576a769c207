"""What each device does in a step, and who is busy in each elementary piece of its time, one by one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from tests.synth.clocks import comparable
from tests.synth.describe import Run
from tests.synth.mesh import coordinate
from tests.synth.programs import Program
from tests.synth.segments import Segment
from tests.synth.timeline import BARRIER, OPS, TRACE_ME, launch_span, simulate, step_launches

SHORT_PS = 100_000  # a gap under it is the device's own

Span = tuple[int, int]


@dataclass
class Lane:
    """One device in a step, ps after the step's start."""

    window: Span
    busy: list[Span] = field(default_factory=list)
    launches: list[Span] = field(default_factory=list)
    # Axis, where the clocks of its group can be compared, and time in its barrier.
    waits: list[tuple[str | None, int]] = field(default_factory=list)
    masked: int = 0

    def is_busy(self, at: float) -> bool:
        return any(start <= at < end for start, end in self.busy)

    def is_open(self, at: float) -> bool:
        return any(start <= at < end for start, end in self.launches)


@lru_cache(maxsize=512)
def lane(run: Run, phase: str, position: int) -> Lane:
    """What a device does in a step of a phase."""
    found, ends = Lane((0, 0)), []
    for launch in step_launches(run, phase):
        program = launch.program
        if position not in program.positions:
            continue
        begin, end = launch_span(run, program, position)
        found.launches.append((launch.base + begin, launch.base + end))
        begun = {}
        for event in simulate(run, program)[position]:
            segment = program.segments[event.index]
            span = (launch.base + event.start, launch.base + event.start + event.duration)
            if event.op == "while" or event.line not in (OPS, TRACE_ME):
                continue
            ends.append(span)
            if event.line == OPS or event.op == BARRIER:
                found.busy.append(span)
            if event.op == BARRIER:
                found.waits.append((_axis(run, program, segment, position), event.duration))
            if segment.what == "start":
                begun[segment.op] = span[0]
            elif segment.what == "done":
                found.busy.append((begun[segment.pair], span[1]))
            elif segment.what == "compute" and segment.tick is not None:
                held = segment.tick - coordinate(run.mesh, position, "pp")
                found.masked += 0 if 0 <= held < run.microbatches else event.duration
    found.window = min(start for start, _ in ends), max(end for _, end in ends)
    return found


def gaps(run: Run, phase: str, position: int, peers: tuple[int, ...]) -> list[Counter]:
    """Causes of each gap of a device; `peers` are those who are in the step with it."""
    mine = lane(run, phase, position)
    others = {p: lane(run, phase, p) for p in peers if p != position}
    stage = {p: coordinate(run.mesh, p, "pp") for p in peers} if run.size("pp") > 1 else {}
    bounds = {*mine.window}
    for each in (mine, *others.values()):
        bounds |= {at for span in (*each.busy, *each.launches) for at in span}
    found: list[Counter] = []
    previous_idle = False
    for begin, end in pairwise(sorted(at for at in bounds if _inside(at, mine.window))):
        middle = (begin + end) / 2
        if mine.is_busy(middle):
            previous_idle = False
            continue
        if not previous_idle:
            found.append(Counter())
        previous_idle = True
        busy = {stage.get(p) for p, other in others.items() if other.is_busy(middle)}
        found[-1][_cause(busy, stage.get(position), mine.is_open(middle))] += end - begin
    return [c if c.total() >= SHORT_PS else Counter(device=c.total()) for c in found]


def _inside(at: int, window: Span) -> bool:
    return window[0] <= at <= window[1]


def _cause(busy_stages: set, stage: int | None, is_open: bool) -> str:
    if not busy_stages:
        return "device" if is_open else "host"
    return "imbalance" if stage in busy_stages else "pipeline"


def _axis(run: Run, program: Program, segment: Segment, position: int) -> str | None:
    (group,) = (group for group in program.groups(segment) if position in group)
    return segment.transfer.axis if comparable(run, filter(run.traced, group)) else None
