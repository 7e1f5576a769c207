"""Turns planes into tables, some devices at a time: the pass that has a run's ops in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from xlahouse.ingest.events import frames
from xlahouse.ingest.events.arrays import Mask
from xlahouse.ingest.events.codes_of_files import BAD_NUMBER, DAMAGED_PLANE
from xlahouse.ingest.events.frames import PlaneEvents
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.events.op_events import OpEvents, join_kinds
from xlahouse.ingest.events.spans import joined_span
from xlahouse.ingest.nesting.host_gaps import WantedGaps
from xlahouse.ingest.tables.busy import COMMUNICATING, ON_CORE, busy_intervals
from xlahouse.ingest.tables.device_steps import (
    SplitSteps,
    attributed_times,
    launch_spans,
    split_steps,
)
from xlahouse.ingest.tables.host_table import write_host_events
from xlahouse.ingest.tables.launches import of_devices
from xlahouse.ingest.tables.op_table import op_pieces
from xlahouse.ingest.tables.ops import finish_ops, impossible, impossible_estimates
from xlahouse.ingest.tables.pieces import TableWriter
from xlahouse.ingest.tables.pipeline import TickSchedule
from xlahouse.ingest.tables.placed_ops import PlacedOps
from xlahouse.ingest.tables.stretches import busy_stretches
from xlahouse.ingest.tables.transfer_pairs import BARRIER, find_transfers
from xlahouse.ingest.tables.transfers import Transfers
from xlahouse.ingest.tables.worlds import move_devices
from xlahouse.ingest.xplane.decode import DecodeError

_SCOPE = ["layer", "component", "tick"]
_IS_TRANSFER = pl.col("category") == "collective"
_IS_WORK = ~pl.col("category").is_in(["wait", "control"])
_FOUND = {
    "inferred": pl.col("inferred_category"),
    "working": _IS_WORK,
    "waiting": pl.col("category") == "wait",
    "communicating": COMMUNICATING,  # beside the op's category
}
BATCH_BYTES = 8 << 20  # small planes share a pass and a file


@dataclass(frozen=True)
class WorldContext:
    """Facts that all devices of a world share."""

    facts: pl.DataFrame  # program_facts.FACT_COLUMNS
    schedule: TickSchedule  # of a pipeline; empty without one
    device_offset: int  # added to a device number to make it the run's
    source: str  # the run, for findings


@dataclass(frozen=True)
class FileContext:
    """Facts that all devices of some files share, of a world."""

    launches: pl.DataFrame  # finished, by device and start
    wanted: dict[int, WantedGaps]  # by file, the host events that say what it did in gaps


@dataclass(frozen=True)
class FinishedBatch:
    """The part of a batch of planes that is kept once its large tables are written."""

    transfers: Transfers  # the batch's parts of collectives
    shown: pl.DataFrame  # program_id, op of the collectives that ran
    coverage: pl.DataFrame  # of its lines
    in_gaps: pl.DataFrame  # host_gaps.EVENTS
    issues: list[Issue] = field(default_factory=list)  # findings about it
    span: tuple[int, int] | None = None  # from the first event's start to the last one's end, ps
    inferred: int = 0  # ops without HLO
    outside: int = 0  # ops outside every launch
    # those that communicate, and how many ran
    kernels: Counter[str] = field(default_factory=Counter)
    working: frozenset[int] = frozenset()  # devices with an op beside waits and control
    waiting: frozenset[int] = frozenset()  # devices with a wait
    scoped: bool = False  # whether an op states where in the model it comes from


def batches(planes: Sequence[PlaneEvents]) -> Iterator[list[PlaneEvents]]:
    """Planes by their devices, small ones together; at least one batch, and large planes alone.

    So no file's devices lie between another's, whatever the order of hosts by name, and compaction has
    nothing to sort.
    """
    batch: list[PlaneEvents] = []
    held = 0
    for plane in sorted(planes, key=_first_device):
        if batch and held + plane.bytes > BATCH_BYTES:
            yield batch
            batch, held = [], 0
        batch.append(plane)
        held += plane.bytes
    yield batch


def _first_device(plane: PlaneEvents) -> int:
    return min((device.device_id for device in plane.devices), default=-1)


def finish_planes(
    shared: WorldContext,
    planes: Sequence[PlaneEvents],
    of_files: FileContext,
    writer: TableWriter,
    part: int,
) -> FinishedBatch:
    """Write ops, busy intervals and stretches, device steps, host events and counters of some planes.

    Each part is freed as soon as it is used: a plane's ops are most of an ingest's memory.

    Args:
        shared: of their world.
        planes: the planes, shifted to the run's time zero.
        of_files: of their files.
        writer: where to.
        part: number of the files.
    """
    issues: list[Issue] = []
    whole = [piece for plane in planes for piece in _read_whole(plane, shared.source, issues)]
    written = write_host_events(whole, of_files.wanted, writer, part)
    odd = _write_counters(whole, shared, writer, part)
    coverage = frames.stack([plane.coverage for plane in whole], frames.COVERAGE)
    events = join_kinds([ops for plane in whole for ops in _ops_of(plane)])
    del whole
    odd += impossible_estimates(events.kinds)
    issues += issues_found(shared.source, (BAD_NUMBER, odd))
    if events.events.is_empty():
        nothing = Transfers.of_rows(events.events, 0)
        shown = nothing.kinds[["program_id", "op"]]
        return FinishedBatch(nothing, shown, coverage, written.in_gaps, issues, written.span)
    launches = of_devices(of_files.launches, events.events["device_id"].to_numpy())
    ops = finish_ops(events, launches, shared.facts, shared.schedule)
    del events
    mask = ops.of_kinds(_IS_TRANSFER & ON_CORE)
    candidates = ops.rows(mask).hstack([pl.Series("row", np.flatnonzero(mask))])
    transfers, unpaired = find_transfers(candidates, *_working_and_barriers(ops))
    del candidates
    busy = busy_intervals(ops, transfers)
    split = split_steps(launch_spans(ops), busy)
    attributed = attributed_times(ops, transfers, split)
    pieces = op_pieces(ops, attributed, writer.run_id, shared.device_offset)
    writer.write_pieces("ops", pieces, part)
    inferred, working, waiting, communicating = ops.of_each(_FOUND)
    finished = FinishedBatch(
        Transfers.of_rows(transfers, unpaired),
        ops.kinds.filter(_IS_TRANSFER)[["program_id", "op"]].unique(),
        coverage,
        written.in_gaps,
        issues,
        joined_span([written.span, _span_of_ops(ops)]),
        int(inferred.sum()),
        ops.outside,
        _names(ops, communicating),
        _devices_with(ops, working),
        _devices_with(ops, waiting),
        ops.kinds.select(pl.any_horizontal(pl.col(_SCOPE).is_not_null()).any()).item(),
    )
    del ops, transfers, pieces, attributed
    for name, table in _busy_tables(busy, split, launches):
        writer.write(name, move_devices(table, shared.device_offset), part, in_order=True)
    return finished


def _write_counters(
    planes: Sequence[PlaneEvents], shared: WorldContext, writer: TableWriter, part: int
) -> int:
    """Write the counters of some planes; how many have an impossible value and are left out."""
    counters = frames.stack([plane.counters for plane in planes], frames.COUNTERS)
    if counters.is_empty():
        return 0
    kept = counters.filter(~impossible("value"))
    writer.write("counters", move_devices(kept, shared.device_offset), part)
    return counters.height - kept.height


def _busy_tables(
    busy: pl.DataFrame, split: SplitSteps, launches: pl.DataFrame
) -> Iterator[tuple[str, pl.DataFrame]]:
    """(name, table) of busy_intervals and the tables made from them, one at a time: they are large."""
    yield "busy_intervals", busy
    del busy
    yield "device_steps", split.table
    yield "busy_stretches", busy_stretches(split.windows, split.busy, launches)


def _read_whole(plane: PlaneEvents, source: str, issues: list[Issue]) -> Iterator[PlaneEvents]:
    """The parts of a plane: the one that was read, and the one that is read now."""
    yield plane
    if plane.rest is None:
        return
    names = ", ".join(device.plane for device in plane.devices) or "a plane of the host"
    try:
        rest = plane.rest()
    except DecodeError as error:
        issues.append(DAMAGED_PLANE.found(source, detail=f"{names} is damaged: {error}"))
        return
    except Exception as error:  # damage can raise anything; it loses this plane only
        detail = f"{names} is inconsistent: {type(error).__name__}: {error}"
        issues.append(DAMAGED_PLANE.found(source, detail=detail))
        return
    issues += rest.issues
    yield replace(rest, file=plane.file)


def _ops_of(plane: PlaneEvents) -> Iterator[OpEvents]:
    if plane.op_events is not None:
        yield plane.op_events
    if not plane.ops.is_empty():
        yield OpEvents.of_rows(plane.ops)


def _working_and_barriers(ops: PlacedOps) -> tuple[pl.DataFrame, pl.DataFrame]:
    """device_id, launch, start_ps of the ops that are work, and of the barriers.

    Of ops that do not last collectives alone are work: any other ends no barrier's turn.
    """
    wanted = {"barriers": pl.col("op") == BARRIER, "transfers": _IS_TRANSFER}
    barriers, transfers, working = ops.of_each(wanted | {"working": ON_CORE & _IS_WORK})
    working &= (ops.duration_ps > 0) | transfers
    if not barriers.any():
        working &= False
    return ops.places(working), ops.places(barriers)


def _devices_with(ops: PlacedOps, mask: Mask) -> frozenset[int]:
    """Devices that ran one of the chosen ops."""
    return frozenset(np.unique(ops.device_id[mask]).tolist())


def _names(ops: PlacedOps, mask: Mask) -> Counter[str]:
    """How often each of the chosen ops ran, by its name without numbers."""
    if not mask.any():
        return Counter()
    counts = np.bincount(ops.kind.take(np.flatnonzero(mask)), minlength=ops.kinds.height)
    names = ops.kinds["op"].str.replace(r"(?:\.\d+)+$", "")
    ran: Counter[str] = Counter()
    for place in np.flatnonzero(counts):
        ran[names[int(place)]] += int(counts[place])
    return ran


def _span_of_ops(ops: PlacedOps) -> tuple[int, int] | None:
    if not len(ops.start_ps):
        return None
    return int(ops.start_ps.min()), int((ops.start_ps + ops.duration_ps).max())
