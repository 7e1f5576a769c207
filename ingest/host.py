"""Reads planes without device ops: host threads with their markers, and planes that nobody knows."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from xlahouse.capture.manifest import MARKER_PREFIX, WARMUP
from xlahouse.ingest import frames
from xlahouse.ingest.frames import Issue, PlaneEvents
from xlahouse.ingest.xspace import Plane

HOST_PLANE = "/host:CPU"


def read_host_plane(
    plane: Plane, source: str, host: str | None, again: Callable[[], Plane]
) -> PlaneEvents:
    """Threads of a host: markers and enqueues, and how to read every event to host_events.

    Args:
        plane: the plane.
        source: its file.
        host: its host.
        again: gives the plane once more, so that it need not be kept.
    """
    events, _ = frames.split_bad_times(plane.named_events)
    return PlaneEvents(
        markers=marker_rows(plane, events, host),
        producers=_producers(plane, events),
        rest=lambda: _read_events(again(), source, host),
    )


def _read_events(plane: Plane, source: str, host: str | None) -> PlaneEvents:
    events, refused = frames.split_bad_times(plane.named_events)
    return PlaneEvents(
        host_events=host_event_rows(plane, events, host),
        coverage=frames.coverage_rows(
            source, plane.name, events.with_columns(table_name=pl.lit("host_events")), refused
        ),
        issues=frames.time_issues(refused, source),
    )


def read_unknown_plane(plane: Plane, source: str, host: str | None) -> PlaneEvents:
    """A plane that has no reader: its events are kept in host_events, and an issue says so."""
    read = _read_events(plane, source, host)
    kept = read.host_events.with_columns(thread=pl.lit(f"{plane.name}/") + pl.col("thread"))
    issues = read.issues
    if not kept.is_empty():
        message = f"plane {plane.name} has no reader of its own; its events are in host_events"
        issues = [*issues, Issue("warning", "unknown_plane", message, source, kept.height)]
    return PlaneEvents(host_events=kept, coverage=read.coverage, issues=issues)


def host_event_rows(plane: Plane, events: pl.DataFrame, host: str | None) -> pl.DataFrame:
    """Events of a plane as rows of host_events."""
    args = plane.event_stats.as_json(events["event"]).rename({"owner": "event"})
    return (
        events.join(args, on="event", how="left", maintain_order="left")
        .with_columns(host=pl.lit(host, pl.String))
        .pipe(frames.conform, frames.HOST_EVENTS)
    )


def marker_rows(plane: Plane, events: pl.DataFrame, host: str | None) -> pl.DataFrame:
    """Step traces named by the marker grammar, with their request and step."""
    marks = events.filter(pl.col("name").str.starts_with(MARKER_PREFIX))
    for stat, column in (("request", "request"), ("step_num", "step")):
        numbers = plane.event_stats.numbers(stat).rename({stat: column, "owner": "event"})
        marks = marks.join(numbers, on="event", how="left", maintain_order="left")
    marked = marks.with_columns(
        host=pl.lit(host, pl.String), phase=pl.col("name").str.strip_prefix(MARKER_PREFIX)
    ).pipe(frames.conform, frames.MARKERS)
    # Captures number warm-ups from 0 too; a step's key must not be that of a measured request's.
    warmup = MARKER_PREFIX + pl.col("phase") == WARMUP
    return marked.with_columns(
        request=pl.when(warmup).then(-1 - pl.col("request")).otherwise("request")
    )


def _producers(plane: Plane, events: pl.DataFrame) -> pl.DataFrame:
    """Host events that enqueue something: producer id and start."""
    ids = plane.event_stats.numbers("_p").join(plane.event_stats.numbers("_pt"), on="owner")
    return (
        ids.select(event="owner", link="_p", link_type="_pt")
        .join(events.select("event", enqueue_ps="start_ps"), on="event")
        .unique(["link_type", "link"], keep="first", maintain_order=True)
        .pipe(frames.conform, frames.PRODUCERS)
    )
