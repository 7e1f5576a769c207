"""Reads one xplane file: passes every plane to its reader."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath

import polars as pl

from xlahouse.capture.errors import LimitError, TraceFormatError
from xlahouse.capture.limits import exceeded
from xlahouse.ingest.events import frames
from xlahouse.ingest.events.codes_of_files import (
    DAMAGED_PLANE,
    EMPTY_PLANES,
    END_UNSEEN,
    LIMIT_EXCEEDED,
    TRUNCATED,
    UNKNOWN_FIELDS,
)
from xlahouse.ingest.events.codes_of_names import HOST_UNSEEN
from xlahouse.ingest.events.codes_of_programs import DAMAGED_HLO
from xlahouse.ingest.events.containers import GZIP, ZSTD, unpack
from xlahouse.ingest.events.frames import PlaneEvents
from xlahouse.ingest.events.gpu_calls import HostCalls
from xlahouse.ingest.events.issues import issues_found
from xlahouse.ingest.events.misread import is_program_proto
from xlahouse.ingest.events.producers import linked
from xlahouse.ingest.events.run_files import RankInName
from xlahouse.ingest.events.trace_bytes import TraceBytes
from xlahouse.ingest.hlo.file_events import FileEvents
from xlahouse.ingest.hlo.names import launched_modules
from xlahouse.ingest.xplane import gpu, host, sparsecore, wire, xspace
from xlahouse.ingest.xplane.decode import DecodeError
from xlahouse.ingest.xplane.opened import SMALL_PLANE, Opened, open_planes
from xlahouse.ingest.xplane.programs import programs_of_plane
from xlahouse.ingest.xplane.unknown_fields import unknown_fields
from xlahouse.ingest.xplane.wire import SpaceBytes
from xlahouse.ingest.xplane.xspace import Plane

METADATA_PLANE = "/host:metadata"
ENVIRONMENT = "Task Environment"
# Names of the host's events around the launch of a program or kernel, of all runtimes so far.
_LAUNCHING = r"(?i)execut\w*::\w*execute|::execute\b|launch(?:Cooperative)?Kernel|GraphLaunch"
_HEAD = 1 << 12  # bytes that tell an HLO proto, which parses as an xplane without a known field
_DEVICE_PLANE = re.compile(r"^/device:(?!CUSTOM)")


def read_xplane(raw: TraceBytes, path: str, rank: RankInName | None = None) -> FileEvents:
    """Read an xplane file. rank: what its name states, where its host and devices are not known else.

    Raises:
        TraceFormatError: nothing can be read from it.
    """
    packed = bytes(raw[:4]).startswith((GZIP, ZSTD))
    raw, damage = unpack(bytes(raw)) if packed else (raw, None)
    if is_program_proto(bytes(raw[:_HEAD])):
        raise TraceFormatError(path, "it is a compiled program, not a trace")
    try:
        space = wire.split_space(raw, path)
    except TraceFormatError as error:
        if damage is None or damage not in map(exceeded, ("unpacked_bytes", "unpacked_ratio")):
            raise
        raise LimitError(path, damage) from error
    stem = PurePosixPath(path).name.partition(".xplane.pb")[0]
    own = rank.host if rank is not None else stem
    read = FileEvents(path, space.hostnames[0] if space.hostnames else own)
    if damage is not None:
        detail = f"{damage}; what was unpacked before is kept"
        read.issues.append(TRUNCATED.found(path, detail=detail))
    if space.damaged_at is not None:
        detail = f"cut off or damaged at byte {space.damaged_at:,}; the planes before it are kept"
        read.issues.append(TRUNCATED.found(path, detail=detail))
    unknown = space.unknown + unknown_fields(space.planes)
    read.issues += issues_found(path, (UNKNOWN_FIELDS, unknown))
    space = replace(space, planes=sorted(space.planes, key=_turn))
    names = [wire.plane_name(plane) for plane in space.planes]
    if not space.hostnames and ENVIRONMENT not in names and space.damaged_at is None:
        read.issues.append(END_UNSEEN.found(path))
    virtual = not any(_DEVICE_PLANE.match(name) for name in names)
    read.profile_start_ns = _profile_start(space, names, path)
    calls = _gpu_calls(space, names, read)
    for opened in _opened(space, path, read, 0 if rank is None else rank.first_number):
        plane = opened.plane
        try:
            events = _read_plane(opened, read, virtual, calls)
            if events is not None:
                read.planes.append(_put_off(events, sum(map(len, plane.payloads))))
        except DecodeError as error:
            detail = f"{plane.name} is damaged: {error}"
            read.issues.append(DAMAGED_PLANE.found(path, detail=detail))
        except Exception as error:  # damage can have any shape; it costs this plane alone
            detail = f"{plane.name} is inconsistent: {type(error).__name__}: {error}"
            read.issues.append(DAMAGED_PLANE.found(path, detail=detail))
    if host.HOST_PLANE not in names and any(plane.devices for plane in read.planes):
        read.issues.append(HOST_UNSEEN.found(path))
    _link(read)
    _give_counters_their_device(read)
    names_of_empty = f"{EMPTY_PLANES.meaning} ({_listed(read.empty_planes)})"
    read.issues += issues_found(path, (EMPTY_PLANES, len(read.empty_planes), names_of_empty))
    named, found = read.op_texts.programs(launched_modules(read.planes), read.programs, path)
    read.programs.update({program.program_id: program for program in named})
    read.issues += found + gpu.assumed_numbers(names, read.programs.values(), path)
    return read


def _give_counters_their_device(read: FileEvents) -> None:
    """Replace the local numbers in a host's counters by those of the file's devices; NULL for no device."""
    number_of = {
        device.local_ordinal: device.device_id
        for plane in read.planes
        for device in plane.devices
        if device.local_ordinal is not None and device.core != "sparsecore"
    }
    for place, plane in enumerate(read.planes):
        if not plane.devices and not plane.counters.is_empty():
            number = pl.col("device_id").replace_strict(
                number_of, default=None, return_dtype=pl.Int64
            )
            counters = plane.counters.with_columns(number)
            read.planes[place] = replace(plane, counters=counters)


def _listed(names: list[str]) -> str:
    return ", ".join(sorted(names)[:3]) + ", …" * (len(names) > 3)


def _turn(plane: TraceBytes) -> int:
    """When a serialized plane is read: programs before what ran them, a SparseCore after the device that
    it is a part of."""
    name = wire.plane_name(plane)
    return 0 if name == METADATA_PLANE else 2 if sparsecore.SPARSECORE_PLANE.match(name) else 1


def _put_off(events: PlaneEvents, size: int) -> PlaneEvents:
    """A plane that holds its small frames. size: bytes of its lines."""
    if size <= SMALL_PLANE:  # no more than what is decoded with them
        return replace(events, bytes=size)
    return replace(
        events,
        launches=frames.owned(events.launches),
        markers=frames.owned(events.markers),
        producers=frames.owned(events.producers),
        bytes=size,
    )


def _profile_start(space: SpaceBytes, names: list[str], path: str) -> int | None:
    """When profiling started (or the first line did), UNIX ns; None where the file does not state it."""
    alone = [plane for plane, name in zip(space.planes, names, strict=True) if name == ENVIRONMENT]
    for plane in xspace.decode_planes(replace(space, planes=alone), path):
        start = None if isinstance(plane, TraceFormatError) else plane.stat("profile_start_time")
        if isinstance(start, int) and 0 < start < wire.LATEST_UNIX_NS:
            return start
    return wire.earliest_unix_ns(space)


def _link(read: FileEvents) -> None:
    """Give launches the time of their enqueue. Ids are a process's own, so they link within its file."""
    producers = frames.stack([plane.producers for plane in read.planes], frames.PRODUCERS)
    launches = frames.stack([plane.launches for plane in read.planes], frames.LAUNCHES)
    found, before = linked(launches, producers), 0
    for number, plane in enumerate(read.planes):
        own = found.slice(before, plane.launches.height)
        read.planes[number] = replace(plane, launches=own)
        before += own.height


