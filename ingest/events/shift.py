"""Moves what was read of a plane to the run's time zero."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from xlahouse.ingest.events.frames import PlaneEvents


def shift(events: PlaneEvents, delta_ps: int, key_offset: int) -> PlaneEvents:
    """Move a plane's events to the run's time zero, and make its launch keys the run's own."""
    if not delta_ps and not key_offset:
        return events
    by_kind, later, pieces = events.op_events, events.rest, events.host_pieces
    if by_kind is not None:
        moved = _rekeyed(_shifted(by_kind.events, delta_ps), key_offset)
        by_kind = replace(by_kind, events=moved)
    return replace(
        events,
        ops=_rekeyed(_shifted(events.ops, delta_ps), key_offset),
        launches=_rekeyed(_shifted(events.launches, delta_ps), key_offset),
        host_events=_shifted(events.host_events, delta_ps),
        counters=_shifted(events.counters, delta_ps),
        markers=_shifted(events.markers, delta_ps),
        op_events=by_kind,
        host_pieces=None if pieces is None else pieces.shifted(delta_ps),
        rest=None if later is None else lambda: shift(later(), delta_ps, key_offset),
    )


def _shifted(frame: pl.DataFrame, delta_ps: int) -> pl.DataFrame:
    return frame.with_columns(pl.col("^(start_ps|enqueue_ps)$") + delta_ps)


def _rekeyed(frame: pl.DataFrame, offset: int) -> pl.DataFrame:
    return frame.with_columns(pl.col("^(launch_key|instance_key)$") + offset)
