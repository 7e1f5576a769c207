"""Finds executions on different devices that belong together (METRICS, Terms)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers, Mask
from xlahouse.ingest.events.packing import Packing

EXECUTIONS_AT_ONCE = 1 << 20


def number_instances(rows: pl.DataFrame, key: list[str]) -> pl.Series:
    """Number the instances of executions.

    Per key, all devices' executions are ordered by start; a new instance begins where a device would
    repeat, or at a start at or after the earliest end so far.

    Args:
        rows: device_id, start_ps, duration_ps and the key's columns.
        key: columns that identify the program or op.

    Returns:
        One number a row, in the order of `rows`.
    """
    distinct = rows.select(key).unique()
    ranked = distinct.with_columns(code=pl.struct(key).rank("dense").cast(pl.Int64))
    code = rows.join(ranked, on=key, how="left", nulls_equal=True, maintain_order="left")["code"]
    device, start, duration = (
        rows[name].to_numpy() for name in ("device_id", "start_ps", "duration_ps")
    )
    order, begins = _ordered(code.to_numpy(), device, start, start + duration)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(begins) - 1
    return pl.Series("instance", numbers)


def number_by_start(key: Integers, device: Integers, start: Integers, end: Integers) -> Integers:
    """As number_instances, from arrays; instances are numbered by their first start."""
    order, begins = _ordered(key, device, start, end)
    rank = np.empty(int(begins.sum()), np.int64)
    rank[np.argsort(start[order[begins]], kind="stable")] = np.arange(len(rank))
    numbers = np.empty(len(order), np.int64)
    numbers[order] = rank[np.cumsum(begins) - 1]
    return numbers


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


def by_first_start(rows: pl.DataFrame, instance: str) -> pl.DataFrame:
    """Renumber instances, numbered from 0, in order of their first start, so that numbers read as time."""
    numbers, start = rows[instance].to_numpy(), rows["start_ps"].to_numpy()
    first = np.full(int(numbers.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(first, numbers, start)
    rank = np.empty_like(first)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    return rows.with_columns(pl.Series(instance, rank[numbers]))
