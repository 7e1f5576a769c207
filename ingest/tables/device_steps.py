"""Splits each step of a device into times by class and by op, once, so that summaries need no windows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers, Mask
from xlahouse.ingest.events.spans import KeyedSpans, filled, merge_spans, shares, starts_of_runs
from xlahouse.ingest.tables.busy import ON_CORE, RULES
from xlahouse.ingest.tables.placed_ops import PlacedOps
from xlahouse.ingest.tables.stretches import DEVICE_STEP, inside_windows

# An instant in which several run belongs to the first of them.
CLASSES = ("compute", "collective", "copy_running", "sync_wait")

OUTSIDE = -1  # of an op without a step's window: its time is in no step

_MARKED = ("prefill", "decode", "mixed")  # phases of the markers around a forward pass


def launch_spans(ops: PlacedOps) -> pl.DataFrame:
    """From the first op's start to the last one's end, on each device in each launch.

    Control ops do not count: an open while loop does no work by itself.

    Returns:
        device_id, request, step, phase, start_ps, end_ps; ops outside every launch have rows too.
    """
    rows = np.flatnonzero(ops.of_kinds(pl.col("category") != "control"))
    device, launch, start = (each.take(rows) for each in (ops.device_id, ops.launch, ops.start_ps))
    end = start + ops.duration_ps.take(rows)
    first = starts_of_runs(device, launch)
    spans = (
        pl.DataFrame(
            {
                "device_id": device[first],
                "launch": launch[first],
                "start_ps": np.minimum.reduceat(start, first) if len(first) else start,
                "end_ps": np.maximum.reduceat(end, first) if len(first) else end,
            }
        )
        .group_by("device_id", "launch")
        .agg(pl.col("start_ps").min(), pl.col("end_ps").max())
    )
    of_launch = ops.launches.select("request", "step", pl.col("phase").cast(pl.String))
    return pl.concat([spans.drop("launch"), of_launch[spans["launch"]]], how="horizontal")


class SplitSteps(NamedTuple):
    """The steps of some devices, with the inputs of busy_stretches."""

    table: pl.DataFrame  # device_steps without run_id, by device and start
    windows: pl.DataFrame  # number, device_id, request, step, start_ps, end_ps of each step
    # by class: merged times in which it or one before it runs, by number
    unions: dict[str, KeyedSpans]

    @property
    def busy(self) -> KeyedSpans:
        """Merged times in which any class runs, by number of the step."""
        return self.unions[CLASSES[-1]]


def split_steps(spans: pl.DataFrame, busy: pl.DataFrame) -> SplitSteps:
    """Split steps into the times of the classes.

    Args:
        spans: as launch_spans gives them; those of one step are joined.
        busy: the devices' busy_intervals.
    """
    windows = _windows(spans)
    inside = inside_windows(windows, busy)
    category = busy["category"]
    is_of = {name: (category == name).to_numpy().take(inside.interval) for name in CLASSES}
    kernels = np.flatnonzero((category == "communicating").to_numpy().take(inside.interval))
    alone = {
        name: _sums(inside.spans.take(np.flatnonzero(mask)), windows.height)
        for name, mask in is_of.items()
    }
    unions = _unions(inside.spans, is_of)
    union = {name: _sums(merged, windows.height) for name, merged in unions.items()}
    table = windows.drop("number", "end_ps").with_columns(
        compute_ps=pl.Series(alone["compute"]),
        collective_ps=pl.Series(alone["collective"]),
        overlapped_ps=pl.Series(alone["compute"] + alone["collective"] - union["collective"]),
        copy_ps=pl.Series(alone["copy_running"]),
        exposed_copy_ps=pl.Series(union["copy_running"] - union["collective"]),
        sync_wait_ps=pl.Series(union["sync_wait"] - union["copy_running"]),
        communicating_ps=pl.Series(_sums(inside.spans.take(kernels), windows.height)),
    )
    return SplitSteps(table, windows, unions)


def _unions(spans: KeyedSpans, is_of: dict[str, Mask]) -> dict[str, KeyedSpans]:
    """Of each class, the merged times in which it or one before it runs.

    Args:
        spans: of all classes.
        is_of: by class, in order, whether each span is of it.
    """
    reached = np.zeros(len(spans.key), np.bool_)
    merged = spans.take(np.flatnonzero(reached))
    unions = {}
    for name, mask in is_of.items():
        if mask.any():
            reached |= mask
            merged = merge_spans(*spans.take(np.flatnonzero(reached)))
        unions[name] = merged
    return unions


def _windows(spans: pl.DataFrame) -> pl.DataFrame:
    """The steps with their windows, each cut where the device's next step starts.

    Ops outside every step make no window, unless the device has no step at all.
    """
    start, end = pl.col("start_ps"), pl.col("end_ps")
    stepping = spans.filter(pl.col("step").is_not_null())["device_id"].unique()
    has_steps = pl.col("device_id").is_in(stepping.implode())
    next_start = pl.when(pl.col("device_id") == pl.col("device_id").shift(-1)).then(start.shift(-1))
    return (
        _joined(spans)
        .filter(pl.col("step").is_not_null() | ~has_steps)
        .sort("device_id", "start_ps", "end_ps", "request", "step", nulls_last=True)
        .with_columns(end_ps=pl.min_horizontal(end, next_start))
        .with_columns(duration_ps=end - start)
        .with_row_index("number")
    )


def _joined(spans: pl.DataFrame) -> pl.DataFrame:
    """One row a step: from the first start to the last end, of all its launches and of the marked ones."""
    start, end, phase = pl.col("start_ps"), pl.col("end_ps"), pl.col("phase")
    words = spans["phase"].unique().drop_nulls().sort()
    marked = phase.is_in(_MARKED)
    # Places among the sorted words compare as the words do, but quickly.
    coded = spans.with_columns(
        phase=phase.cast(pl.Enum(words)).to_physical(),
        pass_start_ps=pl.when(marked).then(start),
        pass_end_ps=pl.when(marked).then(end),
    )
    joined = coded.group_by(DEVICE_STEP).agg(
        phase.min(),
        phase.max().alias("last_phase"),
        start.min(),
        end.max(),
        pl.col("pass_start_ps").min(),
        pl.col("pass_end_ps").max(),
    )
    several = pl.col("phase") != pl.col("last_phase")
    return joined.with_columns(
        phase=pl.when(several).then(pl.lit("mixed")).otherwise(words.gather(joined["phase"]))
    ).drop("last_phase")


def _sums(spans: KeyedSpans, count: int) -> Integers:
    """The durations of each key from 0 to below `count`, added up exactly."""
    if len(spans.key) and (np.diff(spans.key) >= 0).all():
        until = np.concatenate(([0], np.cumsum(spans.duration_ps)))
        sums: Integers = np.diff(until[np.searchsorted(spans.key, np.arange(count + 1))])
        return sums
    sums = np.zeros(count, np.int64)
    np.add.at(sums, spans.key, spans.duration_ps)
    return sums


def attributed_times(ops: PlacedOps, transfers: pl.DataFrame, split: SplitSteps) -> Integers:
    """The time of its step that belongs to each op; OUTSIDE for one without a step.

    An instant belongs to the first class that applies, as in device_steps, and in equal parts to the
    class's ops that then run; a remainder of picoseconds goes to the one that started first. The time
    in flight of an async collective is its start op's, and its done op has none. Control ops have
    none, nor does the line that shows async copies in flight a second time.

    Args:
        ops: of some devices.
        transfers: their collectives, as find_transfers gives them.
        split: their steps.
    """
    line = _Line.of(ops, split.windows)
    took = np.where(line.window < split.windows.height, 0, OUTSIDE)
    masks = ops.of_each({"on_core": ON_CORE} | {name: RULES[name] for name in CLASSES})
    on_core = next(masks)
    duration = _claimed(ops, transfers)
    before: KeyedSpans | None = None
    for name, mask in zip(CLASSES, masks, strict=True):
        rows = np.flatnonzero(on_core & mask & (duration > 0))
        start = ops.start_ps.take(rows)
        begin, end = line.between(rows, start, start + duration.take(rows))
        if before is not None:
            free = _Free.of(line, before)
            begin, end = free.at(begin), free.at(end)
        left = np.flatnonzero(end > begin)
        took[rows.take(left)] = shares(begin.take(left), end.take(left))
        before = split.unions[name]
    return took


def _claimed(ops: PlacedOps, transfers: pl.DataFrame) -> Integers:
    """How long each op may claim time from its start on: its duration, or its time in flight."""
    pairs = transfers.filter(pl.col("is_async")) if transfers.height else transfers
    if pairs.is_empty():
        return ops.duration_ps
    claimed = ops.duration_ps.copy()
    start, done, flight = (pairs[name].to_numpy() for name in ("row", "done_row", "duration_ps"))
    claimed[start] = np.maximum(claimed[start], flight)
    claimed[done] = 0
    return claimed


class _Line(NamedTuple):
    """All windows laid one after the other: times in different steps and devices are apart on it."""

    window: Integers  # row of the window of each op; the last row, an empty window, for none
    open_ps: Integers  # of each window
    close_ps: Integers  # of each window
    moved_ps: Integers  # what is added to a time in the window to make it a place on the line

    @classmethod
    def of(cls, ops: PlacedOps, windows: pl.DataFrame) -> _Line:
        """The line, with the window of each op."""
        first = starts_of_runs(ops.device_id, ops.launch)
        step = ops.launches.select("request", "step")[ops.launch.take(first)]
        key = pl.DataFrame({"device_id": ops.device_id.take(first)}).hstack(step)
        number = windows.select(*DEVICE_STEP, "number")
        runs = key.join(
            number, on=DEVICE_STEP, how="left", nulls_equal=True, maintain_order="left"
        )["number"]
        window = filled(runs.cast(pl.Int64), windows.height)
        opens, closes = (windows[name].to_numpy() for name in ("start_ps", "end_ps"))
        place = np.concatenate(([0], np.cumsum(closes - opens)))
        opens, closes = np.append(opens, 0), np.append(closes, 0)
        counts = np.diff(first, append=len(ops.launch))
        return cls(np.repeat(window, counts), opens, closes, place - opens)

    def between(self, rows: Integers, start: Integers, end: Integers) -> tuple[Integers, Integers]:
        """The places of the parts of ops in their windows; without a part, the end is not later."""
        window = self.window.take(rows)
        moved = self.moved_ps.take(window)
        begin = np.maximum(start, self.open_ps.take(window)) + moved
        return begin, np.minimum(end, self.close_ps.take(window)) + moved


class _Free(NamedTuple):
    """A line without the spans that are taken: places on it count free time only."""

    starts: Integers  # of the taken spans, ascending
    ends: Integers  # of the same spans
    taken: Integers  # time in the spans before each

    @classmethod
    def of(cls, line: _Line, spans: KeyedSpans) -> _Free:
        """The line without merged spans, by number of the window and start."""
        starts = spans.start_ps + line.moved_ps.take(spans.key)
        taken = np.concatenate(([0], np.cumsum(spans.duration_ps)))
        return cls(starts, starts + spans.duration_ps, taken)

    def at(self, places: Integers) -> Integers:
        """The free time before each place."""
        if not len(self.starts):
            return places
        after = np.searchsorted(self.starts, places, side="right")
        over = np.maximum(self.ends.take(np.maximum(after - 1, 0)) - places, 0)
        free: Integers = places - self.taken.take(after) + np.where(after > 0, over, 0)
        return free
