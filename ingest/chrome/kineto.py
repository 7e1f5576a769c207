"""Reads a trace of PyTorch's profiler (Kineto): kernels of GPUs by stream, and host events."""

from __future__ import annotations

import msgspec
import polars as pl

from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.ingest.chrome.columns import Trace
from xlahouse.ingest.chrome.events import Key
from xlahouse.ingest.chrome.kineto_collectives import process_groups, rank_of
from xlahouse.ingest.chrome.kineto_ops import calls_among, of_category, read_kernels
from xlahouse.ingest.chrome.kineto_ranks import rank_numbers, with_rank
from xlahouse.ingest.chrome.kineto_steps import PROFILER_STEP, launches_of, marked_steps, with_steps
from xlahouse.ingest.chrome.rows import counter_rows, coverage_of, host_rows, integer
from xlahouse.ingest.chrome.spans import COMPLETE, COUNTER
from xlahouse.ingest.events import frames
from xlahouse.ingest.events.codes_of_devices import DEVICE_NUMBER_ASSUMED
from xlahouse.ingest.events.codes_of_names import UNKNOWN_CATEGORY
from xlahouse.ingest.events.frames import Device, PlaneEvents
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.hlo.program import Program

HEADER = ("schemaVersion", "deviceProperties", "distributedInfo", "baseTimeNanoseconds")
_ON_HOST = (
    "cpu_op", "user_annotation", "gpu_user_annotation", "cuda_runtime", "cuda_driver", "runtime", "driver",
    "ac2g", "async_cpu_to_gpu", "fwdbwd", "python_function", "cpu_instant_event", "overhead", "trace",
    "operator", "cuda_sync",
)  # fmt: skip
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")  # older ones are capitalised


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
    about = trace.header.get("distributedInfo", msgspec.Raw(b"{}"))
    (rank, ranks), groups = rank_of(about), process_groups(about)
    ran = _ran_on_device(rows)
    rows = with_rank(rows, trace)
    kernels, others = _with_device(rows.filter(ran)), rows.filter(~ran)
    gpus = kernels.select("rank", "ordinal").unique().sort("rank", "ordinal").rows()
    numbers = _numbers(gpus, rank)
    found = read_kernels(kernels, others, groups, ranks, source)
    stepped = with_steps(found.ops, others, calls_among(others))
    kinds = _device_kinds(trace)
    planes = []
    for place, (label, ordinal) in enumerate(gpus):
        device_id = (numbers or {}).get((label, ordinal), place if label else ordinal)
        name = f"[{label}] GPU {ordinal}" if label else f"GPU {ordinal}"
        is_mine = (pl.col("rank") == label) & (pl.col("ordinal") == ordinal)
        mine = kernels.filter(is_mine)
        ops = stepped.filter(is_mine).with_columns(device_id=pl.lit(device_id, pl.Int64))
        device = Device(device_id, name, kinds.get(ordinal, "GPU"), "gpu", ordinal, host=host)
        planes.append(
            PlaneEvents(
                devices=[device],
                ops=frames.conform(ops, frames.OPS),
                launches=launches_of(ops),
                coverage=coverage_of(
                    source, name, mine.with_columns(table_name=pl.lit("ops")), refused.clear()
                ),
            )
        )
    strange = _of_unknown_category(others)
    names = ", ".join(strange["cat"].unique().sort().to_list())
    detail = f"{UNKNOWN_CATEGORY.meaning}: {names}"
    found.issues.extend(issues_found(source, (UNKNOWN_CATEGORY, strange.height, detail)))
    issues = [*found.issues, *_about_ranks(len(gpus) if numbers is None else 0, source)]
    return [*planes, _rest(trace, others, refused, source, host, issues)], found.programs


def unknown_categories(rows: pl.DataFrame) -> list[str]:
    """Categories of events that take time and that no reader knows: another device's, perhaps."""
    words = _of_unknown_category(rows)["cat"].unique().sort().to_list()
    return [f"category {word}" for word in words]


