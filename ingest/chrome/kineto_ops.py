"""Kernels and copies of PyTorch's profiler as ops; collectives by the trace's facts about each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import polars as pl

from xlahouse.ingest.chrome.kineto_collectives import NcclTransfer, annotated, recorded
from xlahouse.ingest.chrome.kineto_steps import CORRELATION
from xlahouse.ingest.chrome.rows import arguments
from xlahouse.ingest.events.codes_of_names import COPY_WAY_UNKNOWN
from xlahouse.ingest.events.codes_of_programs import (
    COLLECTIVE_KIND_UNKNOWN,
    COLLECTIVE_UNSEEN,
    KIND_INFERRED,
)
from xlahouse.ingest.events.frames import ColumnTypes
from xlahouse.ingest.events.gpu_kernels import KERNEL, kind_of
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.hlo.module_text import program_of_instructions
from xlahouse.ingest.hlo.program import Program

MODULE = "nccl"
_NCCL = "nccl:"  # what the host's annotations of collectives begin with
_RENAMED = "collectives that the host marks launched kernels of unknown names alone, which count as compute"
_LAUNCH_CATEGORIES = ("cuda_runtime", "cuda_driver", "runtime")
_IS_COPY = pl.col("cat").str.to_lowercase().str.contains("memcpy")
_WITH_HOST = r"(?i)HtoD|DtoH|HostToDevice|DeviceToHost"
_ON_DEVICE = r"|DtoD|PtoP|DeviceToDevice|Peer"
_TRANSFER: ColumnTypes = {
    "event": pl.UInt32,
    "op": pl.String,
    "module": pl.String,
    "program_id": pl.UInt64,
    "opcode_text": pl.String,
    "known": pl.Boolean,  # whether a Program describes it
    "traced_bytes": pl.Int64,
    "sequence": pl.Int64,
}


@dataclass(frozen=True)
class Kernels:
    """Ops of all GPUs of a file."""

    ops: pl.DataFrame  # frames.OPS without device_id, with `ordinal`
    programs: list[Program]  # one for each transfer that the trace describes
    issues: list[Issue]  # findings about them


def read_kernels(
    kernels: pl.DataFrame,
    others: pl.DataFrame,
    groups: dict[str, tuple[int, ...]],
    ranks: int | None,
    source: str,
) -> Kernels:
    """Ops of all GPUs.

    Args:
        kernels: rows with ordinal and thread.
        others: all other rows of the file, among them the calls that launched kernels.
        groups: ranks of each process group, where the file lists them.
        ranks: how many there are, where the file states it.
        source: the file.
    """
    marked = pl.col("args").str.contains('"Collective name"', literal=True).fill_null(False)
    is_kernel = of_category(kernels, ("kernel",))
    names = kernels["name"].unique()  # few, and the pattern is slow
    named = pl.col("name").is_in(names.filter(names.str.contains(KERNEL)).implode())
    moving = kernels.filter(is_kernel & (named | marked))
    launched = _launched(kernels.filter(is_kernel), others)
    transfers, inferred = _transfers(moving, launched, groups, ranks)
    texts = {each.instruction: each for each in transfers.values() if each.instruction}
    programs, issues = _programs(texts, source)
    known = {program.program_id for program in programs}
    rows = [
        (
            event,
            each.op if each.instruction else each.name,
            MODULE,
            each.program_id,
            each.kind,
            each.program_id in known,
            each.bytes_here,
            each.sequence,
        )
        for event, each in transfers.items()
    ]
    told = pl.DataFrame(rows, schema=_TRANSFER, orient="row")
    joined = kernels.join(told, on="event", how="left", maintain_order="left")
    is_known = pl.col("known").fill_null(False)
    is_unknown = pl.col("op").is_not_null() & ~is_known & pl.col("opcode_text").is_null()
    ops = joined.with_columns(
        op=pl.coalesce("op", "name"),
        kernel=pl.when(is_kernel).then("name"),
        line="thread",
        on_async_line=pl.lit(False),
        hlo_category=pl.when(pl.col("opcode_text") == "send-recv")
        .then("opcode_text")
        .otherwise("cat"),
        traced_category=pl.when(is_unknown)
        .then(pl.lit("collective"))
        .when(pl.col("op").is_null())
        .then(_category()),
        opcode_text=pl.when(~is_known).then("opcode_text"),
    )
    vague = kernels.filter(_IS_COPY & ~pl.col("name").str.contains(_WITH_HOST + _ON_DEVICE))
    issues += issues_found(source, (COPY_WAY_UNKNOWN, vague.height))
    renamed = _without_transfer(launched, list(transfers))
    issues += issues_found(source, (COLLECTIVE_UNSEEN, renamed, _RENAMED))
    return Kernels(ops, programs, [*issues, *_findings(transfers, inferred, source)])


def calls_among(others: pl.DataFrame) -> pl.DataFrame:
    """The calls of the GPU's runtime."""
    return others.filter(of_category(others, _LAUNCH_CATEGORIES))


