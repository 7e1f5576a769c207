"""What happened in a run, on one true clock: the ground that the referee's answers stand on."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

Mesh = tuple[tuple[str, int], ...]
PREFILL, DECODE = "prefill", "decode"
DATA_AXES = ("dp",)
BYTES = 2  # of an element: everything is bf16


@dataclass(frozen=True)
class Instr:
    """An instruction of a program; `what` is compute, sync, start, done, copy-start or copy-done."""

    name: str
    what: str
    kind: str = ""  # of a collective
    axis: str = ""
    rows: int = 0  # of the logical tensor, [rows, 128]
    pair: str = ""  # a done's start
    barrier: bool = False
    tick: int | None = None
    cost: int = 0  # ps: of a compute op its mean, of a collective its transfer, of a copy its time

    @property
    def payload(self) -> int:
        """S, in bytes."""
        return self.rows * 128 * BYTES


@dataclass(frozen=True)
class Program:
    """A compiled program and the devices that run it, in partition order."""

    id: int
    name: str
    phase: str
    devices: tuple[int, ...]
    instrs: tuple[Instr, ...]


@dataclass(frozen=True)
class Event:
    """An execution of an instruction, or a barrier (`what` is barrier, name that of its collective)."""

    name: str
    what: str
    start: int
    end: int
    count: int = 0  # how often the launch ran that instruction before


@dataclass
class Launch:
    """One execution of a program on one device."""

    device: int
    number: int  # of the launch instance
    program: Program
    request: int
    step: int
    thread: int
    enqueue: int = 0
    start: int = 0
    end: int = 0
    events: list[Event] = field(default_factory=list)

    @property
    def window(self) -> tuple[int, int]:
        """First op's start, last op's end."""
        return min(e.start for e in self.events), max(e.end for e in self.events)


@dataclass(frozen=True)
class Marker:
    """A marked interval on a host's thread; a request's has the label `request`."""

    host: int
    thread: int
    label: str
    request: int
    step: int
    start: int
    end: int


@dataclass(frozen=True)
class Clock:
    """How a host tells the time: reading = t + offset + drift t / 10^6."""

    offset: int = 0
    drift: int = 0  # ppm

    def read(self, time: int) -> int:
        """What the clock shows at a true time."""
        return time + self.offset + round(time * self.drift / 1_000_000)


@dataclass
class Truth:
    """A whole run, and what of it reached the trace: clocks, markers, launches that were lost."""

    seed: int
    mesh: Mesh
    hosts: int
    stacked: bool
    staged: bool
    microbatches: int
    requests: int
    steps: int  # of each request: the prefill and its decodes
    marked: frozenset[int]  # hosts whose file has markers
    clocks: tuple[Clock, ...]
    period: int
    overlapping: bool
    launches: list[Launch] = field(default_factory=list)  # those in the trace
    markers: list[Marker] = field(default_factory=list)
    lost: int = 0
    notes: str = ""

    @property
    def count(self) -> int:
        """Devices."""
        return math.prod(size for _, size in self.mesh)

    @property
    def devices(self) -> range:
        """All of them."""
        return range(self.count)

    def host(self, device: int) -> int:
        """The host of a device: devices are dealt in blocks."""
        return device * self.hosts // self.count

    def at(self, device: int, axis: str) -> int:
        """Coordinate on an axis; 0 on one that the mesh lacks."""
        for name, size in reversed(self.mesh):
            if name == axis:
                return device % size
            device //= size
        return 0

    def size(self, axis: str) -> int:
        """Size of an axis; 1 of one that the mesh lacks."""
        return dict(self.mesh).get(axis, 1)

    def group(self, device: int, axis: str) -> tuple[int, ...]:
        """The devices that differ from this one along an axis alone."""
        rest = [name for name, _ in self.mesh if name != axis]
        key = [self.at(device, name) for name in rest]
        return tuple(d for d in self.devices if [self.at(d, name) for name in rest] == key)

    @property
    def tick_microbatch(self) -> list[list[int | None]]:
        """[tick][stage] -> microbatch of a stacked pipeline: stage s holds m at tick s + m."""
        stages, count = self.size("pp"), self.microbatches
        return [
            [t - s if 0 <= t - s < count else None for s in range(stages)]
            for t in range(count + stages - 1)
        ]

    @property
    def known_steps(self) -> bool:
        """Whether every host says which request and step it works for."""
        return len(self.marked) == self.hosts
