"""Findings about a run's files: missing, repeated, refused or replaced ones."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from xlahouse.capture.errors import TraceFormatError
from xlahouse.capture.manifest import Manifest
from xlahouse.ingest.events.codes_of_devices import DEVICES_MISSING, ONE_RANK
from xlahouse.ingest.events.codes_of_files import (
    CARD_UNREADABLE,
    DUPLICATE_FILE,
    HOSTS_MISSING,
    NO_DEVICE_EVENTS,
    OTHER_CONTAINER,
    UNREADABLE_FILE,
    XPLANE_REPLACED,
)
from xlahouse.ingest.events.codes_of_names import (
    COLUMNS_UNSTATED,
    DEVICE_KIND_UNKNOWN,
    GROUP_STATED,
    PEAK_UNKNOWN,
)
from xlahouse.ingest.events.frames import Device
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.events.run_files import RunFiles
from xlahouse.ingest.events.trace_bytes import SourceFile
from xlahouse.ingest.hlo.file_events import FileEvents
from xlahouse.ingest.table import RunRow

# What readers call a device whose kind the trace does not state.
GENERIC_KINDS = ("TPU", "GPU")
# Kinds of TPUs whose peaks views/efficiency/_chip_peaks_v1.sql has, in lower case, without blanks.
TPU_KINDS = re.compile(r"(?:tpu)?v?(?:[2347]|5(?:lite|litepod|e|p)?|6(?:lite|e)|7x)")
# By the reader of a device: columns that all healthy samples of its traces state, and what rests on them.
_ON_TPU = {
    "ops.hlo_category": "op_profile by category",
    "ops.model_flops": "model FLOPs of ops and layers",
    "ops.bytes_accessed": "the memory side of rooflines",
}
_EPOCH = {"runs.epoch_ns": "the date of the capture, and clocks of several files"}
_OWN_PEAK = "the trace's own peak"
USUAL = {
    "TPU xplane": _ON_TPU
    | _EPOCH
    | {
        "ops.flops": "hfu_ratio and rooflines",
        "ops.hbm_bytes": "rooflines take all bytes accessed in its place, as a bound",
        "devices.chip_id": "which devices share a chip",
        "devices.peak_flops": _OWN_PEAK,
        "devices.peak_hbm_bytes_per_s": _OWN_PEAK,
    },
    "TPU Chrome trace": _ON_TPU,
    "GPU xplane": _EPOCH | {"devices.peak_hbm_bytes_per_s": _OWN_PEAK},
    "CPU xplane": _EPOCH,
    "Kineto trace": {
        "collectives.sequence": "pairs of transfers among ranks rest on times alone",
        "instructions.logical_bytes": "sizes of what collectives give",
    },
    "host's xplane": _EPOCH,
}


def card_problem(run: RunFiles) -> list[Issue]:
    """Why a run has no workload card, although files beside it look like one."""
    return issues_found(run.name, (CARD_UNREADABLE, int(bool(run.card_problem)), run.card_problem))


def refusals(errors: list[TraceFormatError]) -> list[Issue]:
    """Files that cannot be read."""
    return [UNREADABLE_FILE.found(error.path, detail=error.reason) for error in errors]


def replacements(run: RunFiles) -> list[Issue]:
    """Xplanes whose Chrome trace was read in their place."""
    instead = "the Chrome trace beside it is read instead"
    return [
        XPLANE_REPLACED.found(path, detail=f"{reason}; {instead}") for path, reason in run.replaced
    ]


def others(run: RunFiles) -> list[Issue]:
    """Traces in the run's folders that are not read."""
    return [
        OTHER_CONTAINER.found(path, detail=f"{kind}, which is not read")
        for path, kind in run.others
    ]


def missing_ranks(ranks: Iterable[tuple[int, int]], source: str) -> list[Issue]:
    """The finding that a run lacks ranks. ranks: FileEvents.ranks of all files."""
    told = list(ranks)
    found, count = {rank for rank, _ in told}, max((world for _, world in told), default=0)
    if not told or len(found) >= count:
        return []
    detail = f"files of {len(found)} of {count} ranks"
    return [ONE_RANK.found(source, count - len(found), detail)]


def missing_devices(row: RunRow, files: list[FileEvents], source: str) -> list[Issue]:
    """Devices that take part but have no events: their side of each transfer is unknown."""
    traced, expected = row["device_count"], row["expected_device_count"] or 0
    if not traced:
        return [NO_DEVICE_EVENTS.found(source, detail=_why_no_device(files))]
    empty = sum(len(file.empty_planes) for file in files)
    elsewhere = expected - traced - empty  # an empty plane is a finding of its own
    if elsewhere <= 0:
        return []
    detail = f"{traced} of {expected} devices are traced"
    return [DEVICES_MISSING.found(source, elsewhere, detail)]


