"""Reads virtual CPU devices out of a `/host:CPU` plane, where no device plane stands beside it.

Device identity is deduced (ingest/cpu_chain.py) and checked against the rendezvous of the collectives,
so the devices are marked `inferred`.
"""

from __future__ import annotations

import polars as pl

from xlahouse.ingest import frames
from xlahouse.ingest.cpu_chain import Placement, place_events
from xlahouse.ingest.frames import Device, Issue, PlaneEvents
from xlahouse.ingest.host import host_event_rows, marker_rows
from xlahouse.ingest.xspace import Plane

END_PREFIX = "end: "
RENDEZVOUS = "Rendezvous"


def has_cpu_ops(plane: Plane) -> bool:
    """Whether the plane's events name HLO ops."""
    return not plane.event_stats.texts("hlo_op").is_empty()


def read_cpu_plane(plane: Plane, source: str, host: str | None) -> PlaneEvents:
    """All events of a host plane whose threads ran virtual devices."""
    events, refused = frames.split_bad_times(plane.named_events)
    for stat in ("_p", "_c"):
        numbers = plane.event_stats.numbers(stat).rename({"owner": "event"})
        events = events.join(numbers, on="event", how="left", maintain_order="left")
    placement = place_events(_with_op(plane, events))
    events = placement.events
    traced = _traced_ops(events)
    ops = _with_end(traced.drop_nulls("execution"), events)
    launches = _launches(ops)
    # An op's end belongs to its row; so both count as written there.
    folded = events.join(ops.select(_c="_p"), on="_c", how="semi").filter(
        pl.col("name").str.starts_with(END_PREFIX)
    )
    in_ops = pl.concat([ops["event"], folded["event"]])
    is_op = pl.col("event").is_in(in_ops.implode())
    table = pl.when(is_op).then(pl.lit("ops")).otherwise(pl.lit("host_events"))
    ordinals = sorted(ops["device_id"].unique().to_list())
    return PlaneEvents(
        devices=[
            Device(number, plane.name, "cpu", "cpu", local_ordinal=number, host=host, inferred=True)
            for number in ordinals
        ],
        ops=ops.pipe(frames.conform, frames.OPS),
        launches=launches,
        host_events=host_event_rows(plane, events.filter(~is_op), host),
        markers=marker_rows(plane, events, host),
        coverage=frames.coverage_rows(
            source, plane.name, events.with_columns(table_name=table), refused
        ),
        issues=[
            *frames.time_issues(refused, source),
            *_findings(source, traced.height - ops.height, placement, ops, plane),
        ],
    )


def _with_op(plane: Plane, events: pl.DataFrame) -> pl.DataFrame:
    """Add the HLO op, module, program and (newer XLA) device that an event names."""
    for column in (
        plane.event_stats.texts("hlo_op").rename({"hlo_op": "op"}),
        plane.event_stats.texts("hlo_module").rename({"hlo_module": "module"}),
        plane.event_stats.numbers("program_id", pl.UInt64),
        plane.event_stats.numbers("device_ordinal"),
    ):
        events = events.join(
            column, left_on="event", right_on="owner", how="left", maintain_order="left"
        )
    return events


def _traced_ops(events: pl.DataFrame) -> pl.DataFrame:
    """Events that name an HLO op; device_id is the place in the execution."""
    return events.drop_nulls("op").with_columns(
        device_id=pl.coalesce("device_ordinal", "ordinal"),
        launch_key=pl.col("execution"),
        line="thread",
        on_async_line=pl.lit(False),
    )


def _with_end(ops: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """An op that completes on another thread ends where its `end:` event stands, not where it returned."""
    ends = (
        events.filter(pl.col("name").str.starts_with(END_PREFIX))
        .drop_nulls("_c")
        .group_by("_c")
        .agg(end_ps=pl.col("start_ps").max())
    )
    joined = ops.join(ends, left_on="_p", right_on="_c", how="left", maintain_order="left")
    own_end = pl.col("start_ps") + pl.col("duration_ps")
    end = pl.max_horizontal(own_end, "end_ps")
    return joined.with_columns(duration_ps=end - pl.col("start_ps"))


def _launches(ops: pl.DataFrame) -> pl.DataFrame:
    """One launch a device of an execution, from its first op's start to its last op's end."""
    end = (pl.col("start_ps") + pl.col("duration_ps")).max()
    return (
        ops.group_by("execution", "device_id", "program_id")
        .agg(
            pl.col("module").first(),
            pl.col("enqueue_ps").first(),
            start_ps=pl.col("start_ps").min(),
            duration_ps=end - pl.col("start_ps").min(),
        )
        .with_columns(launch_key="execution", instance_key="execution")
        .pipe(frames.conform, frames.LAUNCHES)
    )


def _findings(
    source: str,
    lost: int,
    placement: Placement,
    ops: pl.DataFrame,
    plane: Plane,
) -> list[Issue]:
    devices = ops["device_id"].n_unique()
    conflicts = _rendezvous_conflicts(plane, placement.events)
    found = (
        (
            "warning",
            "device_unknown",
            lost,
            "ops whose thread-pool chain leads to no execution: their device is unknown, so they are "
            "in host_events (profiling started in mid-flight, or the chain is of an unknown form)",
        ),
        (
            "info",
            "device_inferred",
            devices,
            "virtual CPU devices: identity is deduced from the thread pool's records",
        ),
        (
            "warning",
            "device_ambiguous",
            placement.ambiguous,
            "programs that started late, on a device chosen among those left over",
        ),
        (
            "error",
            "device_conflict",
            conflicts,
            "collectives ran on a deduced device that is not in their rendezvous group",
        ),
    )
    return [
        Issue(severity, code, message, source, count)
        for severity, code, count, message in found
        if count
    ]


def _rendezvous_conflicts(plane: Plane, events: pl.DataFrame) -> int:
    """Rendezvous events on a device that their own list of devices lacks."""
    names = plane.event_stats.texts("name").rename({"name": "key"})
    meetings = events.filter(pl.col("name") == RENDEZVOUS).drop_nulls("ordinal")
    members = pl.col("key").str.extract(r"global_devices=\[([\d,\s]+)\]").str.extract_all(r"\d+")
    checked = meetings.join(names, left_on="event", right_on="owner").with_columns(members=members)
    absent = ~pl.col("members").list.contains(pl.col("ordinal").cast(pl.String))
    return checked.drop_nulls("members").filter(absent).height
