"""Worlds: processes whose programs share device numbers. A run mostly has one.

Two processes that both number their devices from 0 (tpu-inference#2738) share none: their programs, groups
and instances have nothing to do with each other, so each world is put together by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from xlahouse.ingest.program_facts import ProgramFacts
from xlahouse.ingest.read import FileEvents


@dataclass(frozen=True)
class World:
    """Files whose devices have different numbers."""

    number: int
    files: tuple[FileEvents, ...]

    def logical_ids(self, facts: ProgramFacts) -> set[int]:
        """Numbers of all devices, traced or named by a program."""
        return facts.logical_ids | set(_numbers(self.files))


def split_worlds(files: list[FileEvents]) -> list[World]:
    """Put each file, by host and path, into the first world in which its device numbers are free."""
    worlds: list[tuple[set[int], list[FileEvents]]] = []
    for file in sorted(files, key=lambda file: (file.host, file.path)):
        numbers = set(_numbers((file,)))
        for taken, members in worlds:
            if not taken & numbers:
                taken |= numbers
                members.append(file)
                break
        else:
            worlds.append((numbers, [file]))
    return [World(number, tuple(members)) for number, (_, members) in enumerate(worlds)]


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


def join_worlds(
    parts: list[dict[str, pl.DataFrame]], offsets: list[int]
) -> dict[str, pl.DataFrame]:
    """Tables of all worlds as one: device numbers and instances of later worlds follow the earlier ones.

    Args:
        parts: per world, its tables with world-own numbers.
        offsets: per world, what its logical ids are moved by to become device ids.
    """
    joined: dict[str, list[pl.DataFrame]] = {}
    launches = instances = 0
    for tables, offset in zip(parts, offsets, strict=True):
        for name, frame in tables.items():
            joined.setdefault(name, []).append(_moved(frame, offset, launches, instances))
        launches += _count(tables["launches"], "launch_instance")
        instances += _count(tables["collectives"], "instance")
    return {name: pl.concat(frames, how="diagonal") for name, frames in joined.items()}


def _count(frame: pl.DataFrame, column: str) -> int:
    """Numbers that a numbering from 0 takes; 0 where the column is absent or all NULL."""
    if column not in frame.columns:
        return 0
    return int(frame.select((pl.col(column).max() + 1).fill_null(0)).item())


def _moved(frame: pl.DataFrame, devices: int, launches: int, instances: int) -> pl.DataFrame:
    """Move every numbering of a table; a step that is a launch instance moves with those."""
    moves = {
        "device_id": devices,
        "source_device_id": devices,
        "target_device_id": devices,
        "launch_instance": launches,
        "instance": instances,
    }
    moved = frame.with_columns(
        pl.col(name) + by for name, by in moves.items() if by and name in frame.columns
    )
    if not launches or "step" not in frame.columns or "request" not in frame.columns:
        return moved
    unmarked = pl.col("request").is_null() & pl.col("step").is_not_null()
    return moved.with_columns(
        step=pl.when(unmarked).then(pl.col("step") + launches).otherwise("step")
    )
