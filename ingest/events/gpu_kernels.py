"""Kernels of a GPU as ops and launches, and which of them are collectives: for xplanes and Chrome traces."""

from __future__ import annotations

import re
from collections.abc import Mapping

import polars as pl

from xlahouse.ingest.events import frames
from xlahouse.ingest.events.codes_of_files import DERIVED_LINES
from xlahouse.ingest.events.codes_of_names import UNKNOWN_LINE
from xlahouse.ingest.events.codes_of_programs import (
    COLLECTIVE_KIND_UNKNOWN,
    KERNEL_WITHOUT_OP,
    KIND_INFERRED,
)
from xlahouse.ingest.events.issues import Issue

# Lines that a profiler derives from the streams: they repeat the same time.
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
# The name of such a line may say which stream it is from: `XLA Modules - from #16`.
DERIVED_LINE = rf"^(?:{'|'.join(map(re.escape, DERIVED))})(?: - from #\d+)?$"
STREAM = r"(?i)\bstream\b"  # in the name of a line of kernels: `Stream #16(Kernel)`
_COPY = r"(?i)^memcpy|^__amd_rocclr_copy|^copy(?:Host|Device)To"
_WITH_HOST = r"(?i)h(?:ost)?\s?(?:to|2)\s?d|d(?:evice)?\s?(?:to|2)\s?h"
# Names of kernels of NCCL or RCCL, and the kind of collective that each names.
KERNEL = r"(?i)^(?:void )?(?:nccl|rccl)|cross_device_reduce|^(?:void )?\w+::(?:nccl|rccl)"
_KIND_PATTERNS = (
    (r"(?i)all_?reduce|cross_device_reduce", "all-reduce"),
    (r"(?i)all_?gather", "all-gather"),
    (r"(?i)reduce_?scatter", "reduce-scatter"),
    (r"(?i)all_?to_?all", "all-to-all"),
    (r"(?i)broadcast", "collective-broadcast"),
    # PyTorch's own names of single transfers; NCCL's SendRecv kernel may be part of an all-to-all.
    (r"(?i)^(?:nccl:)?i?(?:send|recv)(?:_any_source)?(?![a-z_])", "send-recv"),
)


def kind_of(name: str) -> str | None:
    """Kind by a collective's name, in any of PyTorch's and NCCL's spellings."""
    return next((kind for pattern, kind in _KIND_PATTERNS if re.search(pattern, name)), None)


def launches_of(kernels: pl.DataFrame) -> pl.DataFrame:
    """An execution on a device: from its first kernel's start to its last one's end.

    Args:
        kernels: kernel (what ran), thread, lane, start_ps, duration_ps, hlo_op, hlo_module, program_id,
            memcpy_details, scope, and call, execution, enqueue_ps and enqueue_thread of gpu_calls.HostCalls.
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
            enqueue_thread=pl.col("enqueue_thread").sort_by("enqueue_ps").first(),
        )
        .with_columns(duration_ps=pl.col("until") - pl.col("start_ps"))
        .filter(pl.col("module").is_not_null())  # otherwise it launched no op of a program
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
    # An NCCL kernel without an op of a program, and without a known kind, is a collective too.
    moving = pl.col("kernel").is_in(list(kinds)) & pl.col("hlo_op").is_null() & kind.is_null()
    return placed.select(
        "start_ps",
        "duration_ps",
        "kernel",
        "scope",
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
    """Kind of each kernel that NCCL or RCCL names, by its name alone; None where that may be of
    any kind, as of kernels that send and receive, or that run every kind."""
    names = kernels.unique().drop_nulls()  # few, and the pattern is slow
    return {name: kind_of(name) for name in names.filter(names.str.contains(KERNEL))}


def findings(
    plane: str, kernels: pl.DataFrame, kept: Mapping[str, int], source: str
) -> list[Issue]:
    """Findings about kernels, and about events on other lines (line -> how many): derived or unknown ones."""
    derived = {name: count for name, count in kept.items() if re.search(DERIVED_LINE, name)}
    unknown = {name: count for name, count in kept.items() if name not in derived}
    anonymous = kernels.filter(pl.col("hlo_op").is_null())
    kinds = _kinds_by_name(anonymous["kernel"])
    named = [name for name, kind in kinds.items() if kind is not None]
    unnamed = [name for name, kind in kinds.items() if kind is None]
    found = (
        (KERNEL_WITHOUT_OP, anonymous.height, KERNEL_WITHOUT_OP.meaning),
        (
            KIND_INFERRED,
            anonymous.filter(pl.col("kernel").is_in(named)).height,
            "collectives whose kind only their kernel's name states",
        ),
        (
            COLLECTIVE_KIND_UNKNOWN,
            anonymous.filter(pl.col("kernel").is_in(unnamed)).height,
            COLLECTIVE_KIND_UNKNOWN.meaning,
        ),
        (
            DERIVED_LINES,
            sum(derived.values()),
            f"{DERIVED_LINES.meaning} ({', '.join(sorted(derived))})",
        ),
        (
            UNKNOWN_LINE,
            sum(unknown.values()),
            f"{UNKNOWN_LINE.meaning}: {', '.join(sorted(unknown))}",
        ),
    )
    return [
        code.found(source, count, f"{plane}: {detail}", info=bool(code.info_when))
        for code, count, detail in found
        if count
    ]
