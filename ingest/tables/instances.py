"""Finds executions on different devices that belong together (METRICS, Terms)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers, Mask
from xlahouse.ingest.events.frames import distinct
from xlahouse.ingest.events.packing import Packing
from xlahouse.ingest.events.turns import Turns, find_turns

EXECUTIONS_AT_ONCE = 1 << 20
CIRCLE = "circle"  # devices that meet in collectives of a program: the least of them
_MET = "met"


def number_instances(rows: pl.DataFrame, key: list[str]) -> tuple[pl.Series, pl.Series]:
    """Number the instances of executions.

    Per key, all devices' executions are ordered by start; a new instance begins where a device would
    repeat, or at a start at or after the earliest end so far. But where all devices execute it equally
    often, each k-th time within half a period, the k-th executions are one instance (turns.py).
    Devices of one circle, which meet in the key's collectives, are put together first, and then the
    circles as if each were a device: replicas that run apart do not tear those that meet asunder.

    Args:
        rows: device_id, start_ps, duration_ps, circle, and the key's columns.
        key: columns that identify the program or op.

    Returns:
        A number of each row's instance within its circle, and of the whole one, in the order of `rows`.
    """
    met = rows.with_columns(_one_level(rows, [*key, CIRCLE]).alias(_MET))
    start = pl.col("start_ps").min()
    circles = met.group_by(_MET, *key, pl.col(CIRCLE).alias("device_id"), maintain_order=True).agg(
        start, duration_ps=(pl.col("start_ps") + pl.col("duration_ps")).min() - start
    )
    numbered = circles.select(_MET, _one_level(circles, key))
    whole = met.select(_MET).join(numbered, on=_MET, how="left", maintain_order="left")
    return met[_MET], whole["instance"]


def _one_level(rows: pl.DataFrame, key: list[str]) -> pl.Series:
    found, place = distinct(rows[key])
    rank = pl.struct(key).rank("dense").cast(pl.Int64)
    codes = found.select(rank).to_series().to_numpy()[place]
    device, start, duration = (
        rows[name].to_numpy() for name in ("device_id", "start_ps", "duration_ps")
    )
    end = start + duration
    turns = find_turns(codes, device, start, end)
    numbers = _numbered(turns, turns.lag_little(start), device, start, end)
    return pl.Series("instance", numbers)


def number_transfers(rows: pl.DataFrame) -> Integers:
    """Number the instances of collectives in order of their first start.

    Args:
        rows: op, group, sequence, within (launch instance; NULL outside launches), device, start, end.
    """
    key = _packed(rows, ("op", "group", "within", "sequence"))
    device, start, end = (rows[name].to_numpy() for name in ("device", "start", "end"))
    turns = find_turns(key, device, start, end)
    named = np.zeros(len(turns.most), bool)
    placed = rows["within"].is_not_null() | rows["sequence"].is_not_null()
    named[turns.key[placed.to_numpy()]] = True
    numbers = _numbered(turns, turns.alike & named, device, start, end)
    return _by_first_start(numbers, start)


def _numbered(
    turns: Turns, in_turn: Mask, device: Integers, start: Integers, end: Integers
) -> Integers:
    """Number of each row's instance: in turn for the keys of `in_turn`, by time for the others."""
    numbers = turns.numbers(in_turn)
    apart = np.flatnonzero(~in_turn[turns.key])
    if len(apart):
        order, begins = _ordered(turns.key[apart], device[apart], start[apart], end[apart])
        numbers[apart[order]] = turns.most[in_turn].sum() + np.cumsum(begins) - 1
    return numbers


def _packed(rows: pl.DataFrame, names: Sequence[str]) -> Integers:
    """Columns of whole numbers as one number; NULL is a value like another."""
    columns = [_from_zero(rows[name]) for name in names]
    packing = Packing(tuple(int(column.max(initial=0)) + 1 for column in columns))
    if packing.bound < 1 << 62:
        return packing.pack(*columns)
    return rows.select(pl.struct(names).rank("dense")).to_series().cast(pl.Int64).to_numpy()


