"""Looks at a few devices before any table is written: their launches and collectives compare clocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from xlahouse.ingest.clocks.clocks import MEETING, Clock, Meeting, find_clocks, meetings
from xlahouse.ingest.clocks.match import Side
from xlahouse.ingest.events import frames
from xlahouse.ingest.events.frames import PlaneEvents
from xlahouse.ingest.events.op_events import OpEvents, join_kinds
from xlahouse.ingest.hlo.program_facts import ProgramFacts
from xlahouse.ingest.spread.parts import RunPart, Spread
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
    spread: Spread,
) -> list[Clock]:
    """The clock of each of a world's files, which are several.

    Args:
        world: its files.
        planes: of these files, one after the other, on the clocks that the files state.
        facts: of the world's programs.
        given: offsets in ps that the user states, by file.
        spread: reads the devices' collectives.
    """
    file_of_plane = [number for number, file in enumerate(world.files) for _ in file.planes]
    plane_of = {
        device.device_id: (file, plane)
        for file, plane in zip(file_of_plane, planes, strict=True)
        for device in plane.devices
    }
    look = _Look(world, list(zip(file_of_plane, planes, strict=True)), facts, spread)
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

    world: World  # with its files
    planes: list[tuple[int, PlaneEvents]]  # each with its file
    facts: ProgramFacts  # of its programs
    spread: Spread  # computes the looks

    def sides(self, asked: Sequence[Meeting]) -> Iterator[tuple[Side, Side]]:
        """What both devices of each meeting did in the collectives that both are members of.

        A device is looked at once, and forgotten after its last meeting: it has all that share a clock with
        its own.
        """
        uses = Counter(device for meeting in asked for device in _devices(meeting))
        order = list(uses)
        found = zip(order, self._looks([self._part(*each) for each in order]), strict=True)
        looks: dict[tuple[int, int], Side] = {}
        for meeting in asked:
            devices, shared = _devices(meeting), self._shared(meeting)
            while not looks.keys() >= set(devices):
                device, look = next(found)
                looks[device] = look
            first, second = (_among(looks[device], shared) for device in devices)
            yield first, second
            uses.subtract(devices)
            looks = {device: look for device, look in looks.items() if uses[device]}

    def _looks(self, parts: list[RunPart]) -> Iterator[Side]:
        transfers = self.spread.each(_transfers, self.facts.ops, parts, in_turn=True)
        for part, found in zip(parts, transfers, strict=True):
            launches: pl.DataFrame = part.given[-1]
            yield Side(
                launches.select("launch", "program_id", "start_ps", "phase", "request", "step"),
                found,
            )

    def _shared(self, meeting: Meeting) -> pl.DataFrame:
        """program_id, op of the synchronous collectives whose groups hold both devices."""
        members = self.facts.groups.filter(
            pl.col("logical_id").is_in([meeting.first_device, meeting.second_device])
        )
        both = members.group_by(*_OP, "group_index").agg(pl.col("logical_id").n_unique())
        kinds = self.facts.ops.filter(pl.col("kind").is_in(MEETING)).select(_OP).unique()
        return both.filter(pl.col("logical_id") == 2).select(_OP).unique().join(kinds, on=_OP)

    def _part(self, file: int, device: int) -> RunPart:
        """What _transfers needs of a device."""
        planes = [plane for of_file, plane in self.planes if of_file == file]
        own = [
            PlaneEvents(ops=plane.ops, op_events=plane.op_events, rest=plane.rest)
            for plane in planes
            if any(d.device_id == device for d in plane.devices)
        ]
        launches = self._launches(file, planes, device)
        return RunPart(self.world.files[file].path, (own, device, launches))

    def _launches(self, file: int, planes: list[PlaneEvents], device: int) -> pl.DataFrame:
        """Launches of a device, in the steps that its own file's markers name."""
        alone = World(0, (self.world.files[file],))
        found = frames.stack([plane.launches for plane in planes], frames.LAUNCHES)
        mine = found.filter(pl.col("device_id") == device).drop("link", "link_type")
        return finish_launches(mine, *markers_by_process(alone, planes))


def _among(look: Side, shared: pl.DataFrame) -> Side:
    """A side with these transfers alone. shared: program_id, op."""
    found = look.transfers.join(shared, on=_OP, how="semi", maintain_order="left")
    return Side(look.launches, found)


def _devices(meeting: Meeting) -> tuple[tuple[int, int], tuple[int, int]]:
    """(file, device) of both sides."""
    return (meeting.first, meeting.first_device), (meeting.second, meeting.second_device)


def _transfers(
    facts: pl.DataFrame, planes: list[PlaneEvents], device: int, launches: pl.DataFrame
) -> pl.DataFrame:
    """Synchronous collectives of a device, as Side.transfers holds them. facts: FACT_COLUMNS."""
    events = join_kinds([ops for plane in planes for ops in _ops_of(plane)])
    ops = finish_ops(events, launches, facts, NO_PIPELINE)
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