def _of_unknown_category(rows: pl.DataFrame) -> pl.DataFrame:
    known = pl.col("cat").str.to_lowercase().is_in([*ON_DEVICE, *_ON_HOST, ""])
    return rows.filter((pl.col("ph") == COMPLETE) & ~known)


def _ran_on_device(events: pl.DataFrame) -> pl.Series:
    ran = of_category(events, ON_DEVICE) & pl.col("ph").is_in([COMPLETE, "B"])
    return events.select(ran.fill_null(False).alias("ran"))["ran"]


class _Place(msgspec.Struct, gc=False):
    """Where a kernel ran, by its arguments."""

    device: Key = None  # number of the GPU
    stream: Key = None  # number of the stream


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
    """(number of the GPU, name of the line). The pid of a merged file is `[TP01] 0`."""
    ordinal = integer(pid.rpartition("] ")[2]) if (number := integer(device)) is None else number
    return ordinal or 0, thread if stream is None else f"stream {stream}"


def _places(args: list[str | None]) -> list[_Place]:
    """Device and stream of each event; None where the arguments are not an object."""
    texts = [text or "{}" for text in args]
    try:
        return msgspec.json.decode(f"[{','.join(texts)}]", type=list[_Place])
    except JSON_FAULTS:
        return [_place(text) for text in texts]


def _place(args: str) -> _Place:
    try:
        return msgspec.json.decode(args, type=_Place)
    except JSON_FAULTS:
        return _Place()


def _device_kinds(trace: Trace) -> dict[int, str]:
    """Kinds of the devices, by ordinal."""
    try:
        listed = msgspec.json.decode(trace.header.get("deviceProperties", b"[]"), type=list[object])
    except JSON_FAULTS:
        return {}
    told = [entry for entry in listed if isinstance(entry, dict) and entry.get("name")]
    return {number: str(e["name"]) for e in told if (number := integer(e.get("id"))) is not None}


def _numbers(gpus: list[tuple[str, int]], rank: int | None) -> dict[tuple[str, int], int] | None:
    """Rank of each GPU, by label and number; None where the file does not state it.

    A file of several ranks states the rank of the one whose header it kept.
    """
    labels = [label for label, _ in gpus]
    if len(gpus) == 1 and rank is not None:
        return {gpus[0]: rank}
    ranks = rank_numbers(labels) if len(set(labels)) == len(labels) else None
    return None if ranks is None else {gpu: ranks[gpu[0]] for gpu in gpus}


def _about_ranks(unknown: int, source: str) -> list[Issue]:
    detail = "the file does not state which rank a GPU is"
    return [DEVICE_NUMBER_ASSUMED.found(source, unknown, detail)] if unknown else []


def ranks_of(trace: Trace, planes: list[PlaneEvents]) -> tuple[tuple[int, int], ...]:
    """(rank, number of ranks) of each process that was profiled; none where the file lacks them.

    Args:
        trace: the file.
        planes: of it; those of several ranks are devices by rank.
    """
    rank, world = rank_of(trace.header.get("distributedInfo", msgspec.Raw(b"{}")))
    if rank is None or world is None:
        return ()
    merged = [device for plane in planes for device in plane.devices if "[" in device.plane]
    labels = {device.plane.partition("]")[0] for device in merged}
    if len(labels) < 2:
        return ((rank, world),)
    if len(labels) < len(merged):  # several GPUs a rank
        return tuple((number, world) for number in range(len(labels)))
    return tuple((device.device_id, world) for device in merged)


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
    marks = marked_steps(rows)
    return marks.select(
        host=pl.lit(host),
        phase=pl.lit("step"),
        request=pl.lit(None, pl.Int64),
        step=pl.coalesce(
            pl.col("name").str.extract(PROFILER_STEP).cast(pl.Int64, strict=False),
            pl.int_range(pl.len()).over("pid"),
        ),
        start_ps="start_ps",
        duration_ps="duration_ps",
    )
