"""Reads what a capture left, with no decoder of the ingest: markers, ops and collectives by program."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.synth.protos import ELEMENT_TYPES, HloProto, XSpace

DTYPES = {number: name for name, number in ELEMENT_TYPES.items()}
COLLECTIVES = (
    "all-reduce",
    "all-gather",
    "reduce-scatter",
    "all-to-all",
    "collective-permute",
    "collective-broadcast",
)


@dataclass(frozen=True)
class Event:
    """A host event; times in ps on the trace's clock."""

    name: str
    start: int
    end: int
    stats: dict


@dataclass(frozen=True)
class Profile:
    """A profiler session of virtual devices."""

    events: list[Event]  # all host events
    programs: dict[int, object]  # program_id -> HLO module

    @property
    def ops(self) -> list[Event]:
        return [event for event in self.events if "hlo_op" in event.stats]

    def markers(self, name: str) -> list[Event]:
        found = [event for event in self.events if event.name == f"xlahouse.{name}"]
        return sorted(found, key=lambda event: event.start)

    def during(self, marker: Event) -> list[Event]:
        """The ops that start inside a marker."""
        return [op for op in self.ops if marker.start <= op.start <= marker.end]

    def program(self, phase: str) -> int:
        """The program of a phase's steps: that of the first op after its first marker opens. Steps are
        awaited before the first of another phase is sent."""
        opened = self.markers(phase)[0].start
        later = (op for op in self.ops if op.start >= opened)
        return min(later, key=lambda op: op.start).stats["program_id"]


def read_profile(trace_dir: Path) -> Profile:
    (path,) = trace_dir.glob("plugins/profile/*/*.xplane.pb")
    planes = {plane.name: plane for plane in XSpace.FromString(path.read_bytes()).planes}
    host = planes["/host:CPU"]
    labels = {entry.key: entry.value.name for entry in host.stat_metadata}
    names = {entry.key: entry.value.name for entry in host.event_metadata}
    events = []
    for line in host.lines:
        for event in line.events:
            start = line.timestamp_ns * 1000 + event.offset_ps
            stats = {labels[stat.metadata_id]: _value(stat, labels) for stat in event.stats}
            end = start + event.duration_ps
            events.append(Event(names[event.metadata_id], start, end, stats))
    programs = {
        entry.key: HloProto.FromString(stat.bytes_value).hlo_module
        for entry in planes["/host:metadata"].event_metadata
        for stat in entry.value.stats
        if stat.WhichOneof("value") == "bytes_value"
    }
    return Profile(events, programs)


def _value(stat, labels):
    kind = stat.WhichOneof("value")
    return labels[stat.ref_value] if kind == "ref_value" else getattr(stat, kind)


def collectives(module) -> list[tuple[str, str, tuple[int, ...], tuple[tuple[int, ...], ...]]]:
    """(opcode, dtype, result dims, groups) of every collective instruction, in no order."""
    return sorted(
        (
            instruction.opcode,
            DTYPES[instruction.shape.element_type],
            tuple(instruction.shape.dimensions),
            _groups(instruction),
        )
        for computation in module.computations
        for instruction in computation.instructions
        if instruction.opcode.startswith(COLLECTIVES)
    )


def payloads(module) -> Counter[tuple[str, int]]:
    """(opcode, numbers in its payload) of every collective instruction -> how many there are."""
    found = Counter()
    for computation in module.computations:
        for instruction in computation.instructions:
            if instruction.opcode.startswith(COLLECTIVES):
                parts = instruction.shape.tuple_shapes or [instruction.shape]
                numbers = sum(math.prod(part.dimensions) for part in parts)
                if instruction.opcode == "reduce-scatter":  # its operand is what is sent
                    numbers *= len(_groups(instruction)[0])
                found[instruction.opcode, numbers] += 1
    return found


def _groups(instruction) -> tuple[tuple[int, ...], ...]:
    """The groups as lists, or from an iota without transposition: consecutive ids."""
    devices = instruction.collective_device_list
    if not devices.HasField("iota"):
        listed = devices.replica_groups or instruction.replica_groups
        return tuple(tuple(group.replica_ids) for group in listed)
    iota = devices.iota
    assert len(iota.iota_reshape_dims) == 1, "a transposed iota: not what a demo mesh needs"
    size = iota.num_devices_per_group
    return tuple(
        tuple(range(group * size, (group + 1) * size)) for group in range(iota.num_replica_groups)
    )
