"""Draws what happens when: steps, launches, ops and the transfers that devices take part in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.views.oracle.devices import Devices, draw_devices
from tests.views.oracle.drawn import TICK_PS, Collective, Drawn, Program, Row
from tests.views.oracle.memory import draw_buffers
from tests.views.oracle.outside import NO_STEP, Step, add_host_events, add_outside
from tests.views.oracle.programs import draw_programs


@dataclass
class Clock:
    """Where drawing has come to: each device's free time, what instances were begun, their ends."""

    shift: dict[int, int]  # device -> how far its host's clock is off
    untimed: frozenset[int]  # devices of whose arrivals nothing is known
    free: int = 0
    instances: dict[tuple[Any, ...], int] = field(default_factory=dict)
    ends: dict[tuple[Any, ...], int] = field(default_factory=dict)
    scopes: dict[tuple[int, str], tuple[int | None, str | None]] = field(default_factory=dict)
    launches: int = 0


def draw_run(run: Drawn) -> Drawn:
    """All tables of a run but those that are made from others."""
    devices = draw_devices(run)
    programs = draw_programs(run, devices)
    apart = run.rng.choice((0, 0, 30 * TICK_PS, 10**9))
    of_b = [row["device_id"] for row in devices.traced if row["host"] == "b"]
    shift = {row["device_id"]: apart * (row["device_id"] in of_b) for row in devices.traced}
    clock = Clock(shift, frozenset(of_b if run.chance(0.05) else ()))
    for step in _steps(run):
        clock.free += run.long_gap() if run.chance(0.8) else -run.ticks(10)
        _draw_step(run, devices, programs, clock, step)
    _number_launches(run)
    add_outside(run, devices, clock.free)
    add_host_events(run, clock.free)
    draw_buffers(run, programs)
    return run


def _steps(run: Drawn) -> list[Step]:
    """The steps of a run in their order; without markers they get their numbers from launches."""
    if run.chance(0.25):
        return [NO_STEP] * run.rng.randint(1, 6)
    steps: list[Step] = []
    for request in range(-run.rng.randint(0, 2), run.rng.randint(1, 3)):
        decodes = run.rng.randint(0, 4)
        for step in range(1 + decodes):
            phase = "warmup" if request < 0 else "decode" if step else "prefill"
            phase = "mixed" if request >= 0 and run.chance(0.03) else phase
            steps.append({"phase": phase, "request": request, "step": step})
    return steps


def _draw_step(
    run: Drawn, devices: Devices, programs: list[Program], clock: Clock, step: Step
) -> None:
    begin = opened = clock.free
    count = run.rng.choice((1, 1, 2)) if step is not NO_STEP else 1
    for program in run.rng.choices(programs, k=count):
        launch_instance = clock.launches
        clock.launches += 1
        here = step
        if step is NO_STEP:
            here = {"phase": "step", "request": None, "step": launch_instance}
        reached = begin
        starts = []
        for device in devices.traced:
            if run.chance(0.93):
                start = begin + run.ticks(8)
                starts.append(start)
                end = _Launch(run, clock, program, device, launch_instance, here).draw(start)
                reached = max(reached, end)
        if step is NO_STEP and starts:
            run.add("phases", **here, source="module", start_ps=min(starts),
                    duration_ps=reached - min(starts))  # fmt: skip
        begin = reached + (run.ticks(6) if run.chance(0.5) else run.long_gap())
        clock.free = reached
    if step is not NO_STEP:
        for host in sorted({row["host"] for row in devices.traced}, key=str):
            if host == "a" and run.chance(0.1):
                continue
            run.add("phases", **step, host=host, source="marker", start_ps=opened - run.ticks(20),
                    duration_ps=run.ticks(90) + 1)  # fmt: skip


