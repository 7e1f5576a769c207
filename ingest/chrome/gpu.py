"""Reads a GPU's process in a Chrome trace of XLA's profiler: kernels by stream, as in an xplane."""

from __future__ import annotations

import re

import msgspec
import polars as pl

from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.ingest.chrome.rows import counter_rows, coverage_of, host_rows, integer
from xlahouse.ingest.chrome.spans import COMPLETE, COUNTER
from xlahouse.ingest.events import frames, gpu_kernels
from xlahouse.ingest.events.frames import DEVICE_NUMBER, ColumnTypes, Device, PlaneEvents
from xlahouse.ingest.events.gpu_calls import HostCalls, calls_of

GPU_PROCESS = re.compile(rf"(?:^|/)device:GPU:{DEVICE_NUMBER}$")
_MODULES = r"^XLA Modules(?: - from #\d+)?$"
_NAMED_MODULE = r"^(.+)\((\d+)\)$"  # `jit_f(15)`
_KERNEL_STATS: ColumnTypes = {
    "event": pl.UInt32,
    "correlation_id": pl.Int64,
    "hlo_op": pl.String,
    "hlo_module": pl.String,
    "memcpy_details": pl.String,
    "program_id": pl.UInt64,
    "scope": pl.String,
}


class _KernelArgs(msgspec.Struct):
    """Arguments of a kernel, or of the call that launched it. Exports write all of them as strings."""

    correlation_id: int | str | None = None  # shared by a kernel and the call that launched it
    hlo_op: str | None = None  # name of the instruction
    hlo_module: str | None = None  # name of the program
    memcpy_details: str | None = None  # kind, size and ends of a copy
    program_id: int | str | None = None  # of the program
    name: str | None = None  # path in the model


def host_calls(rows: pl.DataFrame) -> HostCalls:
    """The calls on hosts that launched something on a GPU.

    Args:
        rows: ChromeSpans.rows of host processes, with `thread`.
    """
    calls = rows.filter(pl.col("args").str.contains('"correlation_id"', literal=True))
    told = calls.drop("id").join(_stats(calls), on="event").drop_nulls("correlation_id")
    of_program = pl.when(pl.col("hlo_module").is_not_null()).then(True)
    columns = ["event", "thread", "start_ps", "correlation_id"]
    known = told.select(*columns, call="name", of_program=of_program)
    return calls_of(known.sort("start_ps"), rows)


def read_gpu_process(
    name: str,
    rows: pl.DataFrame,
    refused: pl.DataFrame,
    source: str,
    host: str,
    calls: HostCalls,
) -> PlaneEvents:
    """All events of a GPU; what profilers derive from its streams goes to host_events.

    Args:
        name: of the process, which names the device.
        rows: ChromeSpans.rows of the process, with `thread`.
        refused: (thread), events of the process that were refused.
        source: the file.
        host: its host.
        calls: the hosts' launches.
    """
    match = GPU_PROCESS.search(name)
    if match is None:
        raise ValueError(f"{name} is not a GPU")
    number = int(match[1])
    rows = rows.with_columns(table_name=_table())
    sampled, others, ran = (
        rows.filter(pl.col("table_name") == table) for table in ("counters", "host_events", "ops")
    )
    kernels = _kernels(ran, _modules(others), calls)
    launches = gpu_kernels.launches_of(kernels)
    device_id = pl.lit(number, pl.Int64).alias("device_id")
    kept = others.filter(pl.col("ph").is_in([COMPLETE, "B"]))
    return PlaneEvents(
        devices=[Device(number, name, "GPU", "gpu", local_ordinal=number, host=host)],
        ops=gpu_kernels.ops_of(kernels, launches).with_columns(device_id),
        launches=launches.pipe(frames.conform, frames.LAUNCHES).with_columns(device_id),
        counters=counter_rows(sampled, number),
        host_events=host_rows(others, host, prefix=f"{name}/"),
        coverage=coverage_of(source, name, rows, refused),
        issues=gpu_kernels.findings(
            name, kernels, dict(kept.group_by("thread").len().iter_rows()), source
        ),
    )


def _table() -> pl.Expr:
    """The table that an event belongs in: a kernel is a span on a line that is not derived."""
    complete = pl.col("ph").is_in([COMPLETE, "B"])
    is_launched = pl.col("args").str.contains('"correlation_id"', literal=True).fill_null(False)
    launched = pl.col("thread").str.contains(gpu_kernels.STREAM) | is_launched.any().over("thread")
    return (
        pl.when(pl.col("ph") == COUNTER)
        .then(pl.lit("counters"))
        .when(complete & ~pl.col("thread").str.contains(gpu_kernels.DERIVED_LINE) & launched)
        .then(pl.lit("ops"))
        .otherwise(pl.lit("host_events"))
    )


def _stats(rows: pl.DataFrame) -> pl.DataFrame:
    """_KERNEL_STATS of events; NULL where the arguments lack one."""
    told = [(event, *_facts(args)) for event, args in rows.select("event", "args").iter_rows()]
    return pl.DataFrame(told, schema=_KERNEL_STATS, orient="row")


def _facts(args: str | None) -> tuple[object, ...]:
    try:
        told = msgspec.json.decode(args or "{}", type=_KernelArgs)
    except JSON_FAULTS:
        return (None,) * (len(_KERNEL_STATS) - 1)
    program = integer(told.program_id)
    return (
        integer(told.correlation_id),
        told.hlo_op or None,
        told.hlo_module or None,
        told.memcpy_details or None,
        None if program is None else program % (1 << 64),
        told.name or None,
    )


def _kernels(rows: pl.DataFrame, modules: pl.DataFrame, calls: HostCalls) -> pl.DataFrame:
    """Kernels as gpu_kernels.launches_of takes them; exports have program ids on derived lines only."""
    kept = rows.select("event", "thread", "lane", "start_ps", "duration_ps", kernel="name")
    linked = kept.join(_stats(rows), on="event", how="left", maintain_order="left")
    linked = linked.join(calls.frame, on="correlation_id", how="left", maintain_order="left")
    only = modules.group_by("hlo_module").agg(pl.col("module_id").unique())
    only = only.filter(pl.col("module_id").list.len() == 1).explode("module_id")
    named = linked.join(only, on="hlo_module", how="left", maintain_order="left")
    around = (
        linked.select("event", "hlo_module", "start_ps")
        .drop_nulls()
        .sort("start_ps")
        .join_asof(modules.sort("start_ps"), on="start_ps", by="hlo_module", check_sortedness=False)
        .filter(pl.col("start_ps") < pl.col("until"))
        .select("event", id_around="module_id")
    )
    placed = named.join(around, on="event", how="left", maintain_order="left")
    return placed.with_columns(program_id=pl.coalesce("program_id", "module_id", "id_around"))


def _modules(derived: pl.DataFrame) -> pl.DataFrame:
    """Executions on the derived lines: hlo_module, module_id, start_ps, until."""
    name = pl.col("name").str.extract_groups(_NAMED_MODULE)
    found = derived.filter(pl.col("thread").str.contains(_MODULES)).select(
        "start_ps",
        hlo_module=name.struct.field("1"),
        module_id=name.struct.field("2").cast(pl.UInt64, strict=False),
        until=pl.col("start_ps") + pl.col("duration_ps"),
    )
    return found.drop_nulls()
