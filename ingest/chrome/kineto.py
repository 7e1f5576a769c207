"""Reads a trace of PyTorch's profiler (Kineto): kernels of GPUs by stream, and host events."""

from __future__ import annotations

import re

import msgspec
import polars as pl

from xlahouse.ingest.chrome.columns import Trace
from xlahouse.ingest.chrome.events import FAILURES, Key
from xlahouse.ingest.chrome.kineto_collectives import process_groups
from xlahouse.ingest.chrome.kineto_ops import of_category, read_kernels
from xlahouse.ingest.chrome.rows import counter_rows, coverage_of, host_rows, integer
from xlahouse.ingest.chrome.spans import COMPLETE, COUNTER
from xlahouse.ingest.events import frames
from xlahouse.ingest.events.codes_of_devices import DEVICE_NUMBER_ASSUMED
from xlahouse.ingest.events.frames import Device, PlaneEvents
from xlahouse.ingest.events.issues import Issue
from xlahouse.ingest.hlo.program import Program

HEADER = ("schemaVersion", "deviceProperties", "distributedInfo", "baseTimeNanoseconds")
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")  # older ones are capitalised
PROFILER_STEP = re.compile(r"ProfilerStep#(\d+)$")
_ANNOTATION = "user_annotation"


def is_kineto(trace: Trace) -> bool:
    """Whether PyTorch's profiler wrote the trace, and not XLA's."""
    return any(name in trace.header for name in HEADER) or _ran_on_device(trace.events).any()


def read_kineto(
    trace: Trace, rows: pl.DataFrame, refused: pl.DataFrame, source: str, host: str
) -> tuple[list[PlaneEvents], list[Program]]:
    """All events: a plane for each GPU that ran something, and one for everything else.

    Args:
        trace: the file.
        rows: ChromeSpans.rows with pid and thread.
        refused: (pid, thread) of events that were refused.
        source: the file's path.
        host: its host.
    """
    rank, ranks, groups = process_groups(trace.header.get("distributedInfo", msgspec.Raw(b"{}")))
    ran = _ran_on_device(rows)
    kernels, others = _with_device(rows.filter(ran)), rows.filter(~ran)
    ordinals = sorted(kernels["ordinal"].unique().to_list())
    number = {ordinals[0]: rank} if rank is not None and len(ordinals) == 1 else {}
    found = read_kernels(kernels, others, groups, ranks, source)
    kinds = _device_kinds(trace)
    planes = []
    for ordinal in ordinals:
        device_id, name = number.get(ordinal, ordinal), f"GPU {ordinal}"
        mine = kernels.filter(pl.col("ordinal") == ordinal)
        ops = found.ops.filter(pl.col("ordinal") == ordinal)
        device = Device(device_id, name, kinds.get(ordinal, "GPU"), "gpu", ordinal, host=host)
        planes.append(
            PlaneEvents(
                devices=[device],
                ops=frames.conform(ops.with_columns(device_id=pl.lit(device_id)), frames.OPS),
                coverage=coverage_of(
                    source, name, mine.with_columns(table_name=pl.lit("ops")), refused.clear()
                ),
            )
        )
    issues = [*found.issues, *_about_ranks(rank, ordinals, source)]
    return [*planes, _rest(trace, others, refused, source, host, issues)], found.programs


def _ran_on_device(events: pl.DataFrame) -> pl.Series:
    ran = of_category(events, ON_DEVICE) & pl.col("ph").is_in([COMPLETE, "B"])
    return events.select(ran.fill_null(False).alias("ran"))["ran"]


class _Place(msgspec.Struct, gc=False):
    """Where a kernel ran, by its arguments."""

    device: Key = None
    stream: Key = None


def _with_device(kernels: pl.DataFrame) -> pl.DataFrame:
    """Add `ordinal`, and the stream as `thread`: from the arguments, else from pid and tid."""
    told = _places(kernels["args"].to_list())
    lines = zip(told, kernels["pid"].to_list(), kernels["thread"].to_list(), strict=True)
    keys = [(place.device, place.stream, pid, thread) for place, pid, thread in lines]
    found = {key: _placed(*key) for key in dict.fromkeys(keys)}
    placed = [found[key] for key in keys]
    return kernels.with_columns(
        ordinal=pl.Series([ordinal for ordinal, _ in placed], dtype=pl.Int64),
        thread=pl.Series([stream for _, stream in placed], dtype=pl.String),
    )