@dataclass
class _Launch:
    """One launch on one device."""

    run: Drawn
    clock: Clock
    program: Program
    device: Row
    launch_instance: int
    step: Step
    launch: Row = field(default_factory=dict)
    open: dict[str, Row] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)  # of ops

    def draw(self, begin: int) -> int:
        """Draw ops from `begin` on; the end, without the shift of the device's clock."""
        run, shift = self.run, self.clock.shift[self.device["device_id"]]
        program = {"program_id": self.program.program_id, "module": self.program.module}
        lead = run.ticks(3)
        enqueue = begin - run.ticks(20) + 4 * TICK_PS if run.chance(0.8) else None
        self.launch = run.add(
            "launches", **self._key(), **program, launch_instance=self.launch_instance,
            start_ps=begin - lead + shift, enqueue_ps=enqueue,
            **self.step,
        )  # fmt: skip
        at = begin
        seen: dict[str, int] = {}
        for kind, what in self.program.items:
            at += run.ticks(5) if run.chance(0.4) else 0
            if kind in ("sync", "start", "done"):
                at = self._transfer(kind, what, at, seen)
            elif not run.chance(0.05):
                at = self._op(what, kind, at)
        if run.chance(0.3):  # a loop around what ran
            self._op("while.1", "control", begin, at - begin)
        last = max([begin, *self.ends])
        if last > begin and run.chance(0.15):  # in flight, which is not running
            self._op(
                "copy-start.9", "copy", begin, last - begin, line="Async XLA Ops", is_async=True
            )
        if run.chance(0.15):
            self._op("compute.9", "compute", begin + run.ticks(5), line="XLA TraceMe")
        end = at + (run.ticks(3) if run.chance(0.8) else -run.ticks(3))
        self.launch["duration_ps"] = max(0, end - begin + lead)
        return max(at, end)

    def _key(self) -> Row:
        return {"device_id": self.device["device_id"]}

    def _op(self, op: str, category: str, at: int, duration: int | None = None, **more: Any) -> int:
        """Add an op; its end without the shift."""
        run = self.run
        name = "barrier-cores" if category == "wait" and run.chance(0.6) else op
        duration = run.ticks(10) if duration is None else duration
        known = category == "compute" and not run.chance(0.05)
        flops = float(run.rng.randint(0, 1000)) if known else None
        start = at + self.clock.shift[self.device["device_id"]]
        scope = run.rng.choice((None, 0, 1)), run.rng.choice((None, "mlp"))
        layer, component = self.clock.scopes.setdefault((self.program.program_id, name), scope)
        row = {
            "program_id": self.program.program_id, "module": self.program.module, "op": name,
            "category": category, "opcode": op.split(".")[0], "line": "XLA Ops", "is_async": False,
            "start_ps": start, "duration_ps": duration, "self_ps": run.rng.randint(0, duration),
            "attributed_ps": None if duration % 17 == 1 else duration // 3,
            "flops": flops, "model_flops": flops if run.chance(0.8) else None,
            "bytes_accessed": float(run.rng.randint(0, 10**6)) if run.chance(0.95) else None,
            "hbm_bytes": float(run.rng.randint(0, 10**6)) if run.chance(0.5) else None,
            "layer": layer, "component": component,
            **self.step,
        }  # fmt: skip
        row = run.add("ops", **self._key(), **(row | more))
        row["launch_row"] = self.launch
        self.ends.append(at + duration)
        return self.ends[-1]

    def _transfer(self, kind: str, what: Collective, at: int, seen: dict[str, int]) -> int:
        run, op = self.run, what.op
        if kind == "done":
            return self._done(what, at)
        seen[op] = seen.get(op, 0) + 1
        arrival = at
        if kind == "sync" and run.chance(0.4):
            at = self._op("barrier-cores", "wait", at)
            arrival = arrival if run.chance(0.8) else at
            if arrival == at:  # something between: it is not directly before the op
                at = arrival = self._op("compute.7", "compute", at)
        group, size = what.groups[self.device["world"]].get(self.device["device_id"], (None, None))
        meeting = (self.launch_instance, op, seen[op], self.device["world"], group)
        instance = None
        if group is not None:
            instance = self.clock.instances.setdefault(meeting, len(self.clock.instances))
        silent = what.senders is not None and self.device["device_id"] not in what.senders
        shift = self.clock.shift[self.device["device_id"]]
        row = {
            "op": op, "kind": what.kind, "instance": instance, "group_index": group,
            "group_size": size, "payload_bytes": 0 if silent and what.is_grouped else what.payload,
            "program_id": self.program.program_id, "module": self.program.module,
            "start_ps": at + shift, "arrival_ps": arrival + shift, "dtype": "bf16",
            "is_async": what.is_async, **self.step,
        }  # fmt: skip
        lost = run.chance(0.04)  # a participant's part may be missing
        if kind == "start":
            length = run.ticks(2)
            if lost:
                return at + length
            self._op(op, "collective", at, length, is_async=True, opcode=f"{what.kind}-start")
            self.open[op] = {**row, "issue_ps": length, "meeting": meeting}
            return at + length
        row["duration_ps"] = self._end(meeting, at) - at
        if not lost:
            self._op(op, "collective", at, row["duration_ps"], opcode=what.kind)
            self._collective(row)
        return at + row["duration_ps"]

    def _done(self, what: Collective, at: int) -> int:
        if what.op not in self.open:
            return at
        row = self.open.pop(what.op)
        meeting = row.pop("meeting")
        length = self.run.rng.choice((0, 1, 999_999, 10**6, 10**6 + 1, TICK_PS))
        self._op(
            what.op + "-done", "collective", at, length, is_async=True, opcode=f"{what.kind}-done"
        )
        shift = self.clock.shift[self.device["device_id"]]
        row |= {"wait_ps": length, "duration_ps": at + length + shift - row["start_ps"]}
        self.clock.ends.setdefault(meeting, at + length)
        self._collective(row)
        return at + length

    def _end(self, meeting: tuple[Any, ...], at: int) -> int:
        """Members of a group mostly leave a transfer together."""
        leave = self.clock.ends.setdefault(meeting, at + self.run.ticks(20))
        off = self.run.rng.choice((0, 0, 0, TICK_PS, -TICK_PS, 10**6, 10**6 + 1, -(10**6)))
        return max(at, leave + off)

    def _collective(self, row: Row) -> None:
        row = self.run.add("collectives", **self._key(), **row)
        if row["device_id"] in self.clock.untimed:
            row["arrival_ps"] = None
        row["launch_row"] = self.launch


def _number_launches(run: Drawn) -> None:
    """Launches are numbered on each device by their start."""
    counts: dict[int, int] = {}
    for row in sorted(run.tables.get("launches", []), key=lambda row: row["start_ps"]):
        row["launch"] = counts.get(row["device_id"], 0)
        counts[row["device_id"]] = row["launch"] + 1
    for table in ("ops", "collectives"):
        for row in run.tables.get(table, []):
            row["launch"] = row.pop("launch_row")["launch"]