def unknown_kind(row: RunRow, is_given: bool, on_tpu: bool, source: str) -> list[Issue]:
    """The finding that trace, manifest, card and user state no kind of the devices, or none that is known.

    on_tpu: whether they are TPUs; other devices have no peaks beside those that a trace states.
    """
    kind = row["device_kind"]
    if is_given or kind is None:
        return []
    if kind in GENERIC_KINDS:
        return issues_found(source, (DEVICE_KIND_UNKNOWN, row["device_count"]))
    if not on_tpu or TPU_KINDS.fullmatch(kind.lower().replace(" ", "")):
        return []
    detail = f"the kind of the devices, {kind}, is no TPU that has peaks here"
    return [DEVICE_KIND_UNKNOWN.found(source, row["device_count"], detail)]


def unknown_peaks(files: list[FileEvents], source: str) -> list[Issue]:
    """The finding that GPUs state no peak; of their traces only an xplane may."""
    devices = [
        d for file in files if file.format == "xplane" for p in file.planes for d in p.devices
    ]
    unknown = sum(device.core == "gpu" and device.peak_flops is None for device in devices)
    return issues_found(source, (PEAK_UNKNOWN, unknown))


def reader_of(file: FileEvents, device: Device) -> str:
    """The reader of a device, as USUAL names it; another text for one that has no columns there."""
    kind = {"tensorcore": "TPU", "gpu": "GPU", "cpu": "CPU"}.get(device.core, device.core)
    if file.format == "xplane":
        return f"{kind} xplane"
    of_kineto = kind == "GPU" and not device.plane.startswith("/device")
    return "Kineto trace" if of_kineto else f"{kind} Chrome trace"


def unstated(
    row: RunRow, files: list[FileEvents], stated: Mapping[str, Collection[str]], source: str
) -> list[Issue]:
    """The finding that columns are NULL which traces of the same readers state.

    Args:
        row: of the run.
        files: of the run.
        stated: table -> columns with a value; tables without a row are another finding's.
        source: the run.
    """
    readers = {
        reader_of(file, device)
        for file in files
        for plane in file.planes
        for device in plane.devices
        if device.core != "sparsecore"
    } or {f"host's {file.format}" for file in files}
    known = dict(stated) | {"runs": [name for name, value in row.items() if value is not None]}
    lost = {}
    for name, use in set[tuple[str, str]].intersection(
        *(set(USUAL.get(reader, {}).items()) for reader in readers)
    ):
        table, _, column = name.partition(".")
        if table in known and column not in known[table]:
            lost[name] = use
    on_tpu = any(reader.startswith("TPU") for reader in readers)
    lost |= _of_programs(known, on_tpu)
    texts = ", ".join(f"{name} ({use})" for name, use in sorted(lost.items()))
    return issues_found(
        source, (COLUMNS_UNSTATED, len(lost), f"{COLUMNS_UNSTATED.meaning}: {texts}")
    )


def _of_programs(known: Mapping[str, Collection[str]], on_tpu: bool) -> dict[str, str]:
    """Columns of instructions that are NULL although what they are stated with is known."""
    if "programs" not in known:
        return {}
    stated, of_ops = known.get("instructions", ()), known.get("ops", ())
    lost = {}
    if "schedule_index" not in stated:
        lost["instructions.schedule_index"] = "what is in memory when"
    if on_tpu and "estimated_cycles" not in stated:
        lost["instructions.estimated_cycles"] = "compiler_cost"
    if "source_file" in stated and "source_line" not in stated:
        lost["instructions.source_line"] = "lines in source files, whose names are stated"
    if "framework_op" not in stated and {"layer", "component"} & {*of_ops}:
        lost["instructions.framework_op"] = "scopes of instructions, which ops state"
    return lost


def stated_groups(is_stated: bool, source: str) -> list[Issue]:
    """The finding that the user stated a group that the trace does not."""
    return issues_found(source, (GROUP_STATED, int(is_stated)))


def _why_no_device(files: list[FileEvents]) -> str:
    """What the files have in place of a device's events."""
    empty = [name for file in files for name in file.empty_planes]
    unknown = list(dict.fromkeys(kind for file in files for kind in file.unknown_kinds))
    if empty:
        return f"{len(empty)} planes of devices are empty ({', '.join(sorted(empty)[:3])})"
    if unknown:
        return f"events of no device that is known here: {', '.join(unknown[:3])}"
    launching = [file for file in files if file.launches_seen]
    if launching:
        return (
            "hosts launched programs, but there is no plane of a device: the profiler lost it, or did not "
            "record it"
        )
    return "there is no plane of a device, and no sign that a host launched a program"


def missing_hosts(manifest: Manifest | None, found: list[str], source: str) -> list[Issue]:
    """Hosts that the capture ran on and that left no trace."""
    expected = manifest.host_count if manifest else 0
    if len(found) >= expected:
        return []
    detail = f"{len(found)} of {expected} hosts of the capture left a trace ({', '.join(found)})"
    return [HOSTS_MISSING.found(source, expected - len(found), detail)]


def distinct(sources: list[SourceFile]) -> tuple[list[SourceFile], list[Issue]]:
    """(files that differ in their bytes, a finding for each copy)."""
    first: dict[str, SourceFile] = {}
    copies = []
    for source in sources:
        known = first.setdefault(source.sha256 if source.bytes else source.path, source)
        if known is not source:
            detail = f"the same bytes as {known.path}"
            copies.append(DUPLICATE_FILE.found(source.path, detail=detail))
    return list(first.values()), copies
