"""Reads a `/device:TPU:N` plane: modules become launches; later, ops and waits become ops."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Protocol

import numpy as np
import polars as pl
from google.protobuf.message import DecodeError

from xlahouse.ingest.events import frames
from xlahouse.ingest.events.arrays import Mask
from xlahouse.ingest.events.codes_of_devices import DEVICE_NUMBER_ASSUMED
from xlahouse.ingest.events.frames import DEVICE_NUMBER, Device, PlaneEvents
from xlahouse.ingest.events.issues import Issue
from xlahouse.ingest.events.proto import message_class
from xlahouse.ingest.events.spans import filled
from xlahouse.ingest.events.tpu_lines import (
    ASYNC_OPS_LINE,
    COUNTERS_LINE,
    MODULES_LINE,
    OPS_LINE,
    STEPS_LINE,
    TRACE_ME_LINE,
    WAITS,
    unknown_names,
)
from xlahouse.ingest.xplane.stats import of_owners, with_sign
from xlahouse.ingest.xplane.tpu_ops import read_op_lines
from xlahouse.ingest.xplane.xspace import Plane

TPU_PLANE = re.compile(rf"^/device:TPU:{DEVICE_NUMBER}$")


class CoreDetails(Protocol):
    """Stat `core_details` of a TPU plane."""

    @property
    def global_core_id(self) -> int:
        """Number of the core in the run, as replica groups name it."""

    @property
    def global_chip_id(self) -> int:
        """Number of its chip in the run."""


def read_tpu_plane(
    plane: Plane,
    source: str,
    host: str | None,
    again: Callable[[], Plane],
    first_number: int = 0,
) -> PlaneEvents:
    """A TPU device plane: its device and launches, and how to read the rest.

    Args:
        plane: the plane.
        source: its file.
        host: its host.
        again: decodes the plane again, so that it need not be kept until its ops are read.
        first_number: of the devices of its process, where planes do not state their number.
    """
    device, issues = _device(plane, source, host, first_number)
    modules = plane.only((MODULES_LINE,))
    events, refused = frames.split_bad_times(modules.named_events)
    table = frames.same("table_name", "launches", pl.String, events.height)
    return PlaneEvents(
        devices=[device],
        launches=_launches(modules, events, device.device_id),
        coverage=frames.coverage_rows(source, plane.name, events.hstack([table]), refused),
        issues=[*issues, *frames.time_issues(refused, source)],
        rest=partial(_read_rest, again, device.device_id, source, host),
    )


def _read_rest(
    again: Callable[[], Plane], device_id: int, source: str, host: str | None
) -> PlaneEvents:
    """Ops and counters; events without a table of their own go to host_events."""
    plane = again()
    ops = read_op_lines(
        plane.only((OPS_LINE, ASYNC_OPS_LINE, TRACE_ME_LINE, STEPS_LINE)), source, device_id
    )
    others = plane.only((MODULES_LINE, OPS_LINE, ASYNC_OPS_LINE, STEPS_LINE), invert=True)
    named = others.named_events
    own = np.flatnonzero(~_is_wait(named))
    if not len(own):
        return PlaneEvents(op_events=ops.op_events, coverage=ops.coverage, issues=ops.issues)
    events, refused = frames.split_bad_times(named[own])
    sampled = pl.col("thread") == COUNTERS_LINE
    table = pl.when(sampled).then(pl.lit("counters")).otherwise(pl.lit("host_events"))
    counters, kept = frames.empty(frames.COUNTERS), events
    if COUNTERS_LINE in others.lines["name"].to_list():
        counters = _counters(others, events.filter(sampled))
        kept = events.filter(~sampled)
    coverage = frames.coverage_rows(
        source, plane.name, events.with_columns(table_name=table), refused
    )
    return PlaneEvents(
        op_events=ops.op_events,
        counters=counters.with_columns(device_id=pl.lit(device_id, pl.Int64)),
        host_events=_others(others, kept, host),
        coverage=pl.concat([ops.coverage, coverage]),
        issues=[
            *ops.issues,
            *frames.time_issues(refused, source),
            *unknown_names(plane.name, kept, source),
        ],
    )


def _is_wait(events: pl.DataFrame) -> Mask:
    """Whether each event is a wait, which is an op."""
    waiting: Mask = np.zeros(events.height, np.bool_)
    for name in WAITS:
        waiting |= filled(events["name"] == name, False)
    waiting &= filled(events["thread"] == TRACE_ME_LINE, False)
    return waiting


def _device(
    plane: Plane, source: str, host: str | None, first_number: int
) -> tuple[Device, list[Issue]]:
    match = TPU_PLANE.match(plane.name)
    if match is None:
        raise ValueError(f"{plane.name} is not a TPU plane")
    local, issues = int(match[1]), []
    details = _core_details(plane)
    if details is None:
        number, chip = first_number + local, None
        detail = f"{plane.name} has no readable core_details, which state its number: {number} here"
        issues.append(DEVICE_NUMBER_ASSUMED.found(source, detail=detail))
    else:
        number, chip = details.global_core_id, details.global_chip_id
    peak = plane.amount("peak_teraflops_per_second")
    bandwidth = plane.amount("peak_hbm_bw_gigabytes_per_second")
    return Device(
        device_id=number,
        plane=plane.name,
        kind=plane.text("device_type_string") or "TPU",
        core="tensorcore",
        local_ordinal=local,
        chip_id=chip,
        host=host,
        peak_flops=peak and peak * 1e12,
        peak_hbm_bytes_per_s=bandwidth and bandwidth * 1e9,
    ), issues


def _core_details(plane: Plane) -> CoreDetails | None:
    """The CoreDetails message of a plane; None where it is absent or damaged."""
    raw = plane.stat("core_details")
    if not isinstance(raw, bytes):
        return None
    try:
        details: CoreDetails = message_class("CoreDetails").FromString(raw)
    except DecodeError:
        return None
    return details


def _launches(plane: Plane, events: pl.DataFrame, device_id: int) -> pl.DataFrame:
    # Ids are any 64 bits, written as signed or unsigned numbers: two readings of the same bits.
    if events.is_empty():
        return frames.empty(frames.LAUNCHES)
    stats, owners = plane.event_stats, events["event"].to_numpy()
    link = with_sign(of_owners(stats.numbers("_c", pl.UInt64), owners), True)
    link_type = of_owners(stats.numbers("_ct"), owners)
    both = pl.when(pl.col("link").is_not_null() & pl.col("link_type").is_not_null())
    own = of_owners(stats.numbers("program_id", pl.UInt64), owners)
    fingerprint = pl.col("name").str.extract(r"\((\d+)\)$").cast(pl.UInt64, strict=False)
    return (
        events.hstack([link.alias("link"), link_type.alias("link_type"), own])
        .select(
            "start_ps",
            "duration_ps",
            both.then(pl.col("link", "link_type")),
            device_id=pl.lit(device_id, pl.Int64),
            module=pl.col("name").str.replace(r"\(\d+\)$", ""),
            program_id=pl.coalesce("program_id", fingerprint),
        )
        .pipe(frames.conform, frames.LAUNCHES)
    )


def _counters(plane: Plane, events: pl.DataFrame) -> pl.DataFrame:
    """A counter sample's value is its first numeric stat."""
    values = plane.event_stats.rows.select(
        event="owner",
        value=pl.coalesce(
            "double_value",
            pl.col("uint64_value").cast(pl.Float64),
            pl.col("int64_value").cast(pl.Float64),
        ),
    ).unique("event", keep="first")
    return events.join(values, on="event", how="left").pipe(frames.conform, frames.COUNTERS)


def _others(plane: Plane, events: pl.DataFrame, host: str | None) -> pl.DataFrame:
    args = plane.event_stats.as_json(events["event"]).rename({"owner": "event"})
    return (
        events.join(args, on="event", how="left", maintain_order="left")
        .with_columns(
            host=pl.lit(host, pl.String), thread=pl.lit(f"{plane.name}/") + pl.col("thread")
        )
        .pipe(frames.conform, frames.HOST_EVENTS)
    )
