"""Assembles a run before any op is read: its worlds, and what all devices of a world share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from xlahouse.ingest.clocks.clocks import Clock
from xlahouse.ingest.compiled.decisions import Decisions, decisions
from xlahouse.ingest.events import frames
from xlahouse.ingest.events.codes_of_devices import CLOCKS_UNKNOWN
from xlahouse.ingest.events.frames import Device, PlaneEvents
from xlahouse.ingest.events.issues import Issue
from xlahouse.ingest.events.shift import shift
from xlahouse.ingest.events.time_move import TimeMove
from xlahouse.ingest.hlo import program_facts
from xlahouse.ingest.hlo.file_events import FileEvents
from xlahouse.ingest.hlo.program_facts import ProgramFacts
from xlahouse.ingest.hlo.shared_programs import join_programs
from xlahouse.ingest.nesting.launch_gaps import GAPS, launch_gaps
from xlahouse.ingest.serving.steps import Served, moved_totals, serve
from xlahouse.ingest.serving.transfers import transfer_rows
from xlahouse.ingest.spread.parts import Here, Spread
from xlahouse.ingest.tables.clock_rows import (
    check_names,
    clock_issues,
    clock_names,
    clock_rows,
    offsets_by_file,
)
from xlahouse.ingest.tables.launches import finish_launches, phase_rows
from xlahouse.ingest.tables.markers import marker_issues, markers_by_process
from xlahouse.ingest.tables.participants import circles_of, members_of, with_all_ranks
from xlahouse.ingest.tables.pipeline import NO_PIPELINE, TickSchedule
from xlahouse.ingest.tables.rows import compiled_tables, device_rows, typed
from xlahouse.ingest.tables.worlds import (
    World,
    move_steps,
    planes_on_one_clock,
    processes,
    program_conflicts,
    repeated_devices,
    split_worlds,
)

NO_OFFSETS: dict[str, int] = {}


@dataclass(frozen=True)
class WorldParts:
    """A world before its ops are read, with its own device numbers."""

    paths: list[str]  # of its files
    planes: list[PlaneEvents]  # on the run's clock
    launches: pl.DataFrame  # finished, by device and start
    served: Served  # steps of servers
    facts: ProgramFacts  # of its programs
    executed: pl.DataFrame  # decisions.EXECUTED
    schedule: TickSchedule  # of a pipeline; empty without one
    tables: dict[str, pl.DataFrame]  # the small ones, by name
    device_offset: int  # added to a device number to make it the run's
    component_of: dict[int, int]  # of each traced device, the clocks that its own compares with
    # of collectives without a group, if the user states that they span all
    members: tuple[int, ...]
    gaps: pl.DataFrame  # launch_gaps.GAPS and the device's file; none of virtual devices
    inferred: bool  # whether its devices are virtual, or their identity is deduced


@dataclass(frozen=True)
class AssembledRun:
    """A run before its ops are read."""

    source: str  # the run, as findings name it
    worlds: list[WorldParts]  # by number
    issues: list[Issue]  # findings so far
    devices: list[Device]  # the traced ones
    devices_named: int  # devices that planes or programs name, traced or not
    epoch_ns: int | None  # UNIX time of time zero
    hosts: list[str]  # names, sorted


def assemble(
    files: list[FileEvents],
    source: str,
    named_ids: Sequence[int] = (),
    schedule: TickSchedule = NO_PIPELINE,
    coords: Sequence[list[int]] = (),
    offsets: Mapping[str, int] = NO_OFFSETS,
    all_in_one_group: bool = False,
    spread: Spread = Here(),  # noqa: B008 - it is frozen
    slices: Sequence[int] = (),
) -> AssembledRun:
    """Assemble a run from its files.

    Args:
        files: of the run, as read.
        source: the run, for issues.
        named_ids: logical ids that the manifest's mesh names; they belong to the first world.
        schedule: the run's pipeline, of the first world.
        coords: of each device's chip, by logical id, of the first world.
        offsets: of clocks, ps, that the user states.
        all_in_one_group: whether the user states that collectives without a group span all ranks.
        spread: computes what concerns one file alone.
        slices: of each device, by logical id, of the first world, where its programs do not tell it.
    """
    issues: list[Issue] = [issue for file in files for issue in file.issues]
    epoch = _epoch(files)
    number_of, names = processes(files), clock_names(files)
    check_names(names, offsets)
    split = split_worlds(files)
    issues += program_conflicts(split, source) + repeated_devices(split, source)
    stated = [
        _on_stated_clocks(world, epoch, issues, offsets, names, source, all_in_one_group, spread)
        for world in split
    ]
    lead = _lead([clock for each in stated for clock in each.clocks])
    worlds: list[WorldParts] = []
    devices_named = launches = 0
    for world, each in zip(split, stated, strict=True):
        first = world.number == 0
        planes = _aligned(world, each, lead)
        marked = markers_by_process(world, planes)
        component_of = _component_of(world, each.clocks)
        shared = _shared(world, planes, marked, each.facts, each.compiled, component_of)
        logical_ids = world.logical_ids(shared.facts) | (set(named_ids) if first else set())
        known = move_steps(shared.launches, launches)
        tables = _small_tables(world, planes, shared, known, launches)
        launches += max(_count(shared.launches), shared.served.steps)
        tables |= compiled_tables(world.number, tables["instructions"], each.compiled)
        process, places = world.by_device(number_of), coords if first else ()
        devices = [device for plane in planes for device in plane.devices]
        in_slice = dict(enumerate(slices if first else ())) | shared.facts.slices
        clock = world.by_device(names)
        tables["devices"] = device_rows(
            devices, logical_ids, world.number, process, places, clock, in_slice
        )
        tables["clocks"] = typed("clocks", clock_rows(world, each.clocks, names))
        worlds.append(
            replace(
                shared,
                launches=known,
                members=each.members,
                schedule=schedule if first else NO_PIPELINE,
                tables=tables,
                device_offset=devices_named,
            )
        )
        issues += [issue for plane in planes for issue in plane.issues] + shared.facts.issues
        issues += each.compiled.issues
        issues += marker_issues(marked[0], shared.launches, shared.served.unnamed, source)
        issues += clock_issues(world, each.clocks, names, source)
        devices_named += max(logical_ids, default=-1) + 1
    if epoch is None and any(len(set(w.component_of.values())) > 1 for w in worlds):
        issues.append(CLOCKS_UNKNOWN.found(source, len(files)))
    return AssembledRun(
        source=source,
        worlds=worlds,
        issues=issues,
        devices=[d for world in worlds for plane in world.planes for d in plane.devices],
        devices_named=sum(world.tables["devices"].height for world in worlds),
        epoch_ns=None if epoch is None else epoch - lead // 1000,
        hosts=sorted({file.host for file in files}),
    )


@dataclass(frozen=True)
class _Stated:
    """A world on the clocks that its files state, and how far these are apart."""

    planes: list[PlaneEvents]  # on their files' clocks
    facts: ProgramFacts  # of its programs
    compiled: Decisions  # decisions of its compilers
    clocks: list[Clock]  # one a file
    members: tuple[int, ...]  # as WorldParts.members


def _on_stated_clocks(
    world: World,
    epoch: int | None,
    issues: list[Issue],
    offsets: Mapping[str, int],
    names: Mapping[str, str],
    source: str,
    all_in_one_group: bool,
    spread: Spread,
) -> _Stated:
    planes = planes_on_one_clock(world, epoch, issues)
    programs = join_programs(world.files).values()
    facts = program_facts.gather(programs, source)
    compiled = decisions(programs, facts.ops, source)
    members = members_of(world, facts) if all_in_one_group else ()
    if members:
        own = facts.ops.filter(category="collective")
        facts = replace(facts, groups=with_all_ranks(facts.groups, own, facts.pairs, members))
    given = offsets_by_file(world, names, offsets)
    if len(world.files) == 1:
        return _Stated(planes, facts, compiled, [Clock(0, 0)], members)
    # Only runs of several files wait for it to load.
    from xlahouse.ingest.tables.first_look import clocks_of

    clocks = clocks_of(world, planes, facts, given, spread)
    return _Stated(planes, facts, compiled, clocks, members)


def _lead(clocks: Iterable[Clock]) -> int:
    """How much later all times are made, in whole nanoseconds, so that none that is moved to an earlier
    time lies before zero."""
    earliest = min((clock.move.later_ps for clock in clocks), default=0)
    return -(min(0, earliest) // 1000) * 1000


def _aligned(world: World, stated: _Stated, lead_ps: int) -> list[PlaneEvents]:
    """The planes on the clock of their component's reference, all of them later by the lead."""
    counts = [len(file.planes) for file in world.files]
    moves = [clock.move.then(TimeMove(lead_ps)) for clock in stated.clocks]
    of_plane = [move for move, count in zip(moves, counts, strict=True) for _ in range(count)]
    return [shift(plane, move) for plane, move in zip(stated.planes, of_plane, strict=True)]


