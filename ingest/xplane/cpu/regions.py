"""Regions of pool threads in which closures run, and where each closure was announced."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.xplane.cpu.events import NO_CLOSURE, CpuEvents, Marks


@dataclass(frozen=True)
class Regions:
    """A row a region, by number; -1 for none.

    Columns of Records end in one more row, for no Record.
    """

    event: Integers  # number of its StartRegion
    start_ps: Integers  # when it starts
    record: Integers  # the Record that announced it
    helper: Integers  # event that this Record lies in
    parent: Integers  # row of the region that this Record lies in
    recorded_ps: Integers  # of each Record: when
    execute: Integers  # of each Record: event that it lies in

    @classmethod
    def of(cls, events: CpuEvents, executes: pl.DataFrame, helpers: pl.DataFrame) -> Regions:
        """The regions of a plane.

        Args:
            events: of the plane.
            executes: those acts that are executions.
            helpers: those acts that start an execution on a device.
        """
        edges, records = events.edges, events.records
        opening = np.flatnonzero(edges.opens)
        event = edges.event[opening]
        if (np.diff(event) < 0).any():
            order = np.argsort(event, kind="stable")
            opening, event = opening[order], event[order]
        row_of_edge = np.full(len(edges.event) + 1, -1)  # the last is for no edge
        row_of_edge[opening] = np.arange(len(opening))
        with ThreadPoolExecutor(2) as pool:
            regions = (edges.closure[opening], edges.start_ps[opening])
            record = pool.submit(_announcements, records, *regions)
            opened = pool.submit(_latest_opened, edges, records.line, records.start_ps)
            spans = [pool.submit(_spans_around, records, acts) for acts in (executes, helpers)]
        found = record.result()
        execute, helper = (np.append(span.result(), -1) for span in spans)
        parent = row_of_edge[np.append(opened.result(), -1)]
        return cls(
            event=event,
            start_ps=edges.start_ps[opening],
            record=found,
            helper=helper[found],
            parent=parent[found],
            recorded_ps=np.append(records.start_ps, -1),
            execute=execute,
        )

    def rows(self, regions: pl.Series) -> Integers:
        """Rows of regions, all of which exist."""
        return np.searchsorted(self.event, regions.to_numpy())

    def announced(self, regions: pl.Series) -> pl.DataFrame:
        """record (its number), record_ps and execute of the Record of each region, NULL where it has none."""
        record = np.append(self.record, -1)[self.places(regions)]
        found = {
            "record": record,
            "record_ps": self.recorded_ps[record],
            "execute": self.execute[record],
        }
        return pl.DataFrame(found).select(pl.when(pl.all() >= 0).then(pl.all()))

    def records_of_executes(self) -> pl.DataFrame:
        """Records within an Execute: record, execute, place (of that Execute's, by time), of (how many)."""
        number = np.flatnonzero(self.execute >= 0)
        found = {
            "record": number,
            "execute": self.execute[number],
            "record_ps": self.recorded_ps[number],
        }
        return pl.DataFrame(found).select(
            "record",
            "execute",
            place=pl.col("record_ps").rank("ordinal").over("execute").cast(pl.Int64) - 1,
            of=pl.len().over("execute").cast(pl.Int64),
        )

    def places(self, regions: pl.Series) -> Integers:
        """Row of each region; -1 for none."""
        return _rows_of(regions.fill_null(-1).cast(pl.Int64).to_numpy(), self.event)


def open_regions(edges: Marks, acts: pl.DataFrame) -> pl.Series:
    """Event number of the StartRegion that is open where each act starts, else NULL."""
    line, start = (acts[name].to_numpy() for name in ("line", "start_ps"))
    return _known(np.append(edges.event, -1)[_latest_opened(edges, line, start)])


def open_spans(spans: pl.DataFrame, acts: pl.DataFrame) -> pl.Series:
    """Event number of the latest span that is open on an act's line where the act starts, else NULL."""
    line, start = (acts[name].to_numpy() for name in ("line", "start_ps"))
    return _known(_latest_span(spans, line, start))


def _known(numbers: Integers) -> pl.Series:
    found = pl.Series("found", numbers)
    return found.to_frame().select(pl.when(pl.col("found") >= 0).then("found")).to_series()


def _announcements(records: Marks, closures: Integers, start_ps: Integers) -> Integers:
    """Of each closure the record that announces it; -1 for none.

    Of several with one number, it is the latest before the closure starts, else the first.

    Args:
        records: all of them.
        closures: of regions.
        start_ps: start of each closure.
    """
    order = np.argsort(records.closure, kind="stable")
    announced = records.closure[order]
    at = np.searchsorted(announced, closures, side="right") - 1
    if (np.diff(announced) == 0).any():
        order = np.lexsort((records.event, records.start_ps, records.closure))
        found, first = _latest_of(announced, records.start_ps[order], closures, start_ps)
        at = np.where(found >= first, found, np.minimum(first, at))
    place = np.append(order, -1)[at]
    same = np.append(records.closure, NO_CLOSURE)[place] == closures
    return np.where(same & (closures != NO_CLOSURE), place, -1)


def _latest_of(
    keys: Integers, times: Integers, wanted: Integers, when: Integers
) -> tuple[Integers, Integers]:
    """(place of the last row of each wanted key that is no later than a time, or the place before the
    key's rows; place of its first row). Rows are by key and time."""
    first = np.searchsorted(keys, wanted)
    _, ranks = np.unique(np.concatenate((times, when)), return_inverse=True)
    _, codes = np.unique(np.concatenate((keys, wanted)), return_inverse=True)
    both = codes * (len(ranks) + 1) + ranks
    found = np.searchsorted(both[: len(keys)], both[len(keys) :], side="right") - 1
    return found, first


def _latest_opened(edges: Marks, line: Integers, start_ps: Integers) -> Integers:
    """Place of the StartRegion that is open on a line at a time; -1 for none."""
    place = _latest(edges.line, edges.start_ps, line, start_ps)
    place[~np.append(edges.opens, False)[place]] = -1
    return place


def _latest_span(spans: pl.DataFrame, line: Integers, start_ps: Integers) -> Integers:
    """Event of the latest span of a line that is open at a time, its end included; -1 for none."""
    if spans.is_empty():
        return np.full(len(line), -1)
    event, of_line, start, end = _in_order(spans)
    place = _latest(of_line, start, line, start_ps)
    return np.where((place >= 0) & (end[place] >= start_ps), event[place], -1)


def _spans_around(marks: Marks, spans: pl.DataFrame) -> Integers:
    """The same for many marks and few spans: each span looks for its marks."""
    found = np.full(len(marks.line), -1)
    event, of_line, start, end = _in_order(spans)
    for number, rows in _by_line(of_line):
        first, last = _bounds(marks.line, number)
        times = marks.start_ps[first:last]
        begin = np.searchsorted(times, start[rows])
        # from a later span's start on, that one is the latest
        beyond = np.append(begin[1:], len(times))
        count = np.maximum(
            np.minimum(np.searchsorted(times, end[rows], side="right"), beyond) - begin, 0
        )
        before = np.cumsum(count) - count
        places = np.repeat(begin - before + first, count) + np.arange(count.sum())
        found[places] = np.repeat(event[rows], count)
    return found


def _in_order(spans: pl.DataFrame) -> tuple[Integers, Integers, Integers, Integers]:
    """(event, line, start, end) by line and start."""
    ordered = spans.sort("line", "start_ps", "event")
    event, line, start, duration = (
        ordered[name].to_numpy() for name in ("event", "line", "start_ps", "duration_ps")
    )
    return event, line, start, start + duration


def _latest(of_line: Integers, starts: Integers, line: Integers, start_ps: Integers) -> Integers:
    """Place of the last start at or before a time on a line; -1 for none.

    Args:
        of_line, starts: line and start, ascending.
        line, start_ps: of each wanted time.
    """
    found = np.full(len(line), -1)
    for number, rows in _by_line(line):
        first, last = _bounds(of_line, number)
        place = np.searchsorted(starts[first:last], start_ps[rows], side="right") + first - 1
        found[rows] = np.where(place >= first, place, -1)
    return found


def _bounds(line: Integers, number: int) -> tuple[int, int]:
    """Where the values of a line begin and end; lines ascend."""
    # A number of another type would convert all lines first.
    first, last = np.searchsorted(line, np.array([number, number + 1], line.dtype))
    return int(first), int(last)


def _by_line(line: Integers) -> Iterator[tuple[int, Integers | slice]]:
    """Each line, and the places of its values."""
    order = None if (np.diff(line) >= 0).all() else np.argsort(line, kind="stable")
    values = line if order is None else line[order]
    bounds = [*np.flatnonzero(np.diff(values, prepend=-1)).tolist(), len(values)]
    for first, last in pairwise(bounds):
        rows = slice(first, last)
        yield int(values[first]), rows if order is None else order[rows]


def _rows_of(wanted: Integers, numbers: Integers) -> Integers:
    """Place of each wanted number among ascending ones; -1 where it is absent."""
    if not len(numbers):
        return np.full(len(wanted), -1)
    place = np.minimum(np.searchsorted(numbers, wanted), len(numbers) - 1)
    return np.where(numbers[place] == wanted, place, -1)
