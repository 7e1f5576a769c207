"""Reads a `/device:TPU:N` plane: modules become launches, ops and waits become ops."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
from google.protobuf.message import DecodeError

from xlahouse.ingest import frames
from xlahouse.ingest.frames import Device, Issue, PlaneEvents
from xlahouse.ingest.memory_access import hbm_bytes
from xlahouse.ingest.proto import message_class
from xlahouse.ingest.xspace import Plane

PLANE = re.compile(r"^/device:TPU:(\d+)$")
MODULES, OPS, ASYNC_OPS, TRACE_ME, STEPS, COUNTERS = (
    "XLA Modules",
    "XLA Ops",
    "Async XLA Ops",
    "XLA TraceMe",
    "Steps",
    "_counters_",
)
# The TraceMe names that are waiting; other names there are scopes (METRICS, Category of an op).
WAITS = ["barrier-cores", "dependency-wait"]
_FLOATS = ("flops", "model_flops", "bytes_accessed")


def read_tpu_plane(plane: Plane, source: str, host: str | None) -> PlaneEvents:
    """All events of a TPU device plane; what has no table of its own goes to host_events."""
    device, issues = _device(plane, source, host)
    events, refused = frames.split_bad_times(plane.named_events)
    issues += frames.time_issues(refused, source)
    by_line = {
        MODULES: pl.lit("launches"),
        OPS: pl.lit("ops"),
        ASYNC_OPS: pl.lit("ops"),
        STEPS: pl.lit("ops"),
        COUNTERS: pl.lit("counters"),
        TRACE_ME: pl.when(pl.col("name").is_in(WAITS)).then(pl.lit("ops")),
    }
    table = pl.coalesce(
        *(pl.when(pl.col("thread") == line).then(to) for line, to in by_line.items()),
        pl.lit("host_events"),
    )
    events = events.with_columns(table_name=table)
    per_table = {
        name: events.filter(pl.col("table_name") == name)
        for name in ("launches", "ops", "counters", "host_events")
    }
    number = pl.lit(device.device_id, pl.Int64)
    return PlaneEvents(
        devices=[device],
        ops=_ops(plane, per_table["ops"]).with_columns(device_id=number),
        launches=_launches(plane, per_table["launches"]).with_columns(device_id=number),
        counters=_counters(plane, per_table["counters"]).with_columns(device_id=number),
        host_events=_others(plane, per_table["host_events"], host),
        coverage=frames.coverage_rows(source, plane.name, events, refused),
        issues=issues,
    )


def _device(plane: Plane, source: str, host: str | None) -> tuple[Device, list[Issue]]:
    match = PLANE.match(plane.name)
    if match is None:
        raise ValueError(f"{plane.name} is no TPU plane")
    local, issues = int(match[1]), []
    details = _core_details(plane)
    if details is None:
        issues.append(
            Issue(
                "warning",
                "device_number_assumed",
                f"{plane.name} has no readable core_details; its number in replica groups is taken to "
                f"be {local}, which is wrong on all hosts but the first",
                source,
            )
        )
        number, chip = local, None
    else:
        number, chip = details.global_core_id, details.global_chip_id
    kind = plane.stat("device_type_string")
    return Device(
        device_id=number,
        plane=plane.name,
        kind=kind.decode("utf-8", "replace") if isinstance(kind, bytes) else str(kind or "TPU"),
        core="tensorcore",
        local_ordinal=local,
        chip_id=chip,
        host=host,
        peak_flops=_scaled(plane.stat("peak_teraflops_per_second"), 1e12),
        peak_hbm_bytes_per_s=_scaled(plane.stat("peak_hbm_bw_gigabytes_per_second"), 1e9),
    ), issues


def _core_details(plane: Plane) -> Any:
    """The CoreDetails message of a plane; None where it has none that can be read."""
    raw = plane.stat("core_details")
    try:
        return message_class("CoreDetails").FromString(raw) if isinstance(raw, bytes) else None
    except DecodeError:
        return None


def _scaled(value: Any, factor: float) -> float | None:
    return None if value is None or value == 0 else float(value) * factor


def _ops(plane: Plane, events: pl.DataFrame) -> pl.DataFrame:
    facts = plane.metadata.select("metadata_id")
    for stat in (
        plane.metadata_stats.numbers("program_id", pl.UInt64),
        plane.metadata_stats.texts("hlo_category"),
        *(plane.metadata_stats.numbers(name, pl.Float64) for name in _FLOATS),
        hbm_bytes(plane.metadata_stats.blobs("memory_access_breakdown")),
    ):
        facts = facts.join(stat, left_on="metadata_id", right_on="owner", how="left")
    ops = events.join(facts, on="metadata_id", how="left", maintain_order="left")
    for name in _FLOATS:  # newer files put them on the event, which then wins
        own = plane.event_stats.numbers(name, pl.Float64).rename({name: "own", "owner": "event"})
        ops = ops.join(own, on="event", how="left", maintain_order="left")
        ops = ops.with_columns(pl.coalesce("own", name).alias(name)).drop("own")
    on_async_line = pl.col("thread") == ASYNC_OPS
    # An async line's display_name is `async-copy`; its instruction text names the op.
    stem = pl.col("name").str.extract(r"^%?([^\s=]+)")
    shown = pl.when(pl.col("display_name").str.len_bytes() > 0).then("display_name")
    opcode = pl.col("name").str.extract(r"=\s.*?\s?([a-z][a-z0-9-]*)\(")
    operand = pl.col("name").str.extract(r"-(?:done|update)\([^%]*%([^\s,)]+)")
    return ops.select(
        "program_id",
        "hlo_category",
        "start_ps",
        "duration_ps",
        *_FLOATS,
        "hbm_bytes",
        op=pl.when(on_async_line).then(stem).otherwise(pl.coalesce(shown, stem)),
        opcode_text=opcode,
        operand_text=operand,
        line="thread",
        on_async_line=on_async_line,
        traced_category=pl.when(pl.col("thread") == TRACE_ME)
        .then(pl.lit("wait"))
        .when(pl.col("thread") == STEPS)
        .then(pl.lit("control")),
    ).pipe(frames.conform, frames.OPS)


def _launches(plane: Plane, events: pl.DataFrame) -> pl.DataFrame:
    link = plane.event_stats.numbers("_c").join(plane.event_stats.numbers("_ct"), on="owner")
    link = link.rename({"_c": "link", "_ct": "link_type"})
    own = plane.event_stats.numbers("program_id", pl.UInt64)
    fingerprint = pl.col("name").str.extract(r"\((\d+)\)$").cast(pl.UInt64, strict=False)
    return (
        events.join(link, left_on="event", right_on="owner", how="left", maintain_order="left")
        .join(own, left_on="event", right_on="owner", how="left", maintain_order="left")
        .select(
            "start_ps",
            "duration_ps",
            "link",
            "link_type",
            program_id=pl.coalesce("program_id", fingerprint),
            module=pl.col("name").str.replace(r"\(\d+\)$", ""),
        )
        .pipe(frames.conform, frames.LAUNCHES)
    )


def _counters(plane: Plane, events: pl.DataFrame) -> pl.DataFrame:
    """A counter sample's value is its first numeric stat."""
    values = plane.event_stats.frame.select(
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
