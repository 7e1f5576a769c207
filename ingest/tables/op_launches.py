"""Finds the launch that each op ran in: by the reader's key, by time, by program where launches overlap."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xlahouse.ingest.events.op_events import OpEvents
from xlahouse.ingest.events.spans import latest_open, overlap, starts_of_runs

Integers = NDArray[np.int64]


def launch_rows(ops: OpEvents, launches: pl.DataFrame) -> Integers:
    """Row of each op's launch, by the reader's own key, else by containment; -1 for none."""
    found = np.full(ops.events.height, -1)
    keyed = ops.events["launch_key"].is_not_null().to_numpy()
    if keyed.any():
        found[keyed] = _rows_by_key(ops, launches, keyed)
    if keyed.all():
        return found
    device, start = (ops.events[name].to_numpy() for name in ("device_id", "start_ps"))
    free = np.flatnonzero(~keyed)
    of_device, opened = launches["device_id"].to_numpy(), launches["start_ps"].to_numpy()
    until = opened + launches["duration_ps"].to_numpy()
    starts = start[free]
    for first, last in _slices(device[free]):
        number = device[free[first]]
        low, high = (np.searchsorted(of_device, number, side) for side in ("left", "right"))
        if overlap(opened[low:high], until[low:high]):
            at = free[first:last]
            found[at] = _rows_among(ops, launches[low:high], at, start[at], int(low))
            continue
        # Ops are in order, so it takes less to look for launches among them than the other way round.
        begins = np.searchsorted(starts[first:last], opened[low:high])
        latest = np.repeat(
            np.arange(low - 1, high), np.diff(begins, prepend=0, append=last - first)
        )
        later = np.flatnonzero(latest >= low)
        of = latest.take(later)
        inside = np.flatnonzero(starts[first:last].take(later) < until.take(of))
        found[free[first:last].take(later.take(inside))] = of.take(inside)
    return found


def _rows_among(
    ops: OpEvents, launches: pl.DataFrame, at: Integers, start: Integers, first: int
) -> Integers:
    """Row of the launch of each of a device's ops, of launches that overlap; -1 for none.

    Of those that are open when an op starts it is the latest one of the op's own program; where none is,
    or no program is known, the latest one.

    Args:
        ops: the ops, of which those `at` these places are looked for.
        launches: of the device.
        start: of each of the ops.
        first: row of the first launch among all.
    """
    opened = launches["start_ps"].to_numpy()
    until = opened + launches["duration_ps"].to_numpy()
    found = latest_open(opened, until, start)
    own = ops.kinds["program_id"].gather(ops.events["kind"].cast(pl.Int64)[at])
    of_launch = pl.concat([launches["program_id"], pl.Series([None], dtype=pl.UInt64)])
    others = np.flatnonzero((own != of_launch.gather(found % len(of_launch))).fill_null(False))
    for program in own[others].unique():
        mine = others[(own[others] == program).to_numpy()]
        of_program = np.flatnonzero((launches["program_id"] == program).fill_null(False))
        place = latest_open(opened[of_program], until[of_program], start[mine])
        of_op = np.append(of_program, -1)[place]
        found[mine] = np.where(of_op >= 0, of_op, found[mine])
    return np.where(found >= 0, found + first, -1)


def _slices(sorted_numbers: Integers) -> Iterator[tuple[int, int]]:
    """(first, last) of the places of each number."""
    bounds = [*starts_of_runs(sorted_numbers).tolist(), len(sorted_numbers)]
    return pairwise(bounds)


def _rows_by_key(ops: OpEvents, launches: pl.DataFrame, keyed: NDArray[np.bool_]) -> Integers:
    key = ["device_id", "launch_key", "program_id"]
    programs = ops.kinds["program_id"].gather(ops.events["kind"].cast(pl.Int64))
    wanted = ops.events.select("device_id", "launch_key", program_id=programs).filter(keyed)
    known = launches.select(key).with_row_index("row").unique(key, keep="first")
    rows = wanted.join(known, on=key, how="left", nulls_equal=True, maintain_order="left")["row"]
    return rows.cast(pl.Int64).fill_null(-1).to_numpy()
