"""Draws a run from a seed and lets it happen on the true clock."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from random import Random

from tests.referee.truth import (
    DECODE,
    PREFILL,
    Clock,
    Event,
    Instr,
    Launch,
    Marker,
    Mesh,
    Program,
    Truth,
)

US = 1_000_000  # ps
MESHES: tuple[Mesh, ...] = (
    (("tp", 2),),
    (("tp", 4),),
    (("dp", 2), ("tp", 2)),
    (("tp", 2), ("dp", 2)),
    (("ep", 2), ("tp", 2)),
    (("dp", 4),),
    (("pp", 2), ("tp", 2)),
    (("tp", 2), ("pp", 2)),
    (("pp", 4),),
)
KINDS = {"tp": ("all-reduce", "all-gather", "reduce-scatter"), "ep": ("all-to-all",)}
OFFSETS = ("none", "30us", "third", "period", "period+1us")


def _collective(rng: Random, name: str, axis: str, tick: int | None) -> list[Instr]:
    kind = rng.choice(KINDS[axis])
    rows, cost = 4 * rng.randint(1, 64), rng.randint(10 * US, 60 * US)
    shape = {"kind": kind, "axis": axis, "rows": rows, "tick": tick}
    if kind in ("all-gather", "all-reduce") and rng.random() < 0.3:
        start = Instr(f"{kind}-start.{name}", "start", cost=US // 2, **shape)
        inside = Instr(f"fusion.{name}0", "compute", cost=rng.randint(5 * US, 70 * US), tick=tick)
        done = Instr(f"{kind}-done.{name}", "done", cost=cost, pair=start.name, **shape)
        return [start, inside, done]
    barrier = rng.random() < 0.4
    return [Instr(f"{kind}.{name}", "sync", cost=cost, barrier=barrier, **shape)]


def _body(rng: Random, axes: list[str], layers: int, tick: int | None, tag: str) -> list[Instr]:
    body: list[Instr] = []
    for layer in range(layers):
        name = f"{tag}{layer}"
        cost = rng.randint(20 * US, 90 * US)
        body.append(Instr(f"fusion.{name}", "compute", cost=cost, tick=tick))
        if rng.random() < 0.25:
            start = Instr(f"copy-start.{name}", "copy-start", cost=US // 4, tick=tick)
            done = Instr(f"copy-done.{name}", "copy-done", cost=3 * US, pair=start.name, tick=tick)
            extra = Instr(f"fusion.{name}1", "compute", cost=9 * US, tick=tick)
            body += [start, extra, done]
        for at, axis in enumerate(axes):
            body += _collective(rng, f"{name}{at + 5}", axis, tick)
    body.append(Instr(f"fusion.{tag}9", "compute", cost=rng.randint(5 * US, 20 * US), tick=tick))
    return body


def _programs(rng: Random, truth: Truth) -> dict[str, list[Program]]:
    """phase -> a program, or one a stage."""
    axes = [axis for axis, _ in truth.mesh if axis in KINDS]
    found: dict[str, list[Program]] = {}
    for number, phase in enumerate((PREFILL, DECODE)):
        layers = rng.randint(1, 3)
        if truth.staged:
            stages = []
            for stage in range(truth.size("pp")):
                devices = tuple(d for d in truth.devices if truth.at(d, "pp") == stage)
                body = _body(rng, axes, layers, None, "1")
                stages.append((f"jit_stage_{phase}", devices, body))
        elif truth.stacked:
            body = []
            for tick in range(len(truth.tick_microbatch)):
                body += _body(rng, axes, layers, tick, str(tick + 1))
                cost = rng.randint(5 * US, 20 * US)
                name = f"collective-permute.{tick}"
                body.append(
                    Instr(name, "sync", "collective-permute", "pp", 16, tick=tick, cost=cost)
                )
            body.append(Instr("fusion.999", "compute", cost=5 * US))
            stages = [(f"jit_{phase}", tuple(truth.devices), body)]
        else:
            stages = [(f"jit_{phase}", tuple(truth.devices), _body(rng, axes, layers, None, "1"))]
        found[phase] = [
            Program(1 + 100 * number + k, name, phase, devices, tuple(body))
            for k, (name, devices, body) in enumerate(stages)
        ]
    return found


@dataclass
class Machine:
    """Devices that take launches in order."""

    truth: Truth
    rng: Random
    jitter: bool  # whether durations differ from launch to launch
    lag: dict[int, int]
    uneven: dict[int, float]
    free: dict[int, int] = field(default_factory=dict)
    number: int = 0
    gaps: dict[tuple, int] = field(default_factory=dict)
    base: dict[tuple, int] = field(default_factory=dict)

    def cost(self, key: tuple, mean: int, device: int) -> int:
        """Duration of a compute op."""
        if not self.jitter and key in self.base:
            return self.base[key]
        found = round(mean * self.uneven[device] * self.rng.uniform(0.9, 1.1))
        self.base[key] = found
        return found

    def gap(self, key: tuple) -> int:
        """Idle time before an op: none, under 100 ns, or more."""
        if self.jitter or key not in self.gaps:
            choice = self.rng.random()
            gap = self.rng.randint(0, 99_999) if choice < 0.3 else self.rng.randint(10**5, 4 * US)
            self.gaps[key] = 0 if choice < 0.5 and choice >= 0.3 else gap
        return self.gaps[key]

    def run(
        self, program: Program, enqueue: dict[int, int], ready: int, who: tuple[int, int, int]
    ) -> list[Launch]:
        """One launch instance, from its enqueues by host and when its input is ready."""
        request, step, thread = who
        at: dict[int, int] = {}
        made: dict[int, Launch] = {}
        for device in program.devices:
            start = max(
                self.free.get(device, 0),
                ready,
                enqueue[self.truth.host(device)] + 2 * US + self.lag[device],
            )
            start += self.lag[device] if self.jitter or self.truth.size("dp") > 2 else 0
            at[device] = start
            made[device] = Launch(device, self.number, program, request, step, thread)
            made[device].enqueue = enqueue[self.truth.host(device)] + 1000 * len(made)
            made[device].start = start
        self.number += 1
        issued: dict[tuple[str, int], int] = {}
        for number, instr in enumerate(program.instrs):
            for device in program.devices:
                key = (program.id, instr.name, device)
                at[device] += self.gap(key) if number else 1000
                if instr.what == "compute":
                    self._put(made[device], instr, at, self.cost(key, instr.cost, device))
                elif instr.what in ("copy-start", "copy-done"):
                    self._put(made[device], instr, at, instr.cost)
            if instr.what in ("sync", "start", "done"):
                self._meet(instr, program, at, made, issued)
        for device, launch in made.items():
            launch.end = self.free[device] = at[device] + 500
            self.free[device] += 200
        return list(made.values())

    def _put(self, launch: Launch, instr: Instr, at: dict[int, int], duration: int) -> None:
        start = at[launch.device]
        launch.events.append(Event(instr.name, instr.what, start, start + duration))
        at[launch.device] = start + duration

    def _meet(self, instr, program, at, made, issued) -> None:
        """A collective: those of a group leave together."""
        for device in program.devices:
            group = [d for d in self.truth.group(device, instr.axis) if d in program.devices]
            if device != group[0]:
                continue
            if instr.what == "start":
                for member in group:
                    issued[instr.name, member] = at[member]
                    self._put(made[member], instr, at, instr.cost)
                continue
            latest = max(at[d] for d in group)
            if instr.what == "done":
                finished = max(issued[instr.pair, d] for d in group) + instr.cost
                for member in group:
                    end = max(finished, at[member] + 1000)
                    self._put(made[member], instr, at, end - at[member])
                continue
            for member in group:
                if instr.barrier and at[member] < latest:
                    wait = Event(instr.name, "barrier", at[member], latest)
                    made[member].events.append(wait)
                    at[member] = latest
                self._put(made[member], instr, at, latest + instr.cost - at[member])


def _schedule(truth: Truth) -> list[tuple[int, int]]:
    """(request, step) in the order in which the hosts enqueue them."""
    if not truth.overlapping:
        return [(r, s) for r in range(truth.requests) for s in range(truth.steps)]
    turns = [(r + s, r, s) for r in range(truth.requests) for s in range(truth.steps)]
    return [(r, s) for _, r, s in sorted(turns)]


def _happen(truth: Truth, rng: Random, jitter: bool) -> None:
    lagging = {d: rng.choice([0, 0, 5, 20]) * US for d in truth.devices}
    uneven = {d: rng.uniform(1, 1.3) for d in truth.devices}
    machine = Machine(truth, rng, jitter, lagging, uneven)
    programs, now = _programs(rng, truth), 50 * US
    ends: dict[int, int] = {}
    marks: list[Marker] = []
    pause = rng.randint(30, 120) * US
    for request, step in _schedule(truth):
        thread = request if truth.overlapping else 0
        now = max(now, ends.get(request, 0)) + pause
        if jitter:
            now += rng.randint(0, 60 * US)
        begin = {h: now + rng.randint(0, US // 2) for h in range(truth.hosts)}
        enqueued, phase = 0, DECODE if step else PREFILL
        made: list[Launch] = []
        for _ in range(truth.microbatches if truth.staged else 1):
            ready = 0
            for program in programs[phase]:
                at = {h: begin[h] + (enqueued + 1) * US for h in begin}
                launches = machine.run(program, at, ready, (request, step, thread))
                ready = max(launch.end for launch in launches) + 2 * US
                made += launches
                enqueued += 1
        ends[request] = max(launch.end for launch in made)
        last = now + (enqueued + 3) * US
        now = last if truth.overlapping else ends[request]
        marks += [
            Marker(h, thread, phase, request, step, begin[h], last + rng.randint(0, 1000))
            for h in begin
        ]
        truth.launches += made
    truth.markers = marks


def _lose(truth: Truth, rng: Random) -> None:
    """Some devices miss their first or last launches."""
    for device in truth.devices:
        own = [launch for launch in truth.launches if launch.device == device]
        count = rng.choice([0, 0, 1, 2])
        if not count or len(own) < count + 2:
            continue
        gone = own[:count] if rng.random() < 0.5 else own[-count:]
        truth.lost += count
        truth.launches = [x for x in truth.launches if not any(x is g for g in gone)]


def draw(seed: int) -> Truth:
    """The run of a seed; the same one on every machine."""
    rng = Random(seed)
    mesh = rng.choice(MESHES)
    pipeline = rng.choice(["stacked", "staged"]) if "pp" in dict(mesh) else ""
    hosts = rng.choice([1, 2, 2, 2])
    markers = rng.choice(["none", "one", "all", "all"])
    every = frozenset(range(hosts))
    marked = {"none": frozenset(), "one": frozenset({rng.randrange(hosts)}), "all": every}[markers]
    truth = Truth(
        seed,
        mesh,
        hosts,
        pipeline == "stacked",
        pipeline == "staged",
        rng.randint(1, 3) if pipeline else 1,
        rng.choice([1, 2]),
        rng.randint(3, 6),
        marked,
        (),
        0,
        False,
    )
    truth.overlapping = truth.requests > 1 and rng.random() < 0.3
    jitter = rng.random() < 0.7
    _happen(truth, rng, jitter)
    starts = [x.start for x in truth.launches if x.device == 0 and x.step]
    gaps = sorted(b - a for a, b in itertools.pairwise(starts))
    truth.period = gaps[len(gaps) // 2] if gaps else 500 * US
    if rng.random() < 0.3:
        _lose(truth, rng)
    name = rng.choice(OFFSETS)
    offset = (
        {
            "none": 0,
            "30us": 30 * US,
            "third": truth.period // 3,
            "period": truth.period,
            "period+1us": truth.period + US,
        }[name]
        if hosts > 1
        else 0
    )
    drift = rng.choice([0, 0, 50, -50]) if hosts > 1 else 0
    other = Clock(offset * rng.choice([1, -1]), drift)
    truth.clocks = (Clock(), other)[:hosts]
    truth.notes = (
        f"{mesh} {pipeline} hosts={hosts} markers={markers} jitter={jitter} "
        f"offset={name} drift={drift} lost={truth.lost} overlapping={truth.overlapping}"
    )
    return truth
