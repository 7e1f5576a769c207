"""Puts a run together: what was read from all its files becomes the warehouse's tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import polars as pl

from xlahouse.ingest import frames, program_facts
from xlahouse.ingest.busy import busy_intervals
from xlahouse.ingest.collectives import find_collectives
from xlahouse.ingest.frames import Device, Issue, PlaneEvents
from xlahouse.ingest.launches import finish_launches, phase_rows
from xlahouse.ingest.ops import finish_ops
from xlahouse.ingest.program_facts import ProgramFacts
from xlahouse.ingest.read import FileEvents, shift
from xlahouse.ingest.schema import BY_NAME

_KEYS_OF_A_FILE = 1 << 40  # launch keys are event numbers, which never reach this


@dataclass(frozen=True)
class RunTables:
    """Every table of a run without run_id, but for `runs`; and facts that its row needs."""

    tables: dict[str, pl.DataFrame]
    devices: list[Device]
    logical_ids: set[int]
    epoch_ns: int | None
    duration_ps: int | None
    hosts: list[str]


def assemble(files: list[FileEvents], source: str) -> RunTables:
    """Tables of a run from its files."""
    epochs = [file.profile_start_ns for file in files if file.profile_start_ns is not None]
    epoch = min(epochs) if len(epochs) == len(files) else None
    planes, issues = _merged_planes(files, epoch, source)
    programs = {number: p for file in files for number, p in file.programs.items()}
    facts = program_facts.gather(programs.values(), source)
    issues += [issue for file in files for issue in file.issues]
    issues += [issue for plane in planes for issue in plane.issues] + facts.issues
    devices = [device for plane in planes for device in plane.devices]

    markers = _stacked(planes, "markers", frames.MARKERS)
    launches = finish_launches(
        _stacked(planes, "launches", frames.LAUNCHES),
        _stacked(planes, "producers", frames.PRODUCERS),
        markers,
        pl.DataFrame(
            [(device.device_id, device.host) for device in devices],
            schema={"device_id": pl.Int64, "host": pl.String},
            orient="row",
        ),
    )
    ops = finish_ops(_stacked(planes, "ops", frames.OPS), launches, facts.ops)
    groups, pairs = _group_tables(facts)
    found = find_collectives(ops, groups, pairs, source)
    issues += found.issues + _op_issues(ops, source)
    host_events = _stacked(planes, "host_events", frames.HOST_EVENTS)
    logical_ids = facts.logical_ids | {device.device_id for device in devices}
    tables = {
        "devices": _device_rows(devices, logical_ids),
        "phases": phase_rows(markers, launches),
        "launches": launches,
        "ops": ops,
        "collectives": found.rows,
        "busy_intervals": busy_intervals(ops, found.rows),
        "replica_groups": groups,
        "permute_pairs": pairs.with_columns(world=pl.lit(0, pl.Int64)),
        "instructions": _instruction_rows(facts),
        "host_events": host_events,
        "counters": _stacked(planes, "counters", frames.COUNTERS),
        "issues": _issue_rows(issues),
        "coverage": _stacked(planes, "coverage", frames.COVERAGE),
    }
    return RunTables(
        tables=tables,
        devices=devices,
        logical_ids=logical_ids,
        epoch_ns=epoch,
        duration_ps=_duration([ops, launches, host_events]),
        hosts=sorted({file.host for file in files}),
    )


def _merged_planes(
    files: list[FileEvents], epoch: int | None, source: str
) -> tuple[list[PlaneEvents], list[Issue]]:
    """Planes of all files on one clock; a device number that two planes claim costs the later one."""
    planes: list[PlaneEvents] = []
    issues: list[Issue] = []
    taken: dict[int, str] = {}
    if epoch is None and len(files) > 1:
        message = "a file lacks its profile start time: times of different files cannot be compared"
        issues.append(Issue("warning", "clocks_unknown", message, source, len(files)))
    for number, file in enumerate(files):
        delta = 0 if epoch is None else (_start(file, epoch) - epoch) * 1000
        for plane in file.planes:
            shared = [device for device in plane.devices if device.device_id in taken]
            if shared:
                message = (
                    f"{plane.devices[0].plane} and {taken[shared[0].device_id]} both are device "
                    f"{shared[0].device_id}; the former is left out"
                )
                issues.append(Issue("error", "device_collision", message, file.path))
                planes.append(_without_device(plane))
                continue
            taken |= {
                device.device_id: f"{device.plane} of {file.path}" for device in plane.devices
            }
            planes.append(shift(plane, delta, number * _KEYS_OF_A_FILE))
    return planes, issues


def _start(file: FileEvents, epoch: int) -> int:
    return epoch if file.profile_start_ns is None else file.profile_start_ns


def _without_device(plane: PlaneEvents) -> PlaneEvents:
    """A plane that is left out: its events count as rejected."""
    rejected = plane.coverage.with_columns(
        table_name=pl.lit(None, pl.String),
        rows_written=pl.lit(0, pl.Int64),
        events_rejected="events_read",
    )
    return PlaneEvents(coverage=rejected, issues=plane.issues)


def _stacked(planes: Iterable[PlaneEvents], name: str, columns: dict[str, Any]) -> pl.DataFrame:
    return frames.stack([getattr(plane, name) for plane in planes], columns)


def _group_tables(facts: ProgramFacts) -> tuple[pl.DataFrame, pl.DataFrame]:
    """replica_groups and permute_pairs; with one world a device's id is its logical id."""
    groups = facts.groups.with_columns(world=pl.lit(0, pl.Int64), device_id="logical_id")
    return groups, facts.pairs


