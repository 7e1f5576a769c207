"""Moves a plane's events from its own clock to the run's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import polars as pl

from xlahouse.ingest.events.frames import PlaneEvents
from xlahouse.ingest.events.time_move import TimeMove

# Columns with times of day; a duration is moved by both of its ends.
_MOMENTS = ("start_ps", "enqueue_ps")


def shift(events: PlaneEvents, move: TimeMove, key_offset: int = 0) -> PlaneEvents:
    """Move a plane's events to the run's clock, and make its launch keys the run's own."""
    if not move and not key_offset:
        return events
    by_kind, later, pieces = events.op_events, events.rest, events.host_pieces
    if by_kind is not None:
        by_kind = replace(by_kind, events=_rekeyed(_moved(by_kind.events, move), key_offset))
    return replace(
        events,
        ops=_rekeyed(_moved(events.ops, move), key_offset),
        launches=_rekeyed(_moved(events.launches, move), key_offset),
        host_events=_moved(events.host_events, move),
        counters=_moved(events.counters, move),
        markers=_moved(events.markers, move),
        kv_transfers=_moved(events.kv_transfers, move),
        op_events=by_kind,
        host_pieces=None if pieces is None else pieces.moved(move),
        rest=None if later is None else partial(_shifted, later, move, key_offset),
    )


def _shifted(later: Callable[[], PlaneEvents], move: TimeMove, key_offset: int) -> PlaneEvents:
    return shift(later(), move, key_offset)


def _moved(frame: pl.DataFrame, move: TimeMove) -> pl.DataFrame:
    if not move.drift:
        return frame.with_columns(pl.col("^(start_ps|enqueue_ps)$") + move.later_ps)
    columns = [_times(frame[name], move) for name in _MOMENTS if name in frame.columns]
    if "duration_ps" in frame.columns:
        starts, lasted = (frame[name].to_numpy() for name in ("start_ps", "duration_ps"))
        columns.append(pl.Series("duration_ps", move.durations(starts, lasted)))
    return frame.with_columns(columns)


def _times(times: pl.Series, move: TimeMove) -> pl.Series:
    """Moved times; NULL stays NULL."""
    known = times.is_not_null()
    moved = pl.Series(times.name, move.times(times.fill_null(0).to_numpy()))
    return moved.set(~known, None) if times.null_count() else moved


def _rekeyed(frame: pl.DataFrame, offset: int) -> pl.DataFrame:
    return frame.with_columns(pl.col("^(launch_key|instance_key)$") + offset)
