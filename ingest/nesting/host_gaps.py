"""Says what a host's thread did while a device had no launch: the rows of host_gaps."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl
import pyarrow as pa

from xlahouse.ingest.events.arrays import Integers, Mask
from xlahouse.ingest.events.arrow_arrays import series_of
from xlahouse.ingest.events.spans import merge_spans
from xlahouse.ingest.nesting.self_time import Nest, nest

LEVELS = 8  # an event further out than this of the innermost one is left out
EVENTS = {
    "file": pl.Int64,
    "thread": pl.String,
    "name": pl.String,
    "start_ps": pl.Int64,
    "end_ps": pl.Int64,
}
ROWS = {
    "device_id": pl.Int64,
    "launch": pl.Int64,
    "start_ps": pl.Int64,
    "duration_ps": pl.Int64,
    "thread": pl.String,
    "name": pl.String,
    "level": pl.Int64,
    "events": pl.Int64,
    "overlap_ps": pl.Int64,
    "self_ps": pl.Int64,
}


@dataclass(frozen=True)
class WantedGaps:
    """Which events of a file's threads say what a host did in gaps."""

    file: int  # number of the file
    threads: frozenset[str]  # names of the threads that enqueued launches
    begin: Integers  # of the times in which a device has a gap
    end: Integers  # of the same times, in the same order

    @classmethod
    def of(cls, gaps: pl.DataFrame) -> dict[int, WantedGaps]:
        """By file. gaps: as host_gaps takes them."""
        return {
            int(some["file"][0]): cls._of_file(some)
            for some in gaps.drop_nulls("thread").partition_by("file")
        }

    @classmethod
    def _of_file(cls, gaps: pl.DataFrame) -> WantedGaps:
        times = (gaps[name].to_numpy() for name in ("start_ps", "duration_ps"))
        spans = merge_spans(np.zeros(gaps.height, np.int64), *times)
        end = spans.start_ps + spans.duration_ps
        return cls(int(gaps["file"][0]), frozenset(gaps["thread"]), spans.start_ps, end)

    def events(self, piece: pa.Table) -> pl.DataFrame:
        """EVENTS of them. piece: rows of host_events of this file, texts as dictionaries or not."""
        narrow = piece.select(["thread", "name", "start_ps", "duration_ps"])
        rows = pl.DataFrame(pl.from_arrow(narrow))
        kept = rows.filter(_is_of(narrow.column("thread"), self.threads))
        events = kept.drop_nulls(["start_ps", "duration_ps"])
        start = events["start_ps"].to_numpy()
        until = start + events["duration_ps"].to_numpy()
        meets = np.searchsorted(self.end, start, "right") < np.searchsorted(self.begin, until)
        return events.filter(meets).select(
            pl.lit(self.file, pl.Int64).alias("file"),
            pl.col("thread").cast(pl.String),
            pl.col("name").cast(pl.String),
            "start_ps",
            end_ps=pl.col("start_ps") + pl.col("duration_ps"),
        )


def _is_of(column: pa.ChunkedArray, threads: Collection[str]) -> pl.Series:
    words = column.combine_chunks()
    if not isinstance(words, pa.DictionaryArray):
        return series_of(words).is_in(list(threads)).fill_null(False)
    codes = [code for code, word in enumerate(words.dictionary.to_pylist()) if word in threads]
    return series_of(words.indices).is_in(codes).fill_null(False)


