"""Reads back what was written, the slow and obvious way, for the synthesiser's own checks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tests.synth.host import EPOCH_NS
from tests.synth.protos import CoreDetails, HloProto, XSpace


@dataclass(frozen=True)
class Event:
    """An event with its metadata resolved; times in ps after the first host's profile start."""

    line: str
    name: str
    display: str
    start: int
    duration: int
    stats: dict[str, object]

    @property
    def end(self) -> int:
        """When it ends."""
        return self.start + self.duration


@dataclass
class Decoded:
    """A run read back: events by device, host events, HLO modules by program id, file by file."""

    devices: dict[int, list[Event]]
    host: list[Event]
    modules: dict[int, object]
    planes: list[tuple[str, str]]


def _stats(stats, names: dict[int, str]) -> dict[str, object]:
    found = {}
    for stat in stats:
        kind = stat.WhichOneof("value")
        value = getattr(stat, kind)
        found[names[stat.metadata_id]] = names[value] if kind == "ref_value" else value
    return found


def _events(plane, shift: int) -> list[Event]:
    names = {entry.key: entry.value.name for entry in plane.stat_metadata}
    kinds = {entry.key: entry.value for entry in plane.event_metadata}
    events = []
    for line in plane.lines:
        for event in line.events:
            kind = kinds[event.metadata_id]
            stats = _stats(kind.stats, names) | _stats(event.stats, names)
            start = line.timestamp_ns * 1000 + event.offset_ps + shift
            events.append(
                Event(line.name, kind.name, kind.display_name, start, event.duration_ps, stats)
            )
    return events


def _modules(plane) -> dict[int, object]:
    names = {entry.key: entry.value.name for entry in plane.stat_metadata}
    modules = {}
    for entry in plane.event_metadata:
        stats = _stats(entry.value.stats, names)
        if "Hlo Proto" in stats:
            number = stats.get("program_id", entry.key % (1 << 64))
            modules[number] = HloProto.FromString(stats["Hlo Proto"]).hlo_module
    return modules


def decode(paths: list[Path]) -> Decoded:
    """All files of a run."""
    run = Decoded(defaultdict(list), [], {}, [])
    for path in paths:
        space = XSpace.FromString(path.read_bytes())
        planes = {plane.name: plane for plane in space.planes}
        names = {e.key: e.value.name for e in planes["Task Environment"].stat_metadata}
        start = _stats(planes["Task Environment"].stats, names)["profile_start_time"]
        shift = (start - EPOCH_NS) * 1000
        for plane in space.planes:
            run.planes.append((path.name, plane.name))
            if plane.name.startswith("/device"):
                names = {e.key: e.value.name for e in plane.stat_metadata}
                core = CoreDetails.FromString(_stats(plane.stats, names)["core_details"])
                run.devices[core.global_core_id] += _events(plane, shift)
        run.host += _events(planes["/host:CPU"], shift)
        run.modules |= _modules(planes["/host:metadata"])
    return run
