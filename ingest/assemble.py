"""Puts a run together: what was read from all its files becomes the warehouse's tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from xlahouse.ingest import frames, program_facts
from xlahouse.ingest.busy import busy_intervals
from xlahouse.ingest.collectives import find_collectives, uneven_ends
from xlahouse.ingest.frames import Device, Issue, PlaneEvents
from xlahouse.ingest.launches import STEP_MARKERS, finish_launches, phase_rows
from xlahouse.ingest.ops import finish_ops
from xlahouse.ingest.pipeline import Schedule, place_in_pipeline
from xlahouse.ingest.read import FileEvents, shift
from xlahouse.ingest.rows import device_rows, issue_rows, typed
from xlahouse.ingest.worlds import World, join_worlds, processes, split_worlds

NO_PIPELINE = Schedule()
_KEYS_OF_A_FILE = 1 << 40  # launch keys are event numbers, which never reach this


@dataclass(frozen=True)
class RunTables:
    """Every table of a run without run_id, but for `runs`; and facts that its row needs.

    devices_named: devices that planes or programs name, traced or not.
    """

    tables: dict[str, pl.DataFrame]
    devices: list[Device]
    devices_named: int
    epoch_ns: int | None
    duration_ps: int | None
    hosts: list[str]


def assemble(
    files: list[FileEvents],
    source: str,
    named_ids: Sequence[int] = (),
    schedule: Schedule = NO_PIPELINE,
) -> RunTables:
    """Tables of a run from its files.

    Args:
        files: what was read.
        source: the run, for issues.
        named_ids: logical ids that the manifest's mesh names; they belong to the first world.
        schedule: the run's pipeline, of the first world.
    """
    issues: list[Issue] = [issue for file in files for issue in file.issues]
    epoch = _epoch(files, source, issues)
    number_of = processes(files)
    parts, devices, offsets, named = [], [], [], 0
    for world in split_worlds(files):
        planes = _planes_on_one_clock(world, epoch, issues)
        also = set(named_ids) if world.number == 0 else set()
        pipeline = schedule if world.number == 0 else NO_PIPELINE
        tables, found, members = _world_tables(world, planes, number_of, also, source, pipeline)
        if (
            epoch is None and len(world.files) > 1
        ):  # arrivals on different hosts have no common clock
            unknown = pl.lit(None, pl.Int64).alias("arrival_ps")
            tables["collectives"] = tables["collectives"].with_columns(unknown)
        issues += [issue for plane in planes for issue in plane.issues] + found
        devices += [device for plane in planes for device in plane.devices]
        parts.append(tables)
        offsets.append(named)
        named += members
    tables = join_worlds(parts, offsets)
    return RunTables(
        tables=tables | {"issues": issue_rows(issues)},
        devices=devices,
        devices_named=sum(part["devices"].height for part in parts),
        epoch_ns=epoch,
        duration_ps=_duration([tables[name] for name in ("ops", "launches", "host_events")]),
        hosts=sorted({file.host for file in files}),
    )


def _epoch(files: list[FileEvents], source: str, issues: list[Issue]) -> int | None:
    """UNIX time of time zero, ns: the earliest profile's start; None where a file does not tell."""
    starts = [file.profile_start_ns for file in files if file.profile_start_ns is not None]
    if len(starts) == len(files):
        return min(starts)
    if len(files) > 1:
        message = "a file lacks its profile start time: times of different files cannot be compared"
        issues.append(Issue("warning", "clocks_unknown", message, source, len(files)))
    return None


def _planes_on_one_clock(world: World, epoch: int | None, issues: list[Issue]) -> list[PlaneEvents]:
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
            planes.append(shift(plane, delta, number * _KEYS_OF_A_FILE))
    return planes


def _left_out(
    plane: PlaneEvents, taken: dict[int, str], path: str, issues: list[Issue]
) -> PlaneEvents:
    """A plane whose events all count as rejected."""
    device = plane.devices[0]
    message = (
        f"{device.plane} and {taken[device.device_id]} both are device {device.device_id}; "
        "the former is left out"
    )
    issues.append(Issue("error", "device_collision", message, path))
    rejected = plane.coverage.with_columns(
        table_name=pl.lit(None, pl.String),
        rows_written=pl.lit(0, pl.Int64),
        events_rejected="events_read",
    )
    return PlaneEvents(coverage=rejected, issues=plane.issues)


