"""Worlds: processes whose programs share device numbers. A run mostly has one.

Two processes that both number their devices from 0 (tpu-inference#2738) share no devices: their programs,
groups and instances are unrelated, so each is a world of its own. So are two processes that give different
programs one id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import polars as pl

from xlahouse.ingest.events.codes_of_devices import DEVICES_REPEATED, PROGRAM_CONFLICT
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.hlo.file_events import FileEvents
from xlahouse.ingest.hlo.program import Program
from xlahouse.ingest.hlo.program_facts import ProgramFacts
from xlahouse.ingest.hlo.shared_programs import clash, whole_programs

T = TypeVar("T")
_FILES_NAMED = 3  # files that a finding names


@dataclass(frozen=True)
class World:
    """Files that number their devices differently, and mean the same by a program's id."""

    number: int  # from 0
    files: tuple[FileEvents, ...]

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
    unmarked = pl.col("request").is_null() & pl.col("step").is_not_null()
    return launches.with_columns(
        launch_instance=pl.col("launch_instance") + offset,
        step=pl.when(unmarked).then(pl.col("step") + offset).otherwise("step"),
    )


def move_devices(table: pl.DataFrame, offset: int) -> pl.DataFrame:
    """A world's own device numbers become the run's."""
    names = ("device_id", "source_device_id", "target_device_id")
    return table.with_columns(pl.col(name) + offset for name in names if name in table.columns)