def _device_rows(devices: list[Device], logical_ids: set[int]) -> pl.DataFrame:
    traced = {device.device_id: device for device in devices}
    rows = []
    for number in sorted(logical_ids):
        device = traced.get(number)
        rows.append(
            {
                "device_id": number,
                "world": 0,
                "logical_id": number,
                "traced": device is not None,
                "peaks_source": "trace" if device is not None and device.peak_flops else None,
                "inferred": device.inferred if device is not None else _all_inferred(devices),
                "process": 0 if device is not None else None,
            }
            | (
                {}
                if device is None
                else {
                    name: getattr(device, name)
                    for name in (
                        "host",
                        "plane",
                        "local_ordinal",
                        "kind",
                        "core",
                        "chip_id",
                        "peak_flops",
                        "peak_hbm_bytes_per_s",
                    )
                }
            )
        )
    return _typed("devices", rows)


def _all_inferred(devices: list[Device]) -> bool:
    return bool(devices) and all(device.inferred for device in devices)


def _instruction_rows(facts: ProgramFacts) -> pl.DataFrame:
    return _typed("instructions", facts.instructions)


def _issue_rows(issues: list[Issue]) -> pl.DataFrame:
    names = ("source", "severity", "code", "message", "count")
    return _typed("issues", [{name: getattr(issue, name) for name in names} for issue in issues])


def _typed(table: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    """Rows as a frame with the table's types, without run_id."""
    empty = pl.DataFrame(pl.from_arrow(BY_NAME[table].schema.empty_table())).drop("run_id")
    names = set(rows[0]) if rows else set()
    schema = {name: dtype for name, dtype in empty.schema.items() if name in names or not rows}
    return pl.DataFrame(rows, schema=schema)


def _op_issues(ops: pl.DataFrame, source: str) -> list[Issue]:
    without_hlo = ops.filter("inferred_category").height
    outside = ops.filter(pl.col("launch").is_null()).height
    found = (
        (
            without_hlo,
            "info",
            "category_inferred",
            "ops without HLO: their category is deduced from the name or opcode text",
        ),
        (outside, "info", "op_outside_launch", "ops outside every launch: no step, no phase"),
    )
    return [
        Issue(severity, code, message, source, count)
        for count, severity, code, message in found
        if count
    ]


def _duration(tables: list[pl.DataFrame]) -> int | None:
    """From the first event's start to the last one's end, ps."""
    spans = pl.concat([table.select("start_ps", "duration_ps") for table in tables])
    if spans.is_empty():
        return None
    last = int((spans["start_ps"] + spans["duration_ps"]).max() or 0)  # type: ignore[arg-type]
    return last - int(spans["start_ps"].min() or 0)  # type: ignore[arg-type]