def _component_of(world: World, clocks: Sequence[Clock]) -> dict[int, int]:
    pairs = zip(world.files, clocks, strict=True)
    return world.by_device({file.path: clock.component for file, clock in pairs})


def _count(launches: pl.DataFrame) -> int:
    """Launch instances, which are numbered from 0."""
    last = launches["launch_instance"].max()
    return last + 1 if isinstance(last, int) else 0


def _epoch(files: list[FileEvents]) -> int | None:
    """UNIX time of time zero, ns: the earliest profile's start; None where a file does not state it."""
    starts = [file.profile_start_ns for file in files if file.profile_start_ns is not None]
    return min(starts) if len(starts) == len(files) else None


def _shared(
    world: World,
    planes: list[PlaneEvents],
    marked: tuple[pl.DataFrame, pl.DataFrame],
    facts: ProgramFacts,
    compiled: Decisions,
    component_of: dict[int, int],
) -> WorldParts:
    """Launches in their steps, and facts of the programs. marked: from markers_by_process."""
    devices = [device for plane in planes for device in plane.devices]
    finished = finish_launches(
        _taken_launches(world, planes), *marked, component_of, circles_of(facts)
    )
    markers = _stacked(planes, "markers", frames.MARKERS)
    served = serve(frames.by_start(finished).rechunk(), markers, marked[0]["host"])
    launches = served.launches
    inferred = any(device.inferred or device.core == "cpu" for device in devices)
    return WorldParts(
        paths=[file.path for file in world.files],
        planes=planes,
        launches=launches,
        served=served,
        facts=facts,
        executed=compiled.executed,
        schedule=NO_PIPELINE,
        tables={},
        device_offset=0,
        component_of=component_of,
        members=(),
        gaps=_gaps(
            launches.clear() if inferred else launches, planes, marked, served, component_of
        ),
        inferred=inferred,
    )