def host_gaps(gaps: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """What threads did in gaps: a row for each gap and name of events, and one for the rest of the gap.

    Self times of a gap's rows add up to its duration: the row without a name has the time in which the
    thread has no event open, or only events further than LEVELS out, or in which the thread is not known.

    Args:
        gaps: launch_gaps.GAPS and `file`, of the device.
        events: EVENTS, of the threads of these gaps or more.

    Returns:
        ROWS. Level 0 is innermost; overlap counts an event within one of the same name once.
    """
    if gaps.is_empty():
        return pl.DataFrame(schema=ROWS)
    numbered = gaps.with_row_index("gap").cast({"gap": pl.Int64})
    of_thread = events.partition_by("file", "thread", as_dict=True)
    found = []
    for key, some in numbered.drop_nulls("thread").group_by("file", "thread"):
        if key in of_thread:
            found.append(_of_thread(some.sort("device_id", "start_ps"), of_thread[key]))
    schema = {"gap": pl.Int64} | {name: ROWS[name] for name in list(ROWS)[5:]}
    named = pl.concat([pl.DataFrame(schema=schema), *found])
    rest = _rest(numbered, named)
    rows = numbered.join(pl.concat([named, rest]), on="gap", how="inner")
    return rows.select(list(ROWS)).sort("device_id", "start_ps", "level", "name", nulls_last=True)


def _rest(gaps: pl.DataFrame, named: pl.DataFrame) -> pl.DataFrame:
    """The part of each gap that no row has."""
    taken = named.group_by("gap").agg(taken=pl.col("self_ps").sum())
    left = pl.col("duration_ps") - pl.col("taken").fill_null(0)
    rest = gaps.join(taken, on="gap", how="left").select("gap", self_ps=left)
    return rest.filter(pl.col("self_ps") > 0).select(
        "gap",
        pl.lit(None, pl.String).alias("name"),
        pl.lit(None, pl.Int64).alias("level"),
        pl.lit(0, pl.Int64).alias("events"),
        pl.lit(None, pl.Int64).alias("overlap_ps"),
        "self_ps",
    )


def _of_thread(gaps: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """Rows of the gaps that one thread ended, by gap and name. gaps: by device and start."""
    opened = nest(*(events[name].to_numpy() for name in ("start_ps", "end_ps")))
    code = events["name"].fill_null("").rank("dense").to_numpy()[opened.row]
    parts = [
        _in_gaps(of_device, opened, code)
        for of_device in gaps.partition_by("device_id", maintain_order=True)
    ]
    rows = pl.concat(parts)
    names = events["name"].gather(opened.row)
    return (
        rows.with_columns(name=names.gather(rows["event"]))
        .group_by("gap", "name")
        .agg(
            pl.col("level").min(),
            pl.len().cast(pl.Int64).alias("events"),
            pl.col("overlap_ps").filter(~pl.col("within_its_like")).sum(),
            pl.col("self_ps").sum(),
        )
    )


def _in_gaps(gaps: pl.DataFrame, opened: Nest, code: Integers) -> pl.DataFrame:
    """gap, event (its place), level, overlap_ps, self_ps, within_its_like of events in one device's gaps.

    An event's gaps are neighbours, so the pair of its parent and a gap is found by arithmetic.
    """
    begin = gaps["start_ps"].to_numpy()
    end = begin + gaps["duration_ps"].to_numpy()
    first = np.searchsorted(end, opened.start, side="right")
    count = np.maximum(np.searchsorted(begin, opened.end, side="left") - first, 0)
    event = np.repeat(np.arange(len(count)), count)
    before = np.cumsum(count) - count
    gap = np.arange(len(event)) - before[event] + first[event]
    overlap = np.minimum(opened.end[event], end[gap]) - np.maximum(opened.start[event], begin[gap])
    above = opened.parent[event]
    parent = np.where(above >= 0, before[above] + gap - first[above], -1)
    inside = np.flatnonzero(parent >= 0)
    own = overlap.copy()
    np.subtract.at(own, parent[inside], overlap[inside])
    level = _levels(parent, inside)
    like = _within_their_like(parent, level, code[event])
    kept = np.flatnonzero(level < LEVELS)
    return pl.DataFrame(
        {
            "gap": gaps["gap"].to_numpy()[gap[kept]],
            "event": event[kept],
            "level": level[kept],
            "overlap_ps": overlap[kept],
            "self_ps": own[kept],
            "within_its_like": like[kept],
        }
    )


def _levels(parent: Integers, inside: Integers) -> Integers:
    """How many events are nested in each, one in the other; LEVELS stands for more."""
    level = np.zeros(len(parent), np.int64)
    for _ in range(LEVELS):
        np.maximum.at(level, parent[inside], np.minimum(level[inside] + 1, LEVELS))
    return level


def _within_their_like(parent: Integers, level: Integers, code: Integers) -> Mask:
    """Whether an event of the same name that is kept is around each."""
    like = np.zeros(len(parent), np.bool_)
    around = parent
    for _ in range(LEVELS):
        known = around >= 0
        like |= known & (code[around] == code) & (level[around] < LEVELS)
        around = np.where(known, parent[around], -1)
    return like


def joined(parts: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """EVENTS of all parts."""
    return pl.concat([pl.DataFrame(schema=EVENTS), *parts])
