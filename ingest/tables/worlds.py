"""Worlds: processes whose programs share device numbers. A run mostly has one.

Two processes that both number their devices from 0 (tpu-inference#2738) share no devices: their programs,
groups and instances are unrelated, so each is a world of its own. So are two processes that give different
programs one id.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import polars as pl

from xlahouse.ingest.events.codes_of_devices import (
    DEVICE_COLLISION,
    DEVICES_REPEATED,
    PROGRAM_CONFLICT,
)
from xlahouse.ingest.events.frames import PlaneEvents
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.events.shift import shift
from xlahouse.ingest.events.time_move import TimeMove
from xlahouse.ingest.hlo.file_events import FileEvents
from xlahouse.ingest.hlo.program import Program
from xlahouse.ingest.hlo.program_facts import ProgramFacts
from xlahouse.ingest.hlo.shared_programs import clash, whole_programs
from xlahouse.ingest.tables.launches import KEYS_OF_A_FILE

T = TypeVar("T")
_FILES_NAMED = 3  # files that a finding names


@dataclass(frozen=True)
class World:
    """Files that number their devices differently, and mean the same by a program's id."""

    number: int  # from 0
    files: tuple[FileEvents, ...]  # in the run's order

    def logical_ids(self, facts: ProgramFacts) -> set[int]:
        """Numbers of all devices, traced or named by a program."""
        return facts.logical_ids | set(_numbers(self.files))

    def by_device(self, of_file: Mapping[str, T]) -> dict[int, T]:
        """What is known of a file, by path, for each of its devices."""
        return {
            device.device_id: of_file[file.path]
            for file in self.files
            for plane in file.planes
            for device in plane.devices
        }


def split_worlds(files: list[FileEvents]) -> list[World]:
    """Put each file, by host and path, into the first world that it fits.

    There its device numbers are free, and its programs do not clash with programs of the same id.
    """
    worlds: list[tuple[set[int], dict[int, Program], list[FileEvents]]] = []
    for file in sorted(files, key=lambda file: (file.host, file.path)):
        numbers, programs = set(_numbers((file,))), whole_programs(file)
        for taken, known, members in worlds:
            if not taken & numbers and not clash(known, programs):
                taken |= numbers
                known |= programs
                members.append(file)
                break
        else:
            worlds.append((numbers, programs, [file]))
    return [World(number, tuple(members)) for number, (*_, members) in enumerate(worlds)]


def program_conflicts(worlds: list[World], source: str) -> list[Issue]:
    """The finding that files are worlds of their own because their program ids clash.

    Args:
        worlds: of the run, from split_worlds.
        source: the run, for the issue.
    """
    numbers = [set(_numbers(world.files)) for world in worlds]
    count = sum(
        any(own.isdisjoint(other) for other in numbers[:place]) for place, own in enumerate(numbers)
    )
    return issues_found(source, (PROGRAM_CONFLICT, count))


def repeated_devices(worlds: list[World], source: str) -> list[Issue]:
    """The finding that files are worlds of their own because their device numbers repeat.

    Args:
        worlds: of the run, from split_worlds.
        source: the run, for the issue.
    """
    first = {number for world in worlds[:1] for number in _numbers(world.files)}
    later = [file for world in worlds[1:] for file in world.files]
    again = [file for file in later if not first.isdisjoint(_numbers((file,)))]
    if not again:
        return []
    ranked = [file for file in again if file.ranks]
    same = f"ranks ({_ranks(ranked)})" if ranked else "device numbers"
    paths = ", ".join(file.path for file in again[:_FILES_NAMED])
    more = f" and {len(again) - _FILES_NAMED} more" if len(again) > _FILES_NAMED else ""
    detail = f"files with the {same} of other files of the run: {paths}{more}"
    return [DEVICES_REPEATED.found(source, len(again), detail, info=not ranked)]


def _ranks(files: list[FileEvents]) -> str:
    return ", ".join(map(str, sorted({rank for file in files for rank, _ in file.ranks})))


def _numbers(files: tuple[FileEvents, ...]) -> list[int]:
    return [device.device_id for file in files for plane in file.planes for device in plane.devices]


def processes(files: list[FileEvents]) -> dict[str, int]:
    """Number of each file's process on its host, from 0 in order of the paths: one file a process."""
    seen: dict[str, int] = {}
    numbers = {}
    for file in sorted(files, key=lambda file: (file.host, file.path)):
        numbers[file.path] = seen.get(file.host, 0)
        seen[file.host] = numbers[file.path] + 1
    return numbers


def move_steps(launches: pl.DataFrame, offset: int) -> pl.DataFrame:
    """Number launch instances from an offset on; a step that is a launch instance moves with them."""
    if not offset or launches.is_empty():
        return launches
    unmarked = pl.col("request").is_null() & pl.col("step").is_not_null()
    instances = [pl.col("launch_instance") + offset] if "launch_instance" in launches else []
    return launches.with_columns(
        *instances,
        step=pl.when(unmarked).then(pl.col("step") + offset).otherwise("step"),
    )


def move_devices(table: pl.DataFrame, offset: int) -> pl.DataFrame:
    """A world's own device numbers become the run's."""
    if not offset:
        return table
    names = ("device_id", "source_device_id", "target_device_id")
    return table.with_columns(pl.col(name) + offset for name in names if name in table.columns)


def planes_on_one_clock(world: World, epoch: int | None, issues: list[Issue]) -> list[PlaneEvents]:
    """A world's planes; where two planes of one file claim a device number, the later is left out."""
    planes = []
    for number, file in enumerate(world.files):
        start = file.profile_start_ns
        delta = 0 if epoch is None or start is None else (start - epoch) * 1000
        taken: dict[int, str] = {}
        for plane in file.planes:
            if any(device.device_id in taken for device in plane.devices):
                planes.append(_left_out(plane, taken, file.path, issues))
                continue
            taken |= {device.device_id: device.plane for device in plane.devices}
            moved = shift(plane, TimeMove(delta), number * KEYS_OF_A_FILE)
            planes.append(replace(moved, file=number))
    return planes


def _left_out(
    plane: PlaneEvents, taken: dict[int, str], path: str, issues: list[Issue]
) -> PlaneEvents:
    """A plane whose events all count as rejected."""
    device = plane.devices[0]
    earlier = taken[device.device_id]
    detail = f"{earlier} and, later, {device.plane} claim device {device.device_id}"
    issues.append(DEVICE_COLLISION.found(path, detail=detail))
    later = plane.rest
    return PlaneEvents(
        coverage=_rejected(plane.coverage),
        issues=plane.issues,
        rest=None if later is None else partial(_none_of, later),
    )


def _none_of(later: Callable[[], PlaneEvents]) -> PlaneEvents:
    return PlaneEvents(coverage=_rejected(later().coverage))


def _rejected(coverage: pl.DataFrame) -> pl.DataFrame:
    return coverage.with_columns(
        table_name=pl.lit(None, pl.String),
        rows_written=pl.lit(0, pl.Int64),
        events_rejected="events_read",
    )