def _placed(device: Key, stream: Key, pid: str, thread: str) -> tuple[int, str]:
    """(number of the GPU, name of the line)."""
    ordinal = integer(pid) if (number := integer(device)) is None else number
    return ordinal or 0, thread if stream is None else f"stream {stream}"


def _places(args: list[str | None]) -> list[_Place]:
    """Device and stream of each event; None where the arguments are not an object."""
    texts = [text or "{}" for text in args]
    try:
        return msgspec.json.decode(f"[{','.join(texts)}]", type=list[_Place])
    except FAILURES:
        return [_place(text) for text in texts]


def _place(args: str) -> _Place:
    try:
        return msgspec.json.decode(args, type=_Place)
    except FAILURES:
        return _Place()


def _device_kinds(trace: Trace) -> dict[int, str]:
    """Kinds of the devices, by ordinal."""
    try:
        listed = msgspec.json.decode(trace.header.get("deviceProperties", b"[]"), type=list[object])
    except FAILURES:
        return {}
    told = [entry for entry in listed if isinstance(entry, dict) and entry.get("name")]
    return {number: str(e["name"]) for e in told if (number := integer(e.get("id"))) is not None}


def _about_ranks(rank: int | None, ordinals: list[int], source: str) -> list[Issue]:
    if not ordinals or (rank is not None and len(ordinals) == 1):
        return []
    detail = "the file does not state which rank a GPU is"
    return [DEVICE_NUMBER_ASSUMED.found(source, len(ordinals), detail)]


def rank_of(trace: Trace) -> tuple[int, int] | None:
    """(rank, number of ranks) of the process that was profiled; None where the file lacks them."""
    rank, world, _ = process_groups(trace.header.get("distributedInfo", msgspec.Raw(b"{}")))
    return None if rank is None or world is None else (rank, world)


def _rest(
    trace: Trace,
    rows: pl.DataFrame,
    refused: pl.DataFrame,
    source: str,
    host: str,
    issues: list[Issue],
) -> PlaneEvents:
    """Events outside the GPUs: calls, annotations, flows and counters."""
    sampled = pl.col("ph") == COUNTER
    table = pl.when(sampled).then(pl.lit("counters")).otherwise(pl.lit("host_events"))
    rows = rows.with_columns(table_name=table)
    events, coverage = [], []
    for pid in rows["pid"].unique(maintain_order=True).to_list():
        mine = rows.filter(pl.col("pid") == pid)
        name = trace.labels.get(pid) or trace.processes.get(pid) or pid
        is_host = name == "CPU" or (integer(pid) is not None and not name.startswith("GPU "))
        kept = mine.filter(~sampled)
        events.append(host_rows(kept, host, "" if is_host else f"{name}/"))
        bad = refused.filter(pl.col("pid") == pid)
        coverage.append(coverage_of(source, name, mine, bad))
    alone = refused.join(rows.select("pid").unique(), on="pid", how="anti", nulls_equal=True)
    coverage.append(coverage_of(source, "", rows.clear(), alone))
    return PlaneEvents(
        host_events=frames.stack(events, frames.HOST_EVENTS),
        counters=counter_rows(rows.filter(sampled), None),
        markers=_steps(rows, host),
        coverage=frames.stack(coverage, frames.COVERAGE),
        issues=issues,
    )


def _steps(rows: pl.DataFrame, host: str) -> pl.DataFrame:
    """The profiler's own steps, as the host marked them."""
    marks = rows.filter(
        (pl.col("cat") == _ANNOTATION) & pl.col("name").str.contains(PROFILER_STEP.pattern)
    )
    return marks.select(
        host=pl.lit(host),
        phase=pl.lit("step"),
        request=pl.lit(None, pl.Int64),
        step=pl.col("name").str.extract(PROFILER_STEP.pattern).cast(pl.Int64, strict=False),
        start_ps="start_ps",
        duration_ps="duration_ps",
    )