def _world_tables(
    world: World,
    planes: list[PlaneEvents],
    number_of: dict[str, int],
    named_ids: set[int],
    source: str,
    schedule: Schedule,
) -> tuple[dict[str, pl.DataFrame], list[Issue], int]:
    """(tables with the world's own device numbers, findings, how many numbers it takes)."""
    programs = {number: p for file in world.files for number, p in file.programs.items()}
    facts = program_facts.gather(programs.values(), source)
    devices = [device for plane in planes for device in plane.devices]
    hosts = pl.DataFrame(
        [(device.device_id, device.host) for device in devices],
        schema={"device_id": pl.Int64, "host": pl.String},
        orient="row",
    )
    markers = _stacked(planes, "markers", frames.MARKERS)
    launches = finish_launches(_stacked(planes, "launches", frames.LAUNCHES), markers, hosts)
    ops = finish_ops(_stacked(planes, "ops", frames.OPS), launches, facts.ops)
    ops = place_in_pipeline(ops, schedule)
    in_world = pl.lit(world.number, pl.Int64).alias("world")
    groups = facts.groups.with_columns(in_world, device_id="logical_id")
    found = find_collectives(ops, groups, facts.pairs, source)
    logical_ids = world.logical_ids(facts) | named_ids
    process = {
        device.device_id: number_of[file.path]
        for file in world.files
        for plane in file.planes
        for device in plane.devices
    }
    tables = {
        "devices": device_rows(devices, logical_ids, world.number, process),
        "phases": phase_rows(markers, launches),
        "launches": launches,
        "ops": ops,
        "collectives": found.rows,
        "busy_intervals": busy_intervals(ops, found.rows),
        "replica_groups": groups,
        "permute_pairs": facts.pairs.with_columns(in_world),
        "instructions": typed("instructions", facts.instructions).with_columns(in_world),
        "host_events": _stacked(planes, "host_events", frames.HOST_EVENTS),
        "counters": _stacked(planes, "counters", frames.COUNTERS),
        "coverage": _stacked(planes, "coverage", frames.COVERAGE),
    }
    issues = facts.issues + found.issues + _op_issues(ops, source) + _marker_issues(markers, source)
    uneven = 0 if any(device.inferred for device in devices) else uneven_ends(found.rows)
    if uneven:
        message = "synchronous collectives whose ends lie over 1 us apart: their skew is unknown"
        issues.append(Issue("warning", "uneven_ends", message, source, uneven))
    return tables, issues, max(logical_ids, default=-1) + 1


def _stacked(planes: Iterable[PlaneEvents], name: str, columns: dict[str, Any]) -> pl.DataFrame:
    return frames.stack([getattr(plane, name) for plane in planes], columns)


def _op_issues(ops: pl.DataFrame, source: str) -> list[Issue]:
    found = (
        (
            ops.filter("inferred_category").height,
            "category_inferred",
            "ops without HLO: their category is deduced from the name or opcode text",
        ),
        (
            ops.filter(pl.col("launch").is_null()).height,
            "op_outside_launch",
            "ops outside every launch: no step, no phase",
        ),
    )
    return [Issue("info", code, message, source, count) for count, code, message in found if count]


def _marker_issues(markers: pl.DataFrame, source: str) -> list[Issue]:
    steps = markers.filter(pl.col("phase").is_in(STEP_MARKERS))
    incomplete = steps.filter(pl.col("request").is_null() | pl.col("step").is_null()).height
    if not incomplete:
        return []
    message = (
        "step markers without the numbers `request` and `step_num`: their requests have no latency"
    )
    return [Issue("warning", "marker_incomplete", message, source, incomplete)]


def _duration(tables: list[pl.DataFrame]) -> int | None:
    """From the first event's start to the last one's end, ps."""
    spans = pl.concat([table.select("start_ps", "duration_ps") for table in tables])
    if spans.is_empty():
        return None
    end = (pl.col("start_ps") + pl.col("duration_ps")).max()
    return int(spans.select(end - pl.col("start_ps").min()).item())
