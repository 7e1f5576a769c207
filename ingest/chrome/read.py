"""Reads a Chrome trace file, of XLA's profiler or of PyTorch's: each process goes to its reader."""

from __future__ import annotations

import msgspec
import polars as pl

from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.capture.errors import TraceFormatError
from xlahouse.capture.limits import exceeded
from xlahouse.ingest.chrome import gpu, host, kineto, links, ops, tpu
from xlahouse.ingest.chrome.columns import Trace, read_columns
from xlahouse.ingest.chrome.files import host_of
from xlahouse.ingest.chrome.kineto_ops import calls_among
from xlahouse.ingest.chrome.rows import integer
from xlahouse.ingest.chrome.spans import find_spans
from xlahouse.ingest.events import frames
from xlahouse.ingest.events.codes_of_files import (
    DAMAGED_EVENT,
    DAMAGED_HEADER,
    EVENTS_CAPPED,
    LIMIT_EXCEEDED,
    MENDED_EVENT,
    TRUNCATED,
)
from xlahouse.ingest.events.frames import PlaneEvents
from xlahouse.ingest.events.gpu_calls import HostCalls
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.hlo.file_events import FileEvents

MOST_EVENTS = 1_000_000  # XLA's exporter keeps the earliest (jax#21295)
_DEVICE_PREFIX = "/device:"


def read_chrome(raw: bytes, path: str) -> FileEvents:
    """Read a Chrome trace.

    Raises:
        TraceFormatError: no event can be read from it, and it does not even name a process.
    """
    try:
        trace = read_columns(raw)
    except ValueError as error:
        raise TraceFormatError(path, str(error)) from error
    names_processes = bool(trace.processes) and not trace.damage
    if trace.events.is_empty() and not names_processes:
        raise TraceFormatError(path, f"no event can be read from it{_because(trace)}")
    read = FileEvents(path, host_of(path), format="chrome")
    spans = find_spans(trace.events, _base_ns(trace), path)
    read.profile_start_ns = spans.start_ns
    read.issues += [*_damage(trace, path), *spans.issues]
    if trace.document.lost:
        read.planes.append(PlaneEvents(coverage=_lost(trace.document.lost, path)))
    rows, refused = _on_lines(trace, spans.rows), _on_lines(trace, spans.refused)
    is_kineto = kineto.is_kineto(trace)
    trace.events = trace.events.clear()  # a million of them take some hundred megabytes
    del spans
    if is_kineto:
        planes, programs = kineto.read_kineto(trace, rows, refused, path, read.host)
        read.planes += planes
        read.unknown_kinds = kineto.unknown_categories(rows)
        read.launches_seen = not calls_among(rows).is_empty()
        read.ranks = kineto.ranks_of(trace, planes)
        read.programs |= {program.program_id: program for program in programs}
    else:
        _read_processes(trace, rows, refused, read)
    return read


def _because(trace: Trace) -> str:
    return f": {trace.damage}" if trace.damage else ""


def _base_ns(trace: Trace) -> int | None:
    """UNIX time that PyTorch's profiler counts times from; XLA's does not state one."""
    try:
        return integer(msgspec.json.decode(trace.header.get("baseTimeNanoseconds", b"null")))
    except JSON_FAULTS:
        return None


def _damage(trace: Trace, path: str) -> list[Issue]:
    """Findings about damage to the whole file."""
    document, count = trace.document, trace.events.height
    ends_early = trace.damage is not None or (document.ends_early and not document.capped)
    cut = trace.damage or "its array of events has no end"
    late = "it begins in the middle of the events"
    kept = f"the {count:,} events that are whole are kept"
    capped = count if count >= MOST_EVENTS and _is_xla(trace) else 0
    return issues_found(
        path,
        (LIMIT_EXCEEDED, document.oversized, exceeded("json_bytes")),
        (LIMIT_EXCEEDED, int(document.capped), f"{exceeded('events')}; {kept}"),
        (TRUNCATED, int(document.starts_late), f"{late}; {kept}"),
        (TRUNCATED, int(ends_early), f"{cut}; {kept}"),
        (DAMAGED_HEADER, int(document.header_damaged)),
        (DAMAGED_EVENT, document.lost),
        (MENDED_EVENT, document.repaired),
        (EVENTS_CAPPED, capped, f"{capped:,} events: the exporter keeps the earliest million"),
    )


def _is_xla(trace: Trace) -> bool:
    names = trace.processes.values()
    return any(name.startswith((_DEVICE_PREFIX, host.HOST_PROCESS)) for name in names)


def _lost(count: int, path: str) -> pl.DataFrame:
    row = (path, "", "damaged text", None, count, 0, count)
    return pl.DataFrame([row], schema=frames.COVERAGE, orient="row")


def _on_lines(trace: Trace, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows with the pid, thread and lane of their line; a thread without a name is called by its tid."""
    names = [(pid, trace.threads.get((pid, tid), tid)) for pid, tid in trace.lines]
    lines = pl.DataFrame(names, schema={"pid": pl.String, "thread": pl.String}, orient="row")
    lines = lines.with_columns(frames.lanes(lines, ["pid", "thread"]))
    return rows.with_columns(lines[name].gather(rows["line"]) for name in lines.columns)


def _read_processes(
    trace: Trace, rows: pl.DataFrame, refused: pl.DataFrame, read: FileEvents
) -> None:
    """Pass every process of an XLA export to its reader."""
    devices = [pid for pid, name in trace.processes.items() if _DEVICE_PREFIX in name]
    virtual = not any(name.startswith(_DEVICE_PREFIX) for name in trace.processes.values())
    hosts = [pid for pid, _ in trace.lines if pid not in devices]
    rows = links.with_enqueue(rows, hosts)
    texts: list[pl.DataFrame] = []
    calls = _gpu_calls(trace, rows.filter(pl.col("pid").is_in(hosts)), read)
    for pid in dict.fromkeys(pid for pid, _ in trace.lines):
        mine, bad = rows.filter(pl.col("pid") == pid), refused.filter(pl.col("pid") == pid)
        if mine.is_empty() and bad.is_empty():
            continue
        name = trace.processes.get(pid, f"process {pid}")
        if tpu.TPU_PROCESS.search(name):
            plane, told = tpu.read_tpu_process(name, mine, bad, read.path, read.host)
            texts.append(told)
        elif gpu.GPU_PROCESS.search(name):
            plane = gpu.read_gpu_process(name, mine, bad, read.path, read.host, calls)
        else:
            plane = host.read_host_process(name, mine, bad, read.path, read.host, virtual)
        read.planes.append(plane)
    texts = ops.number_without_launch(read.planes, texts)
    programs, found = ops.programs_of_texts(texts, read.path)
    read.programs.update({program.program_id: program for program in programs})
    read.issues += found


def _gpu_calls(trace: Trace, on_hosts: pl.DataFrame, read: FileEvents) -> HostCalls:
    """The hosts' launches on GPUs."""
    if not any(gpu.GPU_PROCESS.search(name) for name in trace.processes.values()):
        return HostCalls()
    calls = gpu.host_calls(on_hosts)
    read.issues += calls.issues(read.path)
    return calls
