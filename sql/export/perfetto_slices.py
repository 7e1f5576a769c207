"""Slices that Perfetto can draw: crossing slices get lanes, and each slice becomes two events."""

from __future__ import annotations

import heapq

import polars as pl

from xlahouse.sql.export.perfetto_proto import BEGIN, END, event


def lanes(slices: pl.DataFrame, nested: bool) -> pl.Series:
    """Lane of each slice, such that no two slices of a lane cross.

    Args:
        slices: start_ps and duration_ps, of one track, by start and then longest first.
        nested: whether a slice within another may be drawn inside it; else slices of a
            lane never overlap.

    Returns:
        Lane numbers from 0, UInt32, in the order of the rows.
    """
    ends = slices["start_ps"] + slices["duration_ps"]
    reached = ends.cum_max().shift(1)
    if nested and not _crosses(slices.select("start_ps", end_ps=ends)):
        return pl.Series("lane", [0], pl.UInt32).new_from_index(0, slices.height)
    if not nested and (slices["start_ps"] >= reached).fill_null(True).all():
        return pl.Series("lane", [0], pl.UInt32).new_from_index(0, slices.height)
    return pl.Series("lane", _spread(slices["start_ps"].to_list(), ends.to_list()), pl.UInt32)


def _crosses(spans: pl.DataFrame) -> bool:
    """Whether some span starts within another and ends after it, at any depth of nesting."""
    while spans.height:
        reached = pl.col("end_ps").cum_max().shift(1)
        inside = spans.with_columns(
            inner=(pl.col("start_ps") < reached).fill_null(False),
            out=(pl.col("start_ps") < reached) & (pl.col("end_ps") > reached),
        )
        if inside["out"].any():
            return True
        spans = inside.filter("inner").select("start_ps", "end_ps")
    return False


def _spread(starts: list[int], ends: list[int]) -> list[int]:
    """Greedily: each span takes the lowest lane that is free at its start."""
    busy: list[tuple[int, int]] = []  # (end, lane)
    free: list[int] = []
    found = []
    for start, end in zip(starts, ends, strict=True):
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, lane))
        found.append(lane)
    return found


def edges(slices: pl.DataFrame, shift_ns: int) -> pl.DataFrame:
    """The begin and end events of slices, in an order that closes inner slices before outer ones.

    Args:
        slices: start_ps, duration_ps, track_uuid, and for the begin events name_iid, category_iids,
            debug_annotations and flow_ids, as perfetto_proto's Event has them.
        shift_ns: added to every time.

    Returns:
        timestamp (ns, UInt64; times are cut to whole nanoseconds) and track_event.
    """
    start, end = pl.col("start_ps"), pl.col("start_ps") + pl.col("duration_ps")
    track = pl.col("track_uuid")
    named = ("name_iid", "category_iids", "debug_annotations", "flow_ids")
    begins = slices.select(
        at=start,
        rank=pl.lit(1),
        order=-pl.col("duration_ps"),
        track_event=event(BEGIN, track, **{name: pl.col(name) for name in named}),
    )
    # An end comes before the begins of its instant, but for that of its own empty slice.
    empty = pl.col("duration_ps") == 0
    ends = slices.select(
        at=end,
        rank=pl.when(empty).then(2).otherwise(0),
        order=-start,
        track_event=event(END, track),
    )
    both = pl.concat([begins, ends]).sort("at", "rank", "order", maintain_order=True)
    return both.select(
        timestamp=(pl.col("at") // 1000 + shift_ns).cast(pl.UInt64), track_event="track_event"
    )
