"""Finds the launch that each op ran in: by the reader's key, by time, by program where launches overlap."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers, Mask
from xlahouse.ingest.events.op_events import OpEvents
from xlahouse.ingest.events.spans import latest_open, overlap, starts_of_runs


class _DeviceLaunches(NamedTuple):
    """Launches of one device, by start: columns of one length."""

    first_row: int  # among the launches of all devices
    start_ps: Integers  # of each launch
    end_ps: Integers  # of each launch
    program_id: pl.Series  # of each launch; NULL where unknown

    @classmethod
    def of(cls, launches: pl.DataFrame, device: int) -> _DeviceLaunches:
        """Those of a device, of launches by device and start."""
        devices = launches["device_id"].to_numpy()
        low, high = (int(np.searchsorted(devices, device, side)) for side in ("left", "right"))
        mine = launches[low:high]
        start = mine["start_ps"].to_numpy()
        return cls(low, start, start + mine["duration_ps"].to_numpy(), mine["program_id"])


def launch_rows(ops: OpEvents, launches: pl.DataFrame) -> Integers:
    """Row of each op's launch, by the reader's own key, else by containment; -1 for none.

    Args:
        ops: by device and start.
        launches: by device and start.
    """
    found = np.full(ops.events.height, -1)
    keyed = ops.events["launch_key"].is_not_null().to_numpy()
    if keyed.any():
        found[keyed] = _rows_by_key(ops, launches, keyed)
    if keyed.all():
        return found
    device, start = (ops.events[name].to_numpy() for name in ("device_id", "start_ps"))
    free = np.flatnonzero(~keyed)
    for first, last in _slices(device[free]):
        at = free[first:last]
        of_device = _DeviceLaunches.of(launches, device[at[0]])
        if overlap(of_device.start_ps, of_device.end_ps):
            places = _latest_of_program(of_device, start[at], _programs_of(ops, at))
        else:
            places = _containing(of_device, start[at])
        found[at] = np.where(places >= 0, places + of_device.first_row, -1)
    return found


def _containing(launches: _DeviceLaunches, start: Integers) -> Integers:
    """Place of the launch that each op starts in, of launches that do not overlap; -1 for none.

    Args:
        launches: of the ops' device.
        start: of the ops, ascending.
    """
    # There are fewer launches than ops, so it is launches that are searched among ops.
    begins = np.searchsorted(start, launches.start_ps)
    latest = np.repeat(np.arange(-1, len(begins)), np.diff(begins, prepend=0, append=len(start)))
    end = np.append(launches.end_ps, np.iinfo(np.int64).min)  # of none, at place -1
    return np.where(start < end.take(latest), latest, -1)


def _programs_of(ops: OpEvents, at: Integers) -> pl.Series:
    """Program of each of the ops at these places; NULL where it is not known."""
    return ops.kinds["program_id"].gather(ops.events["kind"].cast(pl.Int64)[at])


def _latest_of_program(launches: _DeviceLaunches, start: Integers, program: pl.Series) -> Integers:
    """Place of the launch that each op starts in, of launches that overlap; -1 for none.

    Of the launches that are open when an op starts it is the latest one of the op's own program; where
    there is no such launch, or no program is known, the latest one.

    Args:
        launches: of the ops' device.
        start: of the ops.
        program: of the ops.
    """
    found = latest_open(launches.start_ps, launches.end_ps, start)
    of_launch = pl.concat([launches.program_id, pl.Series([None], dtype=pl.UInt64)])
    others = np.flatnonzero((program != of_launch.gather(found % len(of_launch))).fill_null(False))
    for number in program[others].unique():
        mine = others[(program[others] == number).to_numpy()]
        its = np.flatnonzero((launches.program_id == number).fill_null(False))
        place = latest_open(launches.start_ps[its], launches.end_ps[its], start[mine])
        of_op = np.append(its, -1)[place]
        found[mine] = np.where(of_op >= 0, of_op, found[mine])
    return found


def _slices(sorted_numbers: Integers) -> Iterator[tuple[int, int]]:
    """(first, last) of the places of each number."""
    bounds = [*starts_of_runs(sorted_numbers).tolist(), len(sorted_numbers)]
    return pairwise(bounds)


def _rows_by_key(ops: OpEvents, launches: pl.DataFrame, keyed: Mask) -> Integers:
    """The launch of an op's key and program, else of its key and no program: a step runs many programs."""
    key = ["device_id", "launch_key", "program_id"]
    programs = ops.kinds["program_id"].gather(ops.events["kind"].cast(pl.Int64))
    wanted = ops.events.select("device_id", "launch_key", program_id=programs).filter(keyed)
    known = launches.select(key).with_row_index("row").unique(key, keep="first")
    rows = _matching(wanted, known, key)
    of_steps = known.filter(pl.col("program_id").is_null())
    if not of_steps.is_empty():
        rows = rows.fill_null(_matching(wanted, of_steps, key[:2]))
    return rows.cast(pl.Int64).fill_null(-1).to_numpy()


def _matching(wanted: pl.DataFrame, known: pl.DataFrame, key: list[str]) -> pl.Series:
    return wanted.join(known, on=key, how="left", nulls_equal=True, maintain_order="left")["row"]