def _from_zero(column: pl.Series) -> Integers:
    """Numbers less the least one, NULL as 0 and each other one higher where there is a NULL."""
    column = column.cast(pl.Int64)
    least = column.min()
    if not isinstance(least, int):
        return np.zeros(len(column), np.int64)
    if not column.null_count():
        return (column - least).to_numpy()
    return (column - least + 1).fill_null(0).to_numpy()


def _ordered(
    key: Integers, device: Integers, start: Integers, end: Integers
) -> tuple[Integers, Mask]:
    """(the order of executions by key and start; whether an instance begins at each, in that order)."""
    order = np.lexsort((end, device, start, key))
    begins = np.zeros(len(order), bool)
    keys = key[order]
    for first, last in _some_keys(keys):
        at = order[first:last]
        begins[first:last] = _begins(keys[first:last], device[at], start[at], end[at])
    return order, begins


def _some_keys(keys: Integers) -> Iterator[tuple[int, int]]:
    """Slices of whole keys, of about EXECUTIONS_AT_ONCE executions or one key each, to bound memory."""
    bounds = [*np.flatnonzero(np.diff(keys, prepend=keys[:1] - 1)).tolist(), len(keys)]
    first = 0
    for bound, following in pairwise(bounds):
        if following - first > EXECUTIONS_AT_ONCE and bound > first:
            yield first, bound
            first = bound
    yield first, len(keys)


def _begins(key: Integers, device: Integers, start: Integers, end: Integers) -> Mask:
    """Whether an instance begins at an execution, of executions ordered by key and start.

    From every execution on, the next instance would begin at the same place as from the one after it or
    sooner; so all places are computed at once, then followed from instance to instance.
    """
    count = len(key)
    begins = np.zeros(count, bool)
    if not count:
        return begins
    following = np.minimum(_next_of_device(key, device), _first_after(key, start, end))
    following = np.minimum.accumulate(following[::-1])[::-1]
    nexts = following.tolist()
    at = 0
    found = []
    while at < count:
        found.append(at)
        at = nexts[at]
    begins[found] = True
    return begins


def _next_of_device(key: Integers, device: Integers) -> Integers:
    """Place of the next execution of the same key on the same device; the count where there is no other."""
    count = len(key)
    following = np.full(count, count)
    devices, places = np.unique(device, return_inverse=True)
    packing = Packing((int(key.max(initial=0)) + 1, len(devices)))
    lane = packing.pack(key, places)
    order = np.argsort(lane, kind="stable")
    same = np.flatnonzero(np.diff(lane[order]) == 0)
    following[order[same]] = order[same + 1]
    return following


def _first_after(key: Integers, start: Integers, end: Integers) -> Integers:
    """Place of the first later execution of another key, or that starts at or after an execution's end."""
    first, keys = int(start.min()), int(key[-1]) + 1
    packing = Packing((keys, int(end.max()) - first + 1))
    if packing.bound >= 1 << 62:  # too far apart to pack: ranks compare alike
        _, ranks = np.unique(np.concatenate((start, end)), return_inverse=True)
        start, end = np.split(ranks, 2)
        first, packing = 0, Packing((keys, len(ranks)))
    # A key's times follow those of the key before it.
    found = np.searchsorted(packing.pack(key, start - first), packing.pack(key, end - first))
    later: Integers = np.maximum(found, np.arange(len(key)) + 1)
    return later


def by_first_start(launches: pl.DataFrame, instance: str) -> pl.DataFrame:
    """Renumber instances in order of their first start, so that numbers read as time.

    Instances that start together follow each other by program, end and device, so that the order of
    planes in a trace does not matter.
    """
    first = launches.group_by(instance).agg(
        start_ps=pl.col("start_ps").min(),
        program_id=pl.col("program_id").min(),
        end_ps=(pl.col("start_ps") + pl.col("duration_ps")).max(),
        device_id=pl.col("device_id").min(),
    )
    ranked = first.sort("start_ps", "program_id", "end_ps", "device_id").select(
        instance, rank=pl.int_range(pl.len())
    )
    joined = launches.select(instance).join(ranked, on=instance, how="left", maintain_order="left")
    return launches.with_columns(joined["rank"].alias(instance))


def _by_first_start(numbers: Integers, start: Integers) -> Integers:
    first = np.full(int(numbers.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, numbers, start)
    rank = np.empty_like(first)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    ranked: Integers = rank[numbers]
    return ranked