def _gaps(
    launches: pl.DataFrame,
    planes: list[PlaneEvents],
    marked: tuple[pl.DataFrame, pl.DataFrame],
    served: Served,
    component_of: dict[int, int],
) -> pl.DataFrame:
    """Gaps between launches, with the file of their device. marked: from markers_by_process."""
    if launches.is_empty():
        return pl.DataFrame(schema=GAPS | {"file": pl.Int64})
    owners = [(plane.file, device) for plane in planes for device in plane.devices]
    file_of = {device.device_id: file for file, device in owners if device.core != "sparsecore"}
    requests = served.phases.filter(phase="request") if len(served.phases) else served.phases
    markers, hosts = frames.stack([marked[0], requests], frames.MARKERS), marked[1]
    clock = pl.col("device_id").replace_strict(component_of, default=None, return_dtype=pl.Int64)
    clock_of_host = {
        host: component_of[device] for device, host in hosts.iter_rows() if device in component_of
    }
    of_cores = launches.filter(pl.col("device_id").is_in(list(file_of)))
    gaps = launch_gaps(of_cores.with_columns(clock=clock), markers, clock_of_host)
    file = pl.col("device_id").replace_strict(file_of, default=None, return_dtype=pl.Int64)
    return gaps.with_columns(file=file)


def _taken_launches(world: World, planes: list[PlaneEvents]) -> pl.DataFrame:
    """Launches of all planes, removed from the planes: they would be in memory twice."""
    launches = _stacked(planes, "launches", frames.LAUNCHES)
    for some in (planes, *(file.planes for file in world.files)):
        some[:] = [replace(plane, launches=launches.clear()) for plane in some]
    return launches.drop("link", "link_type")


def _small_tables(
    world: World,
    planes: list[PlaneEvents],
    shared: WorldParts,
    launches: pl.DataFrame,
    first_step: int,
) -> dict[str, pl.DataFrame]:
    """The small tables without the devices. first_step: number of the first of `launches`' instances."""
    in_world = pl.lit(world.number, pl.Int64).alias("world")
    facts, served = shared.facts, shared.served
    markers = _stacked(planes, "markers", frames.MARKERS)
    transfers = _stacked(planes, "kv_transfers", frames.KV_TRANSFERS)
    phases = [phase_rows(markers, launches), move_steps(served.phases, first_step)]
    return {
        "phases": pl.concat(phases, how="diagonal"),
        "step_requests": served.requests.with_columns(pl.col("step") + first_step)
        if served.requests.height
        else served.requests,
        "served_requests": moved_totals(served.totals, first_step),
        "kv_transfers": transfer_rows(transfers, served.requests),
        "launches": launches.drop("marker", "undecided"),
        "replica_groups": facts.groups.with_columns(in_world, device_id="logical_id"),
        "permute_pairs": facts.pairs.with_columns(in_world),
        "instructions": typed("instructions", facts.instructions).with_columns(in_world),
    }


def _stacked(planes: Iterable[PlaneEvents], name: str, columns: frames.ColumnTypes) -> pl.DataFrame:
    return frames.stack([getattr(plane, name) for plane in planes], columns)
