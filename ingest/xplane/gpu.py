"""Reads a `/device:GPU:N` plane: kernels on streams become ops, executions become launches."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
import polars as pl

from xlahouse.ingest.events import frames
from xlahouse.ingest.events.codes_of_devices import DEVICE_NUMBER_ASSUMED
from xlahouse.ingest.events.frames import DEVICE_NUMBER, ColumnTypes, Device, PlaneEvents
from xlahouse.ingest.events.gpu_calls import EXECUTION, HostCalls, calls_of
from xlahouse.ingest.events.gpu_kernels import DERIVED_LINE, STREAM, findings, launches_of, ops_of
from xlahouse.ingest.events.issues import Issue
from xlahouse.ingest.events.op_events import OpEvents
from xlahouse.ingest.hlo.program import Program
from xlahouse.ingest.xplane.chosen_events import ChosenEvents, Found
from xlahouse.ingest.xplane.event_chunks import Mask, chunks, kinds_where
from xlahouse.ingest.xplane.host_pieces import HostPieces
from xlahouse.ingest.xplane.line_counts import LineCounts
from xlahouse.ingest.xplane.xspace import Plane

GPU_PLANE = re.compile(rf"^/device:GPU:{DEVICE_NUMBER}$")
# Stats that link a kernel to its program and to the call that launched it.
_GPU_STATS: ColumnTypes = {
    "hlo_op": pl.String,
    "hlo_module": pl.String,
    "program_id": pl.UInt64,
    "correlation_id": pl.Int64,
    "memcpy_details": pl.String,
    "scope": pl.String,
}
_STAT_OF = {"scope": "name"}  # the path in the model; columns of kernels have another `name`


def read_gpu_plane(plane: Plane, source: str, host: str | None, calls: HostCalls) -> PlaneEvents:
    """All events of a GPU plane; what profilers derive from its streams goes to host_events.

    Args:
        plane: the plane.
        source: its file.
        host: its host.
        calls: the host's launches on GPUs.
    """
    on_stream = _kernel_lines(plane)
    counts, kernels = _read_kernels(plane, on_stream, calls)
    launches = launches_of(kernels)
    device = _device(plane, host)
    number = pl.lit(device.device_id, pl.Int64).alias("device_id")
    elsewhere = np.where(_is_among(plane, on_stream), 0, counts.kept)
    return PlaneEvents(
        devices=[device],
        op_events=OpEvents.of_rows(ops_of(kernels, launches).with_columns(number)),
        launches=launches.pipe(frames.conform, frames.LAUNCHES).with_columns(number),
        host_pieces=HostPieces(plane.only(on_stream, invert=True), host, f"{plane.name}/"),
        coverage=counts.coverage(
            source, {"ops": counts.kept - elsewhere, "host_events": elsewhere}
        ),
        issues=counts.issues(source)
        + findings(plane.name, kernels, counts.by_name(elsewhere), source),
    )


def _device(plane: Plane, host: str | None) -> Device:
    match = GPU_PLANE.match(plane.name)
    if match is None:
        raise ValueError(f"{plane.name} is not a GPU plane")
    peak = plane.amount("peak_teraflops_per_second")
    return Device(
        device_id=int(match[1]),
        plane=plane.name,
        kind=_kind(plane),
        core="gpu",
        local_ordinal=int(match[1]),
        host=host,
        peak_flops=peak and peak * 1e12,
        peak_hbm_bytes_per_s=plane.amount("memory_bandwidth"),
    )


def assumed_numbers(planes: Iterable[str], programs: Iterable[Program], source: str) -> list[Issue]:
    """The finding that programs run on more GPUs than a host has: no plane states which are its own.

    Args:
        planes: names of a file's planes.
        programs: of the file.
        source: the file.
    """
    own = {int(found[1]) for name in planes if (found := GPU_PLANE.match(name))}
    places = [program.assignment for program in programs] if own else []
    named = {number for place in places if place for row in place.devices for number in row}
    if named <= own:
        return []
    detail = (
        f"programs name {len(named | own)} devices, this host has {len(own)} GPUs, and no plane states its "
        "number among all"
    )
    return [DEVICE_NUMBER_ASSUMED.found(source, len(own), detail)]


def _kind(plane: Plane) -> str:
    """`AMD GPU 9.4, 304 cores, 2100 MHz`: planes name no product."""
    stated = plane.text("device_type_string")
    if stated:
        return stated
    words = [plane.text("device_vendor") or "", "GPU"]
    major, minor = plane.text("compute_cap_major"), plane.text("compute_cap_minor")
    if major is not None:
        words.append(f"{major}.{minor or 0}")
    name = " ".join(word for word in words if word)
    cores, clock_khz = plane.text("core_count"), plane.amount("clock_rate")
    facts = [
        f"{cores} cores" if cores and cores != "0" else "",
        f"{int(clock_khz) // 1000} MHz" if clock_khz else "",
    ]
    return ", ".join([name, *(fact for fact in facts if fact)])


def _kernel_lines(plane: Plane) -> set[str]:
    """Names of the lines that hold kernels: streams, and other lines whose events a host launched."""
    names = set(plane.lines["name"].drop_nulls().to_list())
    streams = {name for name in names if re.search(STREAM, name)}
    unknown = {name for name in names - streams if not re.search(DERIVED_LINE, name)}
    for chunk in chunks(plane.only(unknown)):
        launched, _ = chunk.integers("correlation_id")
        streams |= set(chunk.frame(launched)["thread"].drop_nulls().to_list())
    return streams


def _is_among(plane: Plane, names: set[str]) -> Mask:
    """Of each line whether its name is among these."""
    mask: Mask = plane.lines["name"].is_in(list(names)).to_numpy()
    return mask


def _read_kernels(
    plane: Plane, lines: set[str], calls: HostCalls
) -> tuple[LineCounts, pl.DataFrame]:
    """(counts of events; the events on these lines, with the stats that link them to programs and to the
    host)."""
    counts, kernels = LineCounts.of(plane), ChosenEvents(plane, _GPU_STATS)
    on_stream = _is_among(plane, lines)
    for chunk in chunks(plane):
        counts.add(chunk)
        chunk.check_stats()
        found: dict[str, Found] = {
            column: chunk.texts(_STAT_OF.get(column, column))
            if kind == pl.String
            else chunk.integers(column, kind)
            for column, kind in _GPU_STATS.items()
        }
        kernels.add(chunk, on_stream[chunk.core.line] & chunk.in_time, found)
    linked = kernels.frame().rename({"name": "kernel"})
    return counts, linked.join(calls.frame, on="correlation_id", how="left", maintain_order="left")


def host_calls(plane: Plane) -> HostCalls:
    """The calls on a host plane that launched something on a GPU."""
    if "correlation_id" not in plane.stat_names["name"]:
        return HostCalls()
    made = ChosenEvents(plane, {"correlation_id": pl.Int64, "module": pl.String})
    ran = ChosenEvents(plane, {})
    is_execution = kinds_where(plane, pl.col("name").str.contains(EXECUTION))
    for chunk in chunks(plane):
        correlated = chunk.integers("correlation_id")
        chosen = np.zeros(len(chunk.core.line), bool)
        chosen[correlated[0]] = True
        found: dict[str, Found] = {
            "correlation_id": correlated,
            "module": chunk.texts("hlo_module"),
        }
        made.add(chunk, chosen & chunk.in_time, found)
        ran.add(chunk, chunk.of_kinds(is_execution), {})
    of_program = pl.when(pl.col("module").is_not_null()).then(True)
    calls = made.frame().select(
        "event", "thread", "start_ps", "correlation_id", call="name", of_program=of_program
    )
    return calls_of(calls.sort("start_ps"), ran.frame())
