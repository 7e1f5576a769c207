"""Looks at a few devices before any table is written: their launches and collectives compare clocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from xlahouse.ingest.clocks.clocks import MEETING, Clock, Meeting, find_clocks, meetings
from xlahouse.ingest.clocks.match import Side
from xlahouse.ingest.events import frames
from xlahouse.ingest.events.frames import PlaneEvents
from xlahouse.ingest.events.op_events import OpEvents, join_kinds
from xlahouse.ingest.hlo.program_facts import ProgramFacts
from xlahouse.ingest.tables.launches import finish_launches
from xlahouse.ingest.tables.markers import markers_by_process
from xlahouse.ingest.tables.ops import finish_ops
from xlahouse.ingest.tables.pipeline import NO_PIPELINE
from xlahouse.ingest.tables.worlds import World

_OP = ["program_id", "op"]


def clocks_of(
    world: World,
    planes: Sequence[PlaneEvents],
    facts: ProgramFacts,
    given: Mapping[int, int],
) -> list[Clock]:
    """The clock of each of a world's files.

    Args:
        world: its files.
        planes: of these files, one after the other, on the clocks that the files state.
        facts: of the world's programs.
        given: offsets in ps that the user states, by file.
    """
    if len(world.files) == 1:
        return [Clock(0, 0)]
    file_of_plane = [number for number, file in enumerate(world.files) for _ in file.planes]
    plane_of = {
        device.device_id: (file, plane)
        for file, plane in zip(file_of_plane, planes, strict=True)
        for device in plane.devices
    }
    look = _Look(world, list(zip(file_of_plane, planes, strict=True)), facts)
    file_of = {key: file for key, (file, _) in plane_of.items()}
    met = meetings(facts.groups, facts.ops, file_of, _launch_counts(planes))
    return find_clocks(len(world.files), met, look.sides, given)


def _launch_counts(planes: Sequence[PlaneEvents]) -> dict[int, int]:
    """How many launches each device has: one that lost some tells less of its clock."""
    devices = frames.stack([plane.launches for plane in planes], frames.LAUNCHES)["device_id"]
    return dict(devices.value_counts().iter_rows())


@dataclass(frozen=True)
class _Look:
    """A world whose devices are looked at one by one."""

    world: World
    planes: list[tuple[int, PlaneEvents]]  # each with its file
    facts: ProgramFacts

    def sides(self, meeting: Meeting) -> tuple[Side, Side]:
        """What both devices of a meeting did in the collectives that both are members of."""
        shared = self._shared(meeting)
        return (
            self._side(meeting.first, meeting.first_device, shared),
            self._side(meeting.second, meeting.second_device, shared),
        )

    def _shared(self, meeting: Meeting) -> pl.DataFrame:
        """program_id, op of the synchronous collectives whose groups hold both devices."""
        members = self.facts.groups.filter(
            pl.col("logical_id").is_in([meeting.first_device, meeting.second_device])
        )
        both = members.group_by(*_OP, "group_index").agg(pl.col("logical_id").n_unique())
        kinds = self.facts.ops.filter(pl.col("kind").is_in(MEETING)).select(_OP).unique()
        return both.filter(pl.col("logical_id") == 2).select(_OP).unique().join(kinds, on=_OP)

    def _side(self, file: int, device: int, shared: pl.DataFrame) -> Side:
        planes = [plane for of_file, plane in self.planes if of_file == file]
        own = [plane for plane in planes if any(d.device_id == device for d in plane.devices)]
        launches = self._launches(file, planes, device)
        transfers = _transfers(own, device, launches, self.facts)
        return Side(
            launches.select("launch", "program_id", "start_ps", "phase", "request", "step"),
            transfers.join(shared, on=_OP, how="semi", maintain_order="left"),
        )

    def _launches(self, file: int, planes: list[PlaneEvents], device: int) -> pl.DataFrame:
        """Launches of a device, in the steps that its own file's markers name."""
        alone = World(0, (self.world.files[file],))
        found = frames.stack([plane.launches for plane in planes], frames.LAUNCHES)
        mine = found.filter(pl.col("device_id") == device).drop("link", "link_type")
        return finish_launches(mine, *markers_by_process(alone, planes))


def _transfers(
    planes: list[PlaneEvents], device: int, launches: pl.DataFrame, facts: ProgramFacts
) -> pl.DataFrame:
    """Synchronous collectives of a device, as Side.transfers holds them."""
    events = join_kinds([ops for plane in planes for ops in _ops_of(plane)])
    ops = finish_ops(events, launches, facts.ops, NO_PIPELINE)
    synchronous = pl.col("role").fill_null("sync") == "sync"
    wanted = (pl.col("category") == "collective") & ~pl.col("on_async_line") & synchronous
    rows = ops.rows(ops.of_kinds(wanted)).filter(pl.col("device_id") == device)
    return rows.select(
        "launch",
        *_OP,
        "sequence",
        "start_ps",
        end_ps=pl.col("start_ps") + pl.col("duration_ps"),
    ).sort("start_ps")


def _ops_of(plane: PlaneEvents) -> list[OpEvents]:
    """The ops of a plane, those that are read later included; a damaged plane has none."""
    found = []
    for part in (plane, _rest(plane)):
        if part is not None and part.op_events is not None:
            found.append(part.op_events)
        if part is not None and not part.ops.is_empty():
            found.append(OpEvents.of_rows(part.ops))
    return found


def _rest(plane: PlaneEvents) -> PlaneEvents | None:
    try:
        return plane.rest() if plane.rest is not None else None
    except (
        Exception
    ):  # damage can have any shape; what it breaks is reported when tables are written
        return None