def of_category(events: pl.DataFrame, wanted: tuple[str, ...]) -> pl.Expr:
    """Whether an event's category is one of these, in whatever case it is written."""
    found = [name for name in events["cat"].unique() if name and name.lower() in wanted]
    return pl.col("cat").is_in(found)


def _category() -> pl.Expr:
    """Category of a copy, or of a kernel that is not a collective."""
    return (
        pl.when(_IS_COPY & pl.col("name").str.contains(_WITH_HOST))
        .then(pl.lit("host_transfer"))
        .when(_IS_COPY)
        .then(pl.lit("copy"))
        .otherwise(pl.lit("compute"))
    )


def _transfers(
    kernels: pl.DataFrame,
    launched: pl.DataFrame,
    groups: dict[str, tuple[int, ...]],
    ranks: int | None,
) -> tuple[dict[int, NcclTransfer], set[int]]:
    """(event -> transfer; events whose kind is known by the kernel's name alone)."""
    found: dict[int, NcclTransfer] = {}
    for event, args in kernels.select("event", "args").iter_rows():
        transfer = recorded(arguments(args), groups, ranks)
        if transfer is not None:
            found[event] = transfer
    silent = kernels.filter(~pl.col("event").is_in(list(found)))
    marked = launched.join(silent.select("event"), on="event", how="semi", maintain_order="left")
    for event, name, args, outer in _around(marked):
        found[event] = annotated(name, arguments(args), arguments(outer))
    inferred = set()
    for event, name in silent.select("event", "name").iter_rows():
        if event not in found:
            found[event] = NcclTransfer(name, kind_of(name))
            inferred.add(event)
    return found, inferred


def _without_transfer(launched: pl.DataFrame, transfers: list[int]) -> int:
    """Annotations of a collective in which the host launched kernels, none of which is a transfer."""
    told = launched.with_columns(moves=pl.col("event").is_in(transfers))
    key = ["line", "annotation", "annotation_end"]
    return told.group_by(key).agg(pl.col("moves").any()).filter(~pl.col("moves")).height


def _around(launched: pl.DataFrame) -> Iterable[tuple[int, str, str | None, str | None]]:
    """(event, name and arguments of the annotation around the launch, arguments of the c10d call)."""
    called = pl.when(pl.col("call_end") >= pl.col("start_ps")).then("call_args")
    return launched.select("event", "annotation", "annotation_args", called).iter_rows()


def _launched(kernels: pl.DataFrame, others: pl.DataFrame) -> pl.DataFrame:
    """Kernels that the host launched within the annotation of a collective, with it and the last c10d call.

    Returns:
        event, line and start_ps of the launch; annotation, call, and the arguments and end of both.
    """
    if not others["name"].str.starts_with(_NCCL).any():
        kernels, others = kernels.clear(), others.clear()
    correlation = pl.col("args").str.extract(CORRELATION).cast(pl.Int64, strict=False)
    calls = calls_among(others).select("rank", "line", "start_ps", correlation=correlation)
    key = ["rank", "correlation"]
    first = calls.drop_nulls().sort("start_ps", "line").unique(key, keep="first")
    launched = (
        kernels.select("rank", "event", correlation=correlation)
        .drop_nulls()
        .join(first, on=key)
        .sort("start_ps")
    )
    for prefix, column in ((_NCCL, "annotation"), ("c10d::", "call")):
        spans = others.filter(pl.col("name").str.starts_with(prefix)).select(
            "line",
            "start_ps",
            pl.col("name").alias(column),
            pl.col("args").alias(f"{column}_args"),
            (pl.col("start_ps") + pl.col("duration_ps")).alias(f"{column}_end"),
        )
        launched = launched.join_asof(
            spans.sort("start_ps"), on="start_ps", by="line", check_sortedness=False
        )
    return launched.filter(pl.col("annotation_end") >= pl.col("start_ps"))


def _programs(texts: dict[str, NcclTransfer], source: str) -> tuple[list[Program], list[Issue]]:
    """A program for each transfer, so that the same one on every rank has the same program."""
    programs, issues = [], []
    for text, transfer in texts.items():
        read = program_of_instructions([text], transfer.program_id, MODULE, source)
        programs.append(replace(read.program, names_ranks=True))
        issues += read.issues(source)
    return programs, issues


def _findings(transfers: dict[int, NcclTransfer], inferred: set[int], source: str) -> list[Issue]:
    known = sum(transfers[event].kind is not None for event in inferred)
    unknown = sum(each.kind is None for each in transfers.values())
    detail = (
        "collectives that the trace does not describe: their kind is taken from the kernel's name, which "
        "NCCL may share between kinds"
    )
    return issues_found(source, (KIND_INFERRED, known, detail), (COLLECTIVE_KIND_UNKNOWN, unknown))
