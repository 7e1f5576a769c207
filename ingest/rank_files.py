"""Files of the ranks of one host: how their devices are numbered among all ranks'."""

from __future__ import annotations

from collections.abc import Sequence

from xlahouse.ingest.events.codes_of_devices import DEVICE_NUMBER_ASSUMED
from xlahouse.ingest.events.run_files import RankInName, ranks_of_stems
from xlahouse.ingest.formats import XPLANE, xplane_stem
from xlahouse.ingest.hlo.file_events import FileEvents


def ranks_in_names(files: Sequence[FileEvents]) -> dict[str, RankInName]:
    """path -> rank of files that need it to be read right: their planes state neither host nor number.

    Where processes of one job number their devices from 0, the rank is what tells their devices apart. A
    program that runs on fewer devices than all ranks have is a process' own, where its device is number 0.
    """
    if any(XPLANE not in file.path for file in files):
        return {}
    named = ranks_of_stems({file.path: xplane_stem(file.path) for file in files})
    counts = {len(_numbers(file)) for file in files}
    if named is None or len(counts) != 1:
        return {}
    host, ranks = named
    count = counts.pop()
    collide = all(_numbers(file) == set(range(count)) for file in files)
    by_rank = bool(count) and collide and all(map(_is_assumed, files))
    named_devices = _devices_named(files)
    by_rank = by_rank and (not named_devices or named_devices >= count * len(files))
    hostless = all(file.host == xplane_stem(file.path) for file in files)
    if not by_rank and not hostless:
        return {}
    own = host if hostless else files[0].host
    return {path: RankInName(own, rank * count if by_rank else 0) for path, rank in ranks.items()}


def _numbers(file: FileEvents) -> set[int]:
    devices = (device for plane in file.planes for device in plane.devices)
    return {device.device_id for device in devices if device.core == "tensorcore"}


def _is_assumed(file: FileEvents) -> bool:
    found = (issue for plane in file.planes for issue in plane.issues)
    return any(issue.code == DEVICE_NUMBER_ASSUMED.code for issue in found)


def _devices_named(files: Sequence[FileEvents]) -> int:
    """Devices in the largest device assignment of a program; 0 where none states one."""
    programs = (program for file in files for program in file.programs.values())
    places = (program.assignment for program in programs)
    return max((sum(map(len, place.devices)) for place in places if place), default=0)
