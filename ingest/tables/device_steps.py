"""Splits each step of a device into times by class, once, so that summaries need no window over intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers, Mask
from xlahouse.ingest.events.spans import KeyedSpans, merge_spans, starts_of_runs
from xlahouse.ingest.tables.placed_ops import PlacedOps
from xlahouse.ingest.tables.stretches import DEVICE_STEP, inside_windows

# An instant in which several run belongs to the first of them.
CLASSES = ("compute", "collective", "copy_running", "sync_wait")

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
    unions: dict[
        str, KeyedSpans
    ]  # by class: merged times in which it or one before it runs, by number

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
