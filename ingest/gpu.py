"""Reads a `/device:GPU:N` plane: kernels on streams become ops, executions become launches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import polars as pl

from xlahouse.ingest import frames
from xlahouse.ingest.chosen_events import ChosenEvents, Found
from xlahouse.ingest.event_chunks import Mask, chunks
from xlahouse.ingest.frames import Device, Issue, PlaneEvents
from xlahouse.ingest.gpu_host import HostCalls
from xlahouse.ingest.hlo import Program
from xlahouse.ingest.host_pieces import HostPieces
from xlahouse.ingest.kineto_collectives import KERNEL, kind_of
from xlahouse.ingest.line_counts import LineCounts
from xlahouse.ingest.op_events import OpEvents
from xlahouse.ingest.xspace import Plane

PLANE = re.compile(r"^/device:GPU:(\d+)$")
# Lines that a profiler derives from the streams: the same time, told again.
DERIVED = (
    "XLA Modules",
    "XLA Ops",
    "Async XLA Ops",
    "Steps",
    "Framework Ops",
    "Framework Name Scope",
    "TensorFlow Ops",
    "TensorFlow Name Scope",
    "Launch Stats",
    "Source code",
    "Host Offload Ops",
)
_COPY = r"(?i)^memcpy|^__amd_rocclr_copy|^copy(?:Host|Device)To"
_WITH_HOST = r"(?i)h(?:ost)?\s?(?:to|2)\s?d|d(?:evice)?\s?(?:to|2)\s?h"
# Stats that link a kernel to its program and to the call that launched it.
_STATS: dict[str, Any] = {
    "hlo_op": pl.String,
    "hlo_module": pl.String,
    "program_id": pl.UInt64,
    "correlation_id": pl.Int64,
    "memcpy_details": pl.String,
}


def read_gpu_plane(plane: Plane, source: str, host: str | None, calls: HostCalls) -> PlaneEvents:
    """All events of a GPU plane; what profilers derive from its streams goes to host_events.

    Args:
        plane: the plane.
        source: its file.
        host: its host.
        calls: what the host launched on GPUs.
    """
    counts, kernels = _read_kernels(plane, calls)
    launches = launches_of(kernels)
    device = _device(plane, host)
    number = pl.lit(device.device_id, pl.Int64).alias("device_id")
    derived = np.where(_on_derived_line(plane), counts.kept, 0)
    return PlaneEvents(
        devices=[device],
        op_events=OpEvents.of_rows(ops_of(kernels, launches).with_columns(number)),
        launches=launches.pipe(frames.conform, frames.LAUNCHES).with_columns(number),
        host_pieces=HostPieces(plane.only(DERIVED), host, f"{plane.name}/"),
        coverage=counts.coverage(source, {"ops": counts.kept - derived, "host_events": derived}),
        issues=counts.issues(source)
        + findings(plane.name, kernels, counts.by_name(derived), source),
    )


def _device(plane: Plane, host: str | None) -> Device:
    match = PLANE.match(plane.name)
    if match is None:
        raise ValueError(f"{plane.name} is no GPU plane")
    bandwidth = plane.stat("memory_bandwidth")
    peak = plane.stat("peak_teraflops_per_second")
    return Device(
        device_id=int(match[1]),
        plane=plane.name,
        kind=_kind(plane),
        core="gpu",
        local_ordinal=int(match[1]),
        host=host,
        peak_flops=float(peak) * 1e12 if peak else None,
        peak_hbm_bytes_per_s=float(bandwidth) if bandwidth else None,
    )


def assumed_numbers(planes: Iterable[str], programs: Iterable[Program], source: str) -> list[Issue]:
    """The finding that programs run on more GPUs than a host has: which of them are its own, no plane says.

    Args:
        planes: names of a file's planes.
        programs: what the file holds of programs.
        source: the file.
    """
    own = {int(found[1]) for name in planes if (found := PLANE.match(name))}
    places = [program.assignment for program in programs] if own else []
    named = {number for place in places if place for row in place.devices for number in row}
    if named <= own:
        return []
    message = (
        f"programs name {len(named | own)} devices, and this host has {len(own)} GPUs: none says its "
        "number among all; that on the host is taken for it, which is wrong on all hosts but the first"
    )
    return [Issue("warning", "device_number_assumed", message, source, len(own))]


def _kind(plane: Plane) -> str:
    """`AMD GPU 9.4, 304 cores, 2100 MHz`: planes name no product."""
    stated = plane.stat("device_type_string")
    if stated:
        return stated.decode("utf-8", "replace") if isinstance(stated, bytes) else str(stated)
    vendor = plane.stat("device_vendor") or b""
    words = [vendor.decode("utf-8", "replace") if isinstance(vendor, bytes) else str(vendor), "GPU"]
    major, minor = plane.stat("compute_cap_major"), plane.stat("compute_cap_minor")
    if major is not None:
        words.append(f"{major}.{minor or 0}")
    name = " ".join(word for word in words if word)
    cores, clock_khz = plane.stat("core_count"), plane.stat("clock_rate")
    facts = [f"{cores} cores" if cores else "", f"{clock_khz // 1000} MHz" if clock_khz else ""]
    return ", ".join([name, *(fact for fact in facts if fact)])


def _on_derived_line(plane: Plane) -> Mask:
    mask: Mask = plane.lines["name"].is_in(DERIVED).to_numpy()
    return mask


def _read_kernels(plane: Plane, calls: HostCalls) -> tuple[LineCounts, pl.DataFrame]:
    """(how many events there are; those on streams, with the stats that link them to programs and to the
    host)."""
    counts, kernels = LineCounts.of(plane), ChosenEvents(plane, _STATS)
    on_stream = ~_on_derived_line(plane)
    for chunk in chunks(plane):
        counts.add(chunk)
        chunk.check_stats()
        found: dict[str, Found] = {
            name: chunk.texts(name) if kind == pl.String else chunk.integers(name, kind)
            for name, kind in _STATS.items()
        }
        kernels.add(chunk, on_stream[chunk.core.line] & chunk.in_time, found)
    linked = kernels.frame().rename({"name": "kernel"})
    return counts, linked.join(calls.frame, on="correlation_id", how="left", maintain_order="left")


def launches_of(kernels: pl.DataFrame) -> pl.DataFrame:
    """An execution on a device: from its first kernel's start to its last one's end.

    Args:
        kernels: kernel (what ran), thread, lane, start_ps, duration_ps, hlo_op, hlo_module, program_id,
            memcpy_details, and call, execution and enqueue_ps of gpu_host.HostCalls.
    """
    executed = kernels.filter(pl.col("execution").is_not_null())
    return (
        executed.group_by(launch_key="execution")
        .agg(
            program_id=pl.col("program_id").drop_nulls().first(),
            module=pl.col("hlo_module").drop_nulls().first(),
            until=(pl.col("start_ps") + pl.col("duration_ps")).max(),
            start_ps=pl.col("start_ps").min(),
            enqueue_ps=pl.col("enqueue_ps").min(),
        )
        .with_columns(duration_ps=pl.col("until") - pl.col("start_ps"))
        .filter(pl.col("module").is_not_null())  # else it launched no op of a program
        .sort("start_ps")
    )


def ops_of(kernels: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """frames.OPS without device_id, of kernels as launches_of takes them."""
    of_launch = launches.select(
        execution="launch_key", program_of_launch="program_id", module_of_launch="module"
    )
    placed = kernels.join(of_launch, on="execution", how="left", maintain_order="left")
    copies = pl.col("kernel").str.contains(_COPY)
    words = pl.concat_str("kernel", "memcpy_details", "call", separator=" ", ignore_nulls=True)
    copied = pl.when(words.str.contains(_WITH_HOST)).then(pl.lit("host_transfer"))
    kinds = _kinds_by_name(placed["kernel"])
    kind = pl.col("kernel").replace_strict(kinds, default=None, return_dtype=pl.String)
    # What names no op of a program, and of which not even the kind is told, is a collective all the same.
    moving = pl.col("kernel").is_in(list(kinds)) & pl.col("hlo_op").is_null() & kind.is_null()
    return placed.select(
        "start_ps",
        "duration_ps",
        "kernel",
        op=pl.coalesce("hlo_op", "kernel"),
        program_id=pl.coalesce("program_id", "program_of_launch"),
        module=pl.coalesce("hlo_module", "module_of_launch"),
        hlo_category=kind,
        line="thread",
        lane="lane",
        on_async_line=False,
        traced_category=pl.when(copies)
        .then(copied.otherwise(pl.lit("copy")))
        .when(moving)
        .then(pl.lit("collective")),
        launch_key=pl.when(pl.col("module_of_launch").is_not_null()).then("execution"),
    ).pipe(frames.conform, frames.OPS)


def _kinds_by_name(kernels: pl.Series) -> dict[str, str | None]:
    """Kind of each kernel that NCCL or RCCL names, where nothing but its name tells; None for one that
    may be part of any kind: of one that sends and receives, or has all in it, that is all there is."""
    names = kernels.unique().drop_nulls()  # few, and the pattern is slow
    return {name: kind_of(name) for name in names.filter(names.str.contains(KERNEL))}


def findings(
    plane: str, kernels: pl.DataFrame, derived: Mapping[str, int], source: str
) -> list[Issue]:
    """What is to be said of kernels, and of events on DERIVED lines (line -> how many)."""
    anonymous = kernels.filter(pl.col("hlo_op").is_null())
    kinds = _kinds_by_name(anonymous["kernel"])
    told = [name for name, kind in kinds.items() if kind is not None]
    untold = [name for name, kind in kinds.items() if kind is None]
    found = (
        (
            anonymous.height,
            "kernel_without_op",
            f"{plane}: kernels that name no HLO op: they are ops by their own name, without layer",
        ),
        (
            anonymous.filter(pl.col("kernel").is_in(told)).height,
            "kind_inferred",
            f"{plane}: collectives known by their kernel's name alone: no payload, no group",
        ),
        (
            anonymous.filter(pl.col("kernel").is_in(untold)).height,
            "collective_kind_unknown",
            f"{plane}: NCCL kernels of no kind that is told apart: one that sends and receives may be "
            "part of any",
        ),
        (
            sum(derived.values()),
            "derived_lines",
            f"{plane}: events on lines that a profiler derived from the streams "
            f"({', '.join(sorted(derived))}) are in host_events, not counted as ops",
        ),
    )
    return [Issue("info", code, message, source, count) for count, code, message in found if count]
