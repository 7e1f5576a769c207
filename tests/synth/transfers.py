"""Every transfer of every device, one by one, from the plain simulation that the traces are written from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.synth.answers.time import ran
from tests.synth.describe import DECODE, Run
from tests.synth.device import HEAD_AT
from tests.synth.programs import Program
from tests.synth.segments import Transfer, layer_cut
from tests.synth.timeline import OPS, Placed, clock, simulate, step_launches
from tests.synth.traffic import payload, wire


@dataclass(frozen=True)
class Moved:
    """A transfer on a device; times are ps after the first host's profile start."""

    device: int
    axis: str
    kind: str
    op: str
    phase: str | None
    launch: tuple | None  # the same on every device of the launch; None: cut by the profile
    instance: tuple
    start: int
    end: int
    payload: int
    wire: float


@dataclass(frozen=True)
class _Launch:
    program: Program
    position: int
    base: int
    phase: str | None
    key: tuple
    cut: slice = field(default_factory=lambda: slice(None))


def _launches(run: Run) -> Iterator[_Launch]:
    """All launches of traced devices, those that the profile cut included."""
    for each in ran(run):
        if each.index is not None:
            key = each.program.id, each.index, each.base
            yield _Launch(each.program, each.position, each.base, each.label, key)
    if not run.head_layers and not run.tail_layers:
        return
    program = step_launches(run, DECODE)[0].program
    for position in filter(run.traced, program.positions):
        if run.head_layers:
            cut = layer_cut(run, run.head_layers, from_start=False)
            events = [e for e in _events(run, program, position) if cut.start <= e.index < cut.stop]
            base = HEAD_AT - min(e.start for e in events)
            yield _Launch(program, position, base, None, ("head",), cut)
        if run.tail_layers:
            cut = layer_cut(run, run.tail_layers, from_start=True)
            yield _Launch(program, position, clock(run).tail_start, None, ("tail",), cut)


def _events(run: Run, program: Program, position: int) -> list[Placed]:
    return [event for event in simulate(run, program)[position] if event.line == OPS]


def moved(run: Run) -> list[Moved]:
    """Every transfer of every traced device."""
    return [transfer for launch in _launches(run) for transfer in _of_launch(run, launch)]


def _of_launch(run: Run, launch: _Launch) -> Iterator[Moved]:
    """In flight from a start op's start to its done op's end; a synchronous one while its op runs."""
    program, position, begun = launch.program, launch.position, {}
    events = {event.index: event for event in _events(run, program, position)}
    numbers = range(len(program.segments))[launch.cut]
    for number in numbers:
        segment, event = program.segments[number], events.get(number)
        if segment.what == "start":
            begun[segment.op] = launch.base + event.start
        if segment.what not in ("sync", "done"):
            continue
        end = launch.base + event.start + event.duration
        start = begun[segment.pair] if segment.pair else end - event.duration
        (group,) = [g for g in program.groups(segment) if position in g]
        transfer: Transfer = segment.transfer
        yield Moved(
            device=run.devices[position],
            axis=transfer.axis,
            kind=transfer.kind,
            op=segment.pair or segment.op,
            phase=launch.phase,
            launch=None if launch.key in (("head",), ("tail",)) else launch.key,
            instance=(program.id, number, group, launch.key),
            start=start,
            end=end,
            payload=payload(transfer, group, position),
            wire=wire(transfer, group, position),
        )
