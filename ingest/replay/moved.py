"""The tables of a replayed run: a measured run's rows with their new times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from xlahouse.ingest.events import frames
from xlahouse.ingest.events.arrays import Integers, Mask
from xlahouse.ingest.events.tpu_lines import ASYNC_OPS_LINE
from xlahouse.ingest.nesting.self_time import self_times
from xlahouse.ingest.replay.lines import NOWHERE
from xlahouse.ingest.replay.schedule import Schedule, Times
from xlahouse.ingest.replay.waits import TABLE, circuit_waits
from xlahouse.ingest.schema import BY_NAME
from xlahouse.ingest.tables.busy import busy_intervals
from xlahouse.ingest.tables.device_steps import (
    SplitSteps,
    attributed_times,
    launch_spans,
    split_steps,
)
from xlahouse.ingest.tables.op_table import op_pieces
from xlahouse.ingest.tables.pieces import TableWriter
from xlahouse.ingest.tables.placed_ops import PlacedOps
from xlahouse.ingest.tables.stretches import busy_stretches

# Tables with times that a replay does not know: the host's own events, and what is worked out from them.
LEFT_OUT = (
    *("runs", "host_events", "host_gaps", "kv_transfers"),
    *("advice", "transfer_costs", "predicted_split", "reconfiguration_plan"),
    *("circuit_waits", "forecast", "forecast_costs"),
)
# Tables that are written with new times; all others are written as they are.
MOVED = ("ops", "collectives", "launches", "phases", "counters")
MADE = ("busy_intervals", "device_steps", "busy_stretches")

# Categories of busy_intervals whose ops are known by them: kernels that compute and communicate at once,
# and compute of a pipeline's empty ticks.
MARKED = ("communicating", "masked")

_OF_LAUNCH = ["launch", "phase", "request", "step"]
_ARRAYS = ["run_id", "device_id", "start_ps", "duration_ps", "self_ps", "attributed_ps"]


@dataclass(frozen=True)
class Whole:
    """Whole rows of the tables of MOVED, in the order in which the schedule has them, and what else
    the merged times need."""

    tables: dict[str, pl.DataFrame]  # by name
    marked: pl.DataFrame  # of busy_intervals, those of MARKED, which no column of ops states
    hosts: dict[str, int]  # host -> a line of one of its devices


def write_replayed(schedule: Schedule, times: Times, whole: Whole, writer: TableWriter) -> int:
    """Write all tables with times; returns how much later the last op ends, ps."""
    start, duration = _moved(times, schedule.lines.of_op, whole.tables["ops"])
    collectives = _collectives(schedule, times, whole.tables["collectives"])
    launches = _launches(schedule, times, whole.tables["launches"])
    placed = _placed(whole, start, duration, schedule)
    pairs = _pairs(whole, collectives, placed.turn)
    busy = busy_intervals(placed.ops, collectives)
    split = split_steps(launch_spans(placed.ops), busy)
    attributed = attributed_times(placed.ops, pairs, split)
    writer.write_pieces("ops", op_pieces(placed.ops, attributed, writer.run_id, 0))
    _write_made(writer, busy, split, launches)
    writer.write("collectives", collectives)
    writer.write(TABLE, circuit_waits(times.waits, collectives, busy, split.table))
    writer.write("launches", launches)
    writer.write("phases", _phases(times, whole))
    writer.write("counters", _counters(schedule, times, whole))
    before = whole.tables["ops"]
    last = (before["start_ps"] + before["duration_ps"]).max()
    return int((start + duration).max()) - int(last) if isinstance(last, int) else 0


def _write_made(
    writer: TableWriter, busy: pl.DataFrame, split: SplitSteps, launches: pl.DataFrame
) -> None:
    writer.write("busy_intervals", busy)
    writer.write("device_steps", split.table)
    writer.write("busy_stretches", busy_stretches(split.windows, split.busy, launches))


def _at(times: Times, line: Integers, at_ps: Integers) -> Integers:
    """Replayed times of events on lines; an event without a line keeps its time."""
    moved = at_ps.copy()
    for number, warp in enumerate(times.warps):
        rows = np.flatnonzero(line == number)
        moved[rows] = warp.at(at_ps.take(rows))
    return moved


def _moved(times: Times, line: Integers, rows: pl.DataFrame) -> tuple[Integers, Integers]:
    """(start, duration) of rows."""
    start, duration = (rows[name].to_numpy() for name in ("start_ps", "duration_ps"))
    begin = _at(times, line, start)
    return begin, _at(times, line, start + duration) - begin


def _collectives(schedule: Schedule, times: Times, rows: pl.DataFrame) -> pl.DataFrame:
    line = schedule.lines.of_collective
    start, duration = _moved(times, line, rows)
    before = rows["start_ps"].to_numpy()
    end = before + rows["duration_ps"].to_numpy()
    issued = _at(times, line, before + rows["issue_ps"].fill_null(0).to_numpy()) - start
    done = _at(times, line, end - rows["wait_ps"].fill_null(0).to_numpy())
    arrival = _at(times, line, rows["arrival_ps"].to_numpy())
    return rows.with_columns(
        start_ps=pl.Series(start),
        duration_ps=pl.Series(duration),
        issue_ps=pl.when(pl.col("issue_ps").is_not_null()).then(pl.Series(issued)),
        wait_ps=pl.when(pl.col("wait_ps").is_not_null()).then(pl.Series(start + duration - done)),
        arrival_ps=pl.Series(arrival),
    )


def _launches(schedule: Schedule, times: Times, rows: pl.DataFrame) -> pl.DataFrame:
    line = schedule.lines.of_launch
    start, duration = _moved(times, line, rows)
    queued = _at(times, line, rows["enqueue_ps"].fill_null(0).to_numpy())
    queued = np.where(times.enqueue_ps == NOWHERE, queued, times.enqueue_ps)
    return rows.with_columns(
        start_ps=pl.Series(start),
        duration_ps=pl.Series(duration),
        enqueue_ps=pl.when(pl.col("enqueue_ps").is_not_null()).then(pl.Series(queued)),
    )


def _phases(times: Times, whole: Whole) -> pl.DataFrame:
    """Markers move with their host; where it is not known what that waits for, with one of its devices."""
    rows = whole.tables["phases"]
    of_host = whole.hosts
    line = rows["host"].replace_strict(
        of_host, default=min(of_host.values(), default=NOWHERE), return_dtype=pl.Int64
    )
    start = rows["start_ps"].to_numpy()
    bounds = (start, start + rows["duration_ps"].to_numpy())
    begun, over = (
        np.where(known == NOWHERE, _at(times, line.to_numpy(), at), known)
        for known, at in zip(times.marker_ps, bounds, strict=True)
    )
    return rows.with_columns(start_ps=pl.Series(begun), duration_ps=pl.Series(over - begun))


def _counters(schedule: Schedule, times: Times, whole: Whole) -> pl.DataFrame:
    rows = whole.tables["counters"]
    main = schedule.lines.main
    line = rows["device_id"].replace_strict(main, default=NOWHERE, return_dtype=pl.Int64)
    at = _at(times, line.to_numpy(), rows["start_ps"].to_numpy())
    return rows.with_columns(start_ps=pl.Series(at))


@dataclass(frozen=True)
class _Placed:
    ops: PlacedOps  # by device and start
    turn: Integers  # of each row of ops, its place among the placed ops


def _placed(whole: Whole, start: Integers, duration: Integers, schedule: Schedule) -> _Placed:
    rows = whole.tables["ops"]
    cores = schedule.run.devices.select("device_id", "core")
    core = rows.select("device_id").join(cores, on="device_id", how="left", maintain_order="left")[
        "core"
    ]
    facts = rows.drop([*_ARRAYS, *_OF_LAUNCH], strict=False).with_columns(
        on_async_line=(pl.col("line") == ASYNC_OPS_LINE).fill_null(False)
        | ((core == "sparsecore") & pl.col("is_async")),
        masked=pl.Series(masked_ops(whole)),
        communicates=pl.Series(_marked(whole, rows, "communicating")),
    )
    kinds, kind = frames.distinct(facts)
    launches, launch = frames.distinct(rows.select(_OF_LAUNCH))
    none = launches.clear(1).with_columns(launch_instance=pl.lit(None, pl.Int64))
    launches = launches.with_columns(launch_instance=pl.lit(None, pl.Int64))
    device = rows["device_id"].to_numpy()
    order = np.lexsort((start, device))
    turn = np.empty_like(order)
    turn[order] = np.arange(len(order))
    lines, line = frames.distinct(rows.select("device_id", "line"))
    del lines
    ops = PlacedOps(
        kinds=kinds,
        launches=pl.concat([launches, none.select(launches.columns)]),
        device_id=device.take(order),
        kind=kind.take(order),
        launch=launch.take(order),
        start_ps=start.take(order),
        duration_ps=duration.take(order),
        self_ps=self_times(line.take(order), start.take(order), duration.take(order)),
    )
    return _Placed(ops, turn)


def _marked(whole: Whole, rows: pl.DataFrame, category: str) -> Mask:
    """Whether each op lies within the measured intervals of a category of MARKED."""
    spans = whole.marked.filter(pl.col("category") == category)
    found = np.zeros(rows.height, np.bool_)
    works = rows["category"].is_in(["compute", "host_transfer"]).to_numpy()
    start, duration = (rows[name].to_numpy() for name in ("start_ps", "duration_ps"))
    for (device,), own in spans.group_by("device_id"):
        own = own.sort("start_ps")
        begin = own["start_ps"].to_numpy()
        end = begin + own["duration_ps"].to_numpy()
        mine = np.flatnonzero((rows["device_id"] == device).to_numpy() & works & (duration > 0))
        near = np.searchsorted(begin, start.take(mine), side="right") - 1
        inside = (near >= 0) & ((start + duration).take(mine) <= end.take(np.maximum(near, 0)))
        found[mine[inside]] = True
    return found


def _pairs(whole: Whole, collectives: pl.DataFrame, turn: Integers) -> pl.DataFrame:
    """The transfers that a start and a done op make, with the places of both among the placed ops."""
    before = whole.tables["collectives"].with_row_index("transfer")
    asynchronous = before.filter(pl.col("is_async")).with_columns(
        end_ps=pl.col("start_ps") + pl.col("duration_ps"),
    )
    ops = whole.tables["ops"].with_row_index("row").filter(pl.col("category") == "collective")
    core = ops.filter((pl.col("line") != ASYNC_OPS_LINE).fill_null(True))
    starts = core.select("device_id", "op", "start_ps", "row")
    ends = core.select(
        "device_id",
        end_ps=pl.col("start_ps") + pl.col("duration_ps"),
        wait_ps="duration_ps",
        done_row="row",
    )
    key = ["device_id", "op", "start_ps"]
    done = ["device_id", "end_ps", "wait_ps"]
    found = asynchronous.select("transfer", *key, "end_ps", "wait_ps").join(
        starts.unique(key, keep="first"), on=key
    )
    found = found.join(ends.unique(done, keep="last"), on=done)
    flight = collectives["duration_ps"].gather(found["transfer"])
    return pl.DataFrame(
        {
            "is_async": pl.Series([True] * found.height, dtype=pl.Boolean),
            "row": pl.Series(turn.take(found["row"].to_numpy())),
            "done_row": pl.Series(turn.take(found["done_row"].to_numpy())),
            "duration_ps": flight,
        }
    )


def masked_ops(whole: Whole) -> Mask:
    """Whether each op computes in a pipeline's tick for which its stage has no microbatch."""
    empty = pl.col("tick").is_not_null() & pl.col("microbatch").is_null()
    rows = whole.tables["ops"]
    masked: Mask = _marked(whole, rows, "masked") & rows.select(empty).to_series().to_numpy()
    return masked


def columns_of(table: str) -> list[str]:
    """The columns of a table without run_id."""
    return [name for name in BY_NAME[table].schema.names if name != "run_id"]
