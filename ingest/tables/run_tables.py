"""Turns an assembled run into tables: ops of some devices at a time, then tables that need all devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
import pyarrow as pa

from xlahouse.ingest.events.codes_of_devices import OP_OUTSIDE_LAUNCH, UNEVEN_ENDS
from xlahouse.ingest.events.codes_of_programs import CATEGORY_INFERRED, KERNEL_COMMUNICATES
from xlahouse.ingest.events.frames import Device, PlaneEvents
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.events.spans import joined_span, span_of
from xlahouse.ingest.hlo.group_rows import GROUP_COLUMNS
from xlahouse.ingest.nesting.host_gaps import WantedGaps, host_gaps, joined
from xlahouse.ingest.schema import BY_NAME
from xlahouse.ingest.spread.parts import RunPart, Spread
from xlahouse.ingest.tables.assemble import AssembledRun, WorldParts
from xlahouse.ingest.tables.collectives import Collectives, find_collectives, uneven_ends
from xlahouse.ingest.tables.device_tables import (
    FileContext,
    FinishedBatch,
    WorldContext,
    batches,
    finish_planes,
)
from xlahouse.ingest.tables.launches import of_devices
from xlahouse.ingest.tables.participants import across_clocks, partly_seen, with_all_ranks
from xlahouse.ingest.tables.pieces import ROW_GROUP, TableWriter, pieces_of
from xlahouse.ingest.tables.transfers import Transfers, join_transfers
from xlahouse.ingest.tables.unseen import unseen_collectives, unseen_events
from xlahouse.ingest.tables.worlds import move_devices


@dataclass(frozen=True)
class RunTables:
    """Facts that a run's row needs, once its tables are written."""

    devices: list[Device]  # the traced ones
    devices_named: int  # devices that planes or programs name, traced or not
    epoch_ns: int | None  # UNIX time of time zero
    # from the first event's start to the last one's end; None without events
    duration_ps: int | None
    hosts: list[str]  # names, sorted
    issues: list[Issue]  # all findings
    coverage: pl.DataFrame  # of all lines


def write_tables(run: AssembledRun, writer: TableWriter, spread: Spread) -> RunTables:
    """Write every table of a run but `runs`, `issues` and `coverage`."""
    issues = list(run.issues)
    coverage: list[pl.DataFrame] = []
    spans: list[tuple[int, int] | None] = []
    small: dict[str, list[pl.DataFrame]] = {}
    parts = instances = 0
    for number, world in enumerate(run.worlds):
        finished = _finish_devices(world, run.source, writer, parts, spread)
        parts += len(finished)
        transfers, found = _collectives(world, finished, run.source)
        pieces = _collective_pieces(transfers, writer.run_id, world.device_offset, instances)
        writer.write_pieces("collectives", pieces, number)
        instances += transfers.instances
        gaps = host_gaps(world.gaps, joined(batch.in_gaps for batch in finished))
        for name, table in {**world.tables, "host_gaps": gaps}.items():
            if not table.is_empty():
                small.setdefault(name, []).append(move_devices(table, world.device_offset))
        issues += [issue for batch in finished for issue in batch.issues] + found
        coverage += [batch.coverage for batch in finished]
        spans += [span_of(world.launches), *(batch.span for batch in finished)]
    for name, tables in small.items():
        writer.write(name, pl.concat(tables, how="diagonal"))
    span = joined_span(spans)
    return RunTables(
        devices=run.devices,
        devices_named=run.devices_named,
        epoch_ns=run.epoch_ns,
        duration_ps=None if span is None else span[1] - span[0],
        hosts=run.hosts,
        issues=issues,
        coverage=pl.concat(coverage),
    )


