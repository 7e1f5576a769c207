"""Intervals: their union by key, and the span of many."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xlahouse.ingest.events.arrays import Integers


class KeyedSpans(NamedTuple):
    """Intervals: columns of one length."""

    key: Integers  # number from 0 of the interval's owner, such as a step
    start_ps: Integers  # of each interval
    duration_ps: Integers  # of each interval

    def take(self, rows: Integers) -> KeyedSpans:
        """The intervals in these rows."""
        return KeyedSpans(*(column.take(rows) for column in self))


def joined(*parts: KeyedSpans) -> KeyedSpans:
    """The intervals of all parts, one part after the other."""
    return KeyedSpans(*map(np.concatenate, zip(*parts, strict=True)))


def merge_spans(key: Integers, start_ps: Integers, duration_ps: Integers) -> KeyedSpans:
    """The merged intervals, by key and start.

    Half-open intervals of one key that overlap or touch become one.

    Args:
        key: a number from 0 of each interval.
        start_ps: start of each; intervals by key and start are faster.
        duration_ps: duration of each.
    """
    if not len(key):
        return KeyedSpans(key, start_ps, duration_ps)
    key, duration_ps, start_ps = in_order(key, duration_ps, start_ps)
    start, end = start_ps, start_ps + duration_ps
    same = key[1:] == key[:-1]
    latest = end
    if (same & (end[1:] < end[:-1])).any():  # one lies inside another: carry the latest end on
        latest = _running_latest(key, end)
    begins = np.concatenate(([True], ~same | (start[1:] > latest[:-1])))
    first = np.flatnonzero(begins)
    last = np.concatenate((first[1:], [len(key)])) - 1
    begin = start.take(first)
    return KeyedSpans(key.take(first), begin, latest.take(last) - begin)


def _running_latest(key: Integers, end: Integers) -> Integers:
    """Of each interval, the latest end of its key so far.

    Ranks of ends, moved apart by key, so that one running maximum starts again at each key.
    """
    by_end = np.argsort(end, kind="stable")
    rank = np.empty_like(by_end)
    rank[by_end] = np.arange(len(end))
    number = np.concatenate(([0], np.cumsum(key[1:] != key[:-1])))
    reached = np.maximum.accumulate(number * len(end) + rank) - number * len(end)
    latest: Integers = end.take(by_end.take(reached))
    return latest


def starts_of_runs(*columns: Integers) -> Integers:
    """Where runs of equal rows begin, of columns of one length.

    Sorted rows have long runs, so a lookup by these columns is needed only once a run.
    """
    changes = np.zeros(max(len(columns[0]) - 1, 0), np.bool_)
    for column in columns:
        changes |= column[1:] != column[:-1]
    inner = np.flatnonzero(changes) + 1
    return np.concatenate((np.zeros(min(len(columns[0]), 1), np.int64), inner))


def in_order(
    number: Integers, other: Integers, start_ps: Integers
) -> tuple[Integers, Integers, Integers]:
    """Rows by number and start; rows that are in order already, as is usual, are not copied."""
    step = np.diff(number)
    if ((step < 0) | ((step == 0) & (np.diff(start_ps) < 0))).any():
        order = np.lexsort((start_ps, number))
        return number.take(order), other.take(order), start_ps.take(order)
    return number, other, start_ps


def filled(numbers: pl.Series, unknown: int) -> NDArray[Any]:
    """The values of a column of numbers or truths, with `unknown` in place of NULL."""
    nulls = numbers.null_count()
    if nulls == len(numbers):
        return np.full(nulls, unknown)
    return (numbers.fill_null(unknown) if nulls else numbers).to_numpy()


def span_of(table: pl.DataFrame) -> tuple[int, int] | None:
    """From the first event's start to the last one's end, ps."""
    if table.is_empty():
        return None
    start = table["start_ps"]
    first, last = start.min(), (start + table["duration_ps"]).max()
    return int(first), int(last)  # type: ignore[arg-type]


def joined_span(spans: list[tuple[int, int] | None]) -> tuple[int, int] | None:
    """From the first to the last of them all."""
    known = [span for span in spans if span is not None]
    if not known:
        return None
    return min(first for first, _ in known), max(last for _, last in known)


def overlap(start: Integers, end: Integers) -> bool:
    """Whether a span begins before an earlier one ends. Spans are by start."""
    return bool((start[1:] < np.maximum.accumulate(end)[:-1]).any())


def latest_open(start: Integers, end: Integers, when: Integers) -> Integers:
    """Place of the latest-started span that is open at each time; -1 for none.

    Args:
        start: of the spans, ascending.
        end: of the same; they may overlap.
        when: times, in any order.
    """
    # After a span has ended, the open one is the latest earlier span that ends later.
    outlives = np.full(len(start) + 1, -1)
    lasting: list[int] = []
    for place, until in enumerate(end.tolist()):
        while lasting and end[lasting[-1]] <= until:
            lasting.pop()
        outlives[place] = lasting[-1] if lasting else -1
        lasting.append(place)
    found = np.searchsorted(start, when, side="right") - 1
    until = np.append(end, np.iinfo(np.int64).max)  # at place -1, for no span
    while (closed := until[found] <= when).any():
        found = np.where(closed, outlives[found], found)
    return found


def shares(start: Integers, end: Integers) -> Integers:
    """How much of the intervals' union belongs to each: an instant in equal parts to those it is in.

    Args:
        start: of each interval, ascending.
        end: of each, later than its start.
    """
    took = end - start
    apart = start[1:] >= np.maximum.accumulate(end)[:-1]
    if apart.all():
        return took
    alone = np.concatenate(([True], apart)) & np.concatenate((apart, [True]))
    rows = np.flatnonzero(~alone)
    took[rows] = _split_evenly(start.take(rows), end.take(rows))
    return took


def _split_evenly(start: Integers, end: Integers) -> Integers:
    """As shares, of intervals that overlap; a remainder goes to the one that started first."""
    bounds = np.unique(np.concatenate((start, end)))
    first, last = np.searchsorted(bounds, start), np.searchsorted(bounds, end)
    changes = np.bincount(first, minlength=len(bounds)) - np.bincount(last, minlength=len(bounds))
    each, rest = np.divmod(np.diff(bounds), np.maximum(np.cumsum(changes)[:-1], 1))
    until = np.concatenate(([0], np.cumsum(each)))
    took: Integers = until.take(last) - until.take(first)
    pieces = np.flatnonzero(rest)
    earliest = np.searchsorted(np.maximum.accumulate(end), bounds.take(pieces), side="right")
    np.add.at(took, earliest, rest.take(pieces))
    return took