def _opened(space: SpaceBytes, path: str, read: FileEvents, first_number: int) -> Iterator[Opened]:
    """The planes that can be decoded."""
    start_ns = read.profile_start_ns or 0
    for opened in open_planes(space, path, read.host, start_ns, first_number):
        if isinstance(opened, TraceFormatError):
            code = LIMIT_EXCEEDED if isinstance(opened, LimitError) else DAMAGED_PLANE
            read.issues.append(code.found(path, detail=opened.reason))
        else:
            yield opened


def _gpu_calls(space: SpaceBytes, names: list[str], read: FileEvents) -> HostCalls:
    """The host's launches on GPUs: GPU planes need them, and come before the host's in a file."""
    if not any(gpu.GPU_PLANE.match(name) for name in names):
        return HostCalls()
    hosts = [
        plane for plane, name in zip(space.planes, names, strict=True) if name == host.HOST_PLANE
    ]
    for plane in xspace.decode_planes(replace(space, planes=hosts), read.path):
        if isinstance(plane, Plane):
            try:
                calls = gpu.host_calls(plane)
            except DecodeError:  # reported where the plane itself is read
                return HostCalls()
            read.issues += calls.issues(read.path)
            return calls
    return HostCalls()


def _read_plane(
    opened: Opened, read: FileEvents, virtual: bool, calls: HostCalls
) -> PlaneEvents | None:
    """The events of a plane; None where it has none."""
    plane = opened.plane
    if plane.name == METADATA_PLANE:
        for program in programs_of_plane(plane):
            if isinstance(program, ValueError):
                read.issues.append(DAMAGED_HLO.found(read.path, detail=str(program)))
            else:
                read.programs[program.program_id] = program
    if plane.is_empty:
        if _DEVICE_PLANE.match(plane.name):
            read.empty_planes.append(plane.name)
        return None
    if isinstance(opened.tpu, Exception):
        raise opened.tpu
    if opened.tpu is not None:
        read.op_texts.add(opened.tpu.texts)
        return opened.tpu.events
    if sparsecore.SPARSECORE_PLANE.match(plane.name):
        owners = {device.plane: device for done in read.planes for device in done.devices}
        return sparsecore.read_sparsecore_plane(plane, read.path, read.host, owners)
    if gpu.GPU_PLANE.match(plane.name):
        return gpu.read_gpu_plane(plane, read.path, read.host, calls)
    if plane.name != host.HOST_PLANE:
        if _DEVICE_PLANE.match(plane.name):
            read.unknown_kinds.append(f"plane {plane.name}")
        return host.read_unknown_plane(plane, read.path, read.host)
    launching = plane.metadata["name"].str.contains(_LAUNCHING).any()
    read.launches_seen = read.launches_seen or launching
    ran = None
    if virtual:
        # Traces of accelerators do not wait for it to load.
        from xlahouse.ingest.xplane.cpu.plane import read_cpu_plane

        ran = read_cpu_plane(plane, read.path, read.host, read.programs)
    return ran or host.read_host_plane(plane, read.path, read.host)