def _finish_devices(
    world: WorldParts, source: str, writer: TableWriter, first_part: int, spread: Spread
) -> list[FinishedBatch]:
    """Finish all devices of a world, some batches at once; no other batch is in memory."""
    shared = WorldContext(world.facts.ops, world.schedule, world.device_offset, source), writer
    of_file = _devices_by_file(world.planes)
    wanted = WantedGaps.of(world.gaps)
    parts = []
    for number, planes in enumerate(batches(world.planes), start=first_part):
        files = sorted({plane.file for plane in planes})
        devices = np.array([each for file in files for each in of_file.get(file, ())], np.int64)
        own = FileContext(
            of_devices(world.launches, devices), {n: wanted[n] for n in files if n in wanted}
        )
        size = sum(plane.bytes for plane in planes)
        names = ", ".join(world.paths[file] for file in files)
        parts.append(RunPart(names, (planes, own, number), size))
    finished = []
    for batch, wrote in spread.each(_finish_batch, shared, parts):
        writer.take(wrote)
        finished.append(batch)
    return finished


def _finish_batch(
    shared: tuple[WorldContext, TableWriter],
    planes: list[PlaneEvents],
    of_files: FileContext,
    part: int,
) -> tuple[FinishedBatch, TableWriter]:
    """(what is kept of a batch, the writer that wrote its tables)."""
    context, writer = shared
    return finish_planes(context, planes, of_files, writer, part), writer


def _devices_by_file(planes: list[PlaneEvents]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for plane in planes:
        found.setdefault(plane.file, []).extend(each.device_id for each in plane.devices)
    return found


def _collectives(
    world: WorldParts, finished: list[FinishedBatch], source: str
) -> tuple[Collectives, list[Issue]]:
    """(collectives with the world's own device numbers, findings about its ops)."""
    transfers = join_transfers([batch.transfers for batch in finished])
    if world.members:
        _give_all_ranks(world, transfers)
    groups = world.tables["replica_groups"]
    found = find_collectives(transfers, groups, world.facts.pairs, world.launches, source)
    issues = found.issues + _op_issues(finished, source) + unseen_events(world, finished, source)
    issues += unseen_collectives(
        world.facts, world.launches, pl.concat([batch.shown for batch in finished]), source
    )
    uneven = 0 if world.inferred else uneven_ends(found)
    issues += issues_found(source, (UNEVEN_ENDS, uneven))
    apart = across_clocks(found, groups, world.component_of)
    issues += partly_seen(found, groups, set(world.component_of), source)
    if apart.any():  # arrivals of one group have no common clock
        arrival = pl.when(~apart).then("arrival_ps")
        found = replace(found, events=found.events.with_columns(arrival_ps=arrival))
    return found, issues


def _give_all_ranks(world: WorldParts, transfers: Transfers) -> None:
    """Add groups of all ranks to a world's replica groups, for kernels that no program describes."""
    groups = world.tables["replica_groups"]
    known = groups.select(list(GROUP_COLUMNS))
    added = with_all_ranks(known, transfers.kinds, world.facts.pairs, world.members)[known.height :]
    number = world.tables["devices"]["world"].first()
    rows = added.with_columns(world=pl.lit(number, pl.Int64), device_id="logical_id")
    world.tables["replica_groups"] = pl.concat([groups, rows], how="diagonal_relaxed")


def _collective_pieces(
    found: Collectives, run_id: str, device_offset: int, first_instance: int
) -> Iterator[pa.Table]:
    """The collectives table of a world, piece by piece."""
    for piece in found.pieces(ROW_GROUP):
        moved = move_devices(piece, device_offset).with_columns(pl.col("instance") + first_instance)
        yield from pieces_of(moved, BY_NAME["collectives"], run_id, in_order=True)


def _op_issues(finished: list[FinishedBatch], source: str) -> list[Issue]:
    kernels = sum((batch.kernels for batch in finished), Counter[str]())
    names = ", ".join(sorted(kernels))
    return issues_found(
        source,
        (KERNEL_COMMUNICATES, kernels.total(), f"{KERNEL_COMMUNICATES.meaning}: {names}"),
        (CATEGORY_INFERRED, sum(batch.inferred for batch in finished)),
        (OP_OUTSIDE_LAUNCH, sum(batch.outside for batch in finished)),
    )
