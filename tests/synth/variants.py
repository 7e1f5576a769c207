"""The same run written differently: other orders, times, device numbers, in files already written."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from tests.synth.protos import CoreDetails, HloProto, XSpace
from xlahouse.capture.manifest import decode_manifest, write_manifest

TIMES = ("profile_start_time", "profile_stop_time")


def _spaces(folder: Path) -> dict[Path, XSpace]:
    paths = sorted(folder.rglob("*.xplane.pb"))
    return {path: XSpace.FromString(path.read_bytes()) for path in paths}


def _write(spaces: dict[Path, XSpace]) -> None:
    for path, space in spaces.items():
        path.write_bytes(space.SerializeToString())


def _named(plane, stats, *names: str) -> Iterator:
    """The stats that have one of the names."""
    numbers = {entry.key for entry in plane.stat_metadata if entry.value.name in names}
    return (stat for stat in stats if stat.metadata_id in numbers)


def _environment(space) -> dict[str, object]:
    """The stats of a file's profile times, by name."""
    (plane,) = (plane for plane in space.planes if plane.name == "Task Environment")
    return {name: stat for name in TIMES for stat in _named(plane, plane.stats, name)}


def _start_ns(space) -> int:
    return _environment(space)["profile_start_time"].uint64_value


def _shuffle(field, rng: random.Random) -> None:
    items = list(field)
    rng.shuffle(items)
    del field[:]
    field.extend(items)


def shuffle(folder: Path, rng: random.Random) -> None:
    """Shuffle all whose order means nothing: planes, lines, events, stats, metadata; swap file names."""
    spaces = _spaces(folder)
    for space in spaces.values():
        for plane in space.planes:
            for line in plane.lines:
                for event in line.events:
                    _shuffle(event.stats, rng)
                _shuffle(line.events, rng)
            for field in (plane.lines, plane.event_metadata, plane.stat_metadata, plane.stats):
                _shuffle(field, rng)
        _shuffle(space.planes, rng)
    paths = list(spaces)
    rng.shuffle(paths)
    _write(dict(zip(paths, spaces.values(), strict=True)))


def shift(folder: Path, earlier_ns: Callable[[], int], later_ns: int) -> int:
    """Start each file's profile `earlier_ns()` before, and the whole run `later_ns` after.

    A line's times move in its timestamp or in its events' offsets, in turn.

    Returns:
        What every time moves by, ps after the run's time zero.
    """
    spaces = _spaces(folder)
    zero = min(map(_start_ns, spaces.values()))
    for space in spaces.values():
        by = earlier_ns()
        stats = _environment(space)
        stats["profile_start_time"].uint64_value += later_ns - by
        stats["profile_stop_time"].uint64_value += later_ns
        for number, line in enumerate(line for plane in space.planes for line in plane.lines):
            line.timestamp_ns += by * (number % 2)
            for event in line.events:
                event.offset_ps += by * 1000 * (1 - number % 2)
    _write(spaces)
    return (zero + later_ns - min(map(_start_ns, spaces.values()))) * 1000


def double(folder: Path) -> None:
    """Make everything take twice as long, from the first profile's start on."""
    spaces = _spaces(folder)
    zero = min(map(_start_ns, spaces.values()))
    for space in spaces.values():
        for stat in _environment(space).values():
            stat.uint64_value += stat.uint64_value - zero
        for line in (line for plane in space.planes for line in plane.lines):
            line.timestamp_ns *= 2
            for event in line.events:
                event.offset_ps, event.duration_ps = event.offset_ps * 2, event.duration_ps * 2
    _write(spaces)


def renumber(folder: Path, numbers: dict[int, int]) -> None:
    """Give each device another number, on its plane, in the programs and in the manifest's mesh."""
    spaces = _spaces(folder)
    for plane in (plane for space in spaces.values() for plane in space.planes):
        for stat in _named(plane, plane.stats, "core_details"):
            core = CoreDetails.FromString(stat.bytes_value)
            core.global_core_id = core.global_chip_id = numbers[core.global_core_id]
            stat.bytes_value = core.SerializeToString()
        for entry in plane.event_metadata:
            for stat in _named(plane, entry.value.stats, "Hlo Proto"):
                stat.bytes_value = _renumbered(stat.bytes_value, numbers)
    _write(spaces)
    path = folder / "metadata_0.json"
    manifest = decode_manifest(path.read_bytes(), str(path))
    mesh = [numbers[device] for device in manifest.mesh_device_ids]
    write_manifest(msgspec.structs.replace(manifest, mesh_device_ids=mesh), path)


def _renumbered(raw: bytes, numbers: dict[int, int]) -> bytes:
    proto = HloProto.FromString(raw)
    for row in proto.hlo_module.device_assignment.computation_devices:
        row.replica_device_ids[:] = [numbers[device] for device in row.replica_device_ids]
    return proto.SerializeToString()
