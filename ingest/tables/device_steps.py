"""Splits each step of a device into what ran in it, once, so that summaries need no window over intervals."""

from __future__ import annotations

import numpy as np
import polars as pl

from xlahouse.ingest.events.spans import Integers, merge_spans, starts_of_runs
from xlahouse.ingest.tables.placed_ops import PlacedOps
from xlahouse.ingest.tables.stretches import STEP, Merged, inside_windows

# In the order in which an instant of several belongs to one of them.
_CLASSES = ("compute", "collective", "copy_running", "sync_wait")

_MARKED = ("prefill", "decode", "mixed")  # phases of the markers around a forward pass


def launch_spans(ops: PlacedOps) -> pl.DataFrame:
    """From the first op's start to the last one's end, on each device in each launch.

    Control ops such as while loops aside: a loop that is nothing but open does no work.

    Returns:
        device_id, request, step, phase, start_ps, end_ps; what is in no launch is a row too.
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


def split_steps(
    spans: pl.DataFrame, busy: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, Merged]:
    """What ran in each step.

    Args:
        spans: as launch_spans gives them; those of one step are joined.
        busy: the devices' busy_intervals.

    Returns:
        the table device_steps without run_id, by device and start, and what busy_stretches needs: the
        steps with their windows, and the merged times in which any of the classes runs.
    """
    steps = _windows(spans)
    split, merged = _split(steps, busy)
    return split, steps, merged


def _split(steps: pl.DataFrame, busy: pl.DataFrame) -> tuple[pl.DataFrame, Merged]:
    """(device_steps, the merged times in which any of the classes runs)."""
    number, start, duration, of_interval = inside_windows(steps, busy)
    category = busy["category"]
    kinds = {name: (category == name).to_numpy().take(of_interval) for name in _CLASSES}
    alone = {}
    for name, mask in kinds.items():
        of = np.flatnonzero(mask)
        alone[name] = _sums(number.take(of), duration.take(of), steps.height)
    reached = np.zeros(len(number), np.bool_)
    merged = (number[:0], start[:0], duration[:0])
    unions = []  # time in which one of the classes up to this one runs
    for mask in kinds.values():
        if mask.any():
            reached |= mask
            rows = np.flatnonzero(reached)
            merged = merge_spans(*(each.take(rows) for each in (number, start, duration)))
        unions.append(_sums(merged[0], merged[2], steps.height))
    _, to_transfer, to_copy, to_wait = unions
    split = steps.drop("number", "end_ps").with_columns(
        compute_ps=pl.Series(alone["compute"]),
        collective_ps=pl.Series(alone["collective"]),
        overlapped_ps=pl.Series(alone["compute"] + alone["collective"] - to_transfer),
        copy_ps=pl.Series(alone["copy_running"]),
        exposed_copy_ps=pl.Series(to_copy - to_transfer),
        sync_wait_ps=pl.Series(to_wait - to_copy),
    )
    return split, merged


def _windows(spans: pl.DataFrame) -> pl.DataFrame:
    """The steps with their windows, each cut where the device's next step starts.

    Ops outside every step make no window, unless the device has no step at all.
    """
    start, end, phase = pl.col("start_ps"), pl.col("end_ps"), pl.col("phase")
    words = (
        spans["phase"].unique().drop_nulls().sort()
    )  # whose places compare as they do, but quickly
    marked = phase.is_in(_MARKED)
    coded = spans.with_columns(
        phase=phase.cast(pl.Enum(words)).to_physical(),
        pass_start_ps=pl.when(marked).then(start),
        pass_end_ps=pl.when(marked).then(end),
    )
    stepping = spans.filter(pl.col("step").is_not_null())["device_id"].unique()
    has_steps = pl.col("device_id").is_in(stepping.implode())
    of_device = pl.col("device_id") == pl.col("device_id").shift(-1)
    joined = (
        coded.group_by(STEP)
        .agg(phase.min(), phase.max().alias("last_phase"), start.min(), end.max(),
             pl.col("pass_start_ps").min(), pl.col("pass_end_ps").max())
        .filter(pl.col("step").is_not_null() | ~has_steps)
        .sort("device_id", "start_ps", "end_ps", "request", "step", nulls_last=True)
    )  # fmt: skip
    several = joined["phase"] != joined["last_phase"]
    return (
        joined.with_columns(phase=words.gather(joined["phase"]))
        .with_columns(
            phase=pl.when(several).then(pl.lit("mixed")).otherwise(phase),
            end_ps=pl.min_horizontal(end, pl.when(of_device).then(start.shift(-1))),
        )
        .with_columns(duration_ps=end - start)
        .drop("last_phase")
        .with_row_index("number")
    )


def _sums(number: Integers, duration: Integers, count: int) -> Integers:
    """The durations of each number from 0 to `count`, added up exactly."""
    if len(number) and (np.diff(number) >= 0).all():
        until = np.concatenate(([0], np.cumsum(duration)))
        sums: Integers = np.diff(until[np.searchsorted(number, np.arange(count + 1))])
        return sums
    sums = np.zeros(count, np.int64)
    np.add.at(sums, number, duration)
    return sums
