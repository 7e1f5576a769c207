"""What the tables and views must say of a run, by METRICS.md, from its truth alone: who met whom."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tests.referee.truth import Event, Instr, Launch, Truth

Key = tuple
Rows = dict[Key, dict[str, Any]]
NOWHERE = (None, None)  # the step of a launch outside every marker of a run that has some


@dataclass(frozen=True)
class Transfer:
    """A collective on one device."""

    launch: Launch
    instr: Instr
    start: int
    end: int
    arrival: int
    wait: int | None
    group: tuple[int, ...]

    @property
    def instance(self) -> Key:
        """The same on every member of the group."""
        return (self.launch.number, self.instr.name, self.group)

    @property
    def name(self) -> str:
        """The op that the warehouse names it by: the start of a pair."""
        return self.instr.name


def scaled(truth: Truth, instr: Instr, device: int, group: tuple[int, ...]) -> tuple[int, float]:
    """(payload, wire) bytes of a transfer on a device."""
    n, size = len(group), instr.payload
    if instr.kind == "collective-permute":
        sends = size if group.index(device) + 1 < n else 0
        return sends, float(sends)
    if n == 1:
        return size, 0.0
    factor = {"all-reduce": 2.0}.get(instr.kind, 1.0)
    return size, factor * (n - 1) / n * size


class Answers:
    """The right rows of a run; a step is named by its marker, else by its launch instance."""

    def __init__(self, truth: Truth, known: bool = True, alone: bool = False) -> None:
        # known: how far clocks are apart; alone: nothing connects them, so that each host counts by itself
        self.truth, self.known, self.alone = truth, known, alone

    @property
    def paired(self) -> bool:
        """Whether executions on different hosts are known to be the same: by markers or by time."""
        return self.known or self.truth.known_steps

    @cached_property
    def named(self) -> set[int]:
        """Launch instances that have a launch on a host with markers."""
        truth = self.truth
        return {self.number(x) for x in truth.launches if truth.host(x.device) in truth.marked}

    def is_marked(self, launch: Launch) -> bool:
        """Whether a marker names the step of a launch, or that of the same launch elsewhere."""
        return self.number(launch) in self.named

    def step(self, launch: Launch) -> Key:
        """What names the step of a launch."""
        if self.is_marked(launch):
            return (launch.request, launch.step)
        return NOWHERE if self.named else (None, self.number(launch))

    def number(self, launch: Launch) -> int:
        """Of its launch instance, which ends at a clock that cannot be compared."""
        return launch.number + (0 if self.paired else 1000 * self.truth.host(launch.device))

    def phase(self, launch: Launch) -> str | None:
        """Of its marker; `step` in a run without markers."""
        if self.is_marked(launch):
            return launch.program.phase
        return None if self.named else "step"

    @cached_property
    def of_device(self) -> dict[int, list[Launch]]:
        """Launches in order."""
        found: dict[int, list[Launch]] = {d: [] for d in self.truth.devices}
        for launch in sorted(self.truth.launches, key=lambda x: x.start):
            found[launch.device].append(launch)
        return found

    @cached_property
    def transfers(self) -> list[Transfer]:
        """Every collective of every launch in the trace."""
        return [t for launch in self.truth.launches for t in self._transfers(launch)]

    @property
    def placed(self) -> list[Transfer]:
        """Those of launches that have a step."""
        return [t for t in self.transfers if self.step(t.launch) != NOWHERE]

    def _transfers(self, launch: Launch) -> list[Transfer]:
        first: dict[str, Event] = {e.name: e for e in launch.events if e.what != "barrier"}
        barriers = {e.name: e for e in launch.events if e.what == "barrier"}
        found = []
        for instr in launch.program.instrs:
            if instr.what not in ("sync", "start"):
                continue
            own = first[instr.name]
            group = tuple(
                d
                for d in self.truth.group(launch.device, instr.axis)
                if d in launch.program.devices
            )
            end, wait, arrival = own.end, None, own.start
            if instr.what == "start":
                done = next(i for i in launch.program.instrs if i.pair == instr.name)
                end = first[done.name].end
                wait = end - first[done.name].start
            elif instr.name in barriers:
                arrival = barriers[instr.name].start
            found.append(Transfer(launch, instr, own.start, end, arrival, wait, group))
        return found

    @cached_property
    def instances(self) -> dict[Key, list[Transfer]]:
        """Members that are in the trace, by instance."""
        found = defaultdict(list)
        for transfer in self.transfers:
            found[transfer.instance].append(transfer)
        return dict(found)

    def crosses(self, devices: Any) -> bool:
        """Whether devices are on several hosts."""
        return len({self.truth.host(d) for d in devices}) > 1

    def bandwidth(self) -> Rows:
        """collective_bandwidth: one row an instance."""
        rows: Rows = {}
        for key, members in self.instances.items():
            instr, group = members[0].instr, members[0].group
            sizes = [scaled(self.truth, instr, t.launch.device, group) for t in members]
            arrivals = [t.arrival for t in members]
            asynchronous = instr.what == "start"
            if asynchronous:
                transfer = max(t.end for t in members) - max(t.start for t in members)
            else:
                transfer = min(t.end - t.start for t in members)
            payload = max(p for p, _ in sizes)
            wire = max(w for _, w in sizes)
            rows[key] = {
                "group_size": len(group),
                "participants_seen": len(members),
                "kind": instr.kind,
                "axis": instr.axis,
                "payload_bytes": payload,
                "wire_bytes": wire,
                "skew_ps": max(arrivals) - min(arrivals) if len(members) > 1 else None,
                "transfer_ps": transfer,
                "algbw_bytes_per_s": payload / transfer * 1e12 if wire else None,
                "busbw_bytes_per_s": wire / transfer * 1e12 if wire else None,
            }
            if asynchronous:
                rows[key]["is_bound"] = all(t.wait <= 1_000_000 for t in members)
        return rows

    def volume(self) -> Rows:
        """traffic_volume: one row per device, phase, axis and kind."""
        rows: Rows = {}
        for t in self.placed:
            device = t.launch.device
            key = (device, self.phase(t.launch), t.instr.axis, t.instr.kind)
            row = rows.setdefault(
                key, {"collectives": 0, "instances": 0, "payload_bytes": 0, "wire_bytes": 0.0}
            )
            payload, wire = scaled(self.truth, t.instr, device, t.group)
            row["collectives"] += 1
            row["instances"] += 1
            row["payload_bytes"] += payload
            row["wire_bytes"] += wire
        return rows

    def matrix(self) -> Rows:
        """traffic_matrix under the ring."""
        rows: Rows = {}
        for t in self.placed:
            device, group = t.launch.device, t.group
            _, wire = scaled(self.truth, t.instr, device, group)
            place, n = group.index(device), len(group)
            if t.instr.kind == "all-to-all":
                targets = [d for d in group if d != device]
            elif t.instr.kind == "collective-permute":
                targets = [group[place + 1]] if place + 1 < n else []
            else:
                targets = [group[(place + 1) % n]]
            for target in targets:
                key = (self.phase(t.launch), t.instr.axis, t.instr.kind, device, target)
                row = rows.setdefault(key, {"bytes": 0.0})
                row["bytes"] += wire / len(targets)
        return rows

    def intervals(self) -> Rows:
        """traffic_interval: gap before each collective on its axis and device."""
        rows: Rows = {}
        for device in self.truth.devices:
            latest: dict[str, tuple[int, Launch]] = {}
            for t in self._ordered(device):
                before = latest.get(t.instr.axis)
                key = (device, t.launch.number, t.name)
                rows[key] = {
                    "gap_ps": t.start - before[0] if before else None,
                    "axis": t.instr.axis,
                }
                end = max(t.end, before[0]) if before else t.end
                latest[t.instr.axis] = (end, t.launch)
        return rows

    def _ordered(self, device: int) -> list[Transfer]:
        own = [t for t in self.transfers if t.launch.device == device]
        return sorted(own, key=lambda t: (t.start, t.end, t.name))

    def windows(self) -> Rows:
        """traffic_window of scope `device`: between bursts of different axes."""
        rows: Rows = {}
        for device in self.truth.devices:
            sweep = [
                (t.start, t.end, t.instr.axis, scaled(self.truth, t.instr, device, t.group)[0])
                for t in self._ordered(device)
            ]
            rows |= {(device, k): row for k, row in enumerate(_windows(sweep))}
        return rows

    def run_windows(self) -> Rows:
        """traffic_window of scope `run`: the same sweep over instances."""
        sweep = []
        for (_, name, _), members in self.instances.items():
            start, end = min(t.start for t in members), max(t.end for t in members)
            sweep.append((start, end, name, members[0].instr.axis))
        ordered = [(a, b, axis, None) for a, b, _, axis in sorted(sweep)]
        return {(None, k): row for k, row in enumerate(_windows(ordered))}


def _windows(sweep: list[tuple[int, int, str, int | None]]) -> list[dict[str, Any]]:
    bursts: list[list] = []
    for start, end, axis, payload in sweep:
        if bursts and bursts[-1][2] == axis:
            bursts[-1][1] = max(bursts[-1][1], end)
            bursts[-1][3] = None if payload is None else bursts[-1][3] + payload
        else:
            bursts.append([start, end, axis, payload])
    rows = []
    for before, after in itertools.pairwise(bursts):
        row = {"from_axis": before[2], "to_axis": after[2], "window_ps": after[0] - before[1]}
        rows.append(row if after[3] is None else row | {"next_payload_bytes": after[3]})
    return rows
