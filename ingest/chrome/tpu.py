"""Reads a TPU's process in a Chrome trace: the lines of an xplane's device plane, as JSON."""

from __future__ import annotations

import re

import msgspec
import polars as pl

from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.ingest.chrome.ops import read_ops, texts_of_ops
from xlahouse.ingest.chrome.rows import counter_rows, coverage_of, host_rows
from xlahouse.ingest.chrome.spans import COMPLETE, COUNTER
from xlahouse.ingest.events import frames
from xlahouse.ingest.events.codes_of_devices import DEVICE_NUMBER_ASSUMED
from xlahouse.ingest.events.frames import DEVICE_NUMBER, Device, PlaneEvents
from xlahouse.ingest.events.issues import Issue
from xlahouse.ingest.events.tpu_lines import (
    ASYNC_OPS_LINE,
    COUNTERS_LINE,
    MODULES_LINE,
    OPS_LINE,
    STEPS_LINE,
    TRACE_ME_LINE,
    WAITS,
    unknown_names,
)

TPU_PROCESS = re.compile(rf"(?:^|/)device:TPU:{DEVICE_NUMBER}$")


def read_tpu_process(
    name: str, rows: pl.DataFrame, refused: pl.DataFrame, source: str, host: str
) -> tuple[PlaneEvents, pl.DataFrame]:
    """(all events of a TPU, ops.TEXTS of its ops); events without an own table go to host_events.

    Args:
        name: of the process, which names the device.
        rows: ChromeSpans.rows of the process, with `thread`, `enqueue_ps` and `enqueue_thread`.
        refused: (thread), events of the process that were refused.
        source: the file.
        host: its host.
    """
    match = TPU_PROCESS.search(name)
    if match is None:
        raise ValueError(f"{name} is not a TPU")
    number = int(match[1])
    device = Device(number, name, "TPU", "tensorcore", local_ordinal=number, host=host)
    rows = rows.with_columns(table_name=_table())
    per_table = {
        table: rows.filter(pl.col("table_name") == table)
        for table in ("launches", "ops", "counters", "host_events")
    }
    launches = _launches(per_table["launches"], number)
    found, told = read_ops(per_table["ops"], ASYNC_OPS_LINE)
    ops = _in_programs(found.with_columns(device_id=pl.lit(number, pl.Int64)), launches)
    ops = _with_line_categories(ops)
    return PlaneEvents(
        devices=[device],
        ops=ops,
        launches=launches,
        counters=counter_rows(per_table["counters"], number),
        host_events=host_rows(per_table["host_events"], host, prefix=f"{name}/"),
        coverage=coverage_of(source, name, rows, refused),
        issues=[
            _number_assumed(name, number, source),
            *unknown_names(name, _slices(per_table["host_events"]), source),
        ],
    ), texts_of_ops(ops, told)


def _table() -> pl.Expr:
    """The table that an event belongs in, by its line."""
    complete = pl.col("ph").is_in([COMPLETE, "B"])
    line = pl.col("thread")
    return (
        pl.when((pl.col("ph") == COUNTER) | (complete & (line == COUNTERS_LINE)))
        .then(pl.lit("counters"))
        .when(complete & (line == MODULES_LINE))
        .then(pl.lit("launches"))
        .when(complete & line.is_in([OPS_LINE, ASYNC_OPS_LINE, STEPS_LINE]))
        .then(pl.lit("ops"))
        .when(complete & (line == TRACE_ME_LINE) & pl.col("name").is_in(WAITS))
        .then(pl.lit("ops"))
        .otherwise(pl.lit("host_events"))
    )


def _slices(rows: pl.DataFrame) -> pl.DataFrame:
    """Events that take time, without arrows and marks."""
    return rows.filter(pl.col("ph").is_in([COMPLETE, "B"]))


def _launches(rows: pl.DataFrame, device_id: int) -> pl.DataFrame:
    fingerprint = pl.col("name").str.extract(r"\((\d+)\)$").cast(pl.UInt64, strict=False)
    own = [_program_id(args) for args in rows["args"]]
    return rows.select(
        "start_ps",
        "duration_ps",
        "enqueue_ps",
        "enqueue_thread",
        device_id=pl.lit(device_id, pl.Int64),
        program_id=pl.coalesce(pl.Series(own, dtype=pl.UInt64), fingerprint),
        module=pl.col("name").str.replace(r"\(\d+\)$", ""),
    ).pipe(frames.conform, frames.LAUNCHES)


class _ModuleArgs(msgspec.Struct):
    """Arguments of a launch."""

    program_id: str | int | None = None  # of the program


def _program_id(args: str | None) -> int | None:
    try:
        told = msgspec.json.decode(args or "{}", type=_ModuleArgs).program_id
        return None if told is None else int(told) % (1 << 64)
    except (*JSON_FAULTS, ValueError):
        return None


def _in_programs(ops: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """Give an op whose event names no program the program of the launch that it runs in."""
    opened = launches.sort("start_ps").select(
        "start_ps",
        until=pl.col("start_ps") + pl.col("duration_ps"),
        program_of_launch="program_id",
        module_of_launch="module",
    )
    joined = (
        ops.with_row_index("row")
        .sort("start_ps")
        .join_asof(opened, on="start_ps", check_sortedness=False)
        .sort("row")
    )
    inside = pl.col("start_ps") < pl.col("until")
    outer = (pl.when(inside).then(f"{name}_of_launch") for name in ("program", "module"))
    program, module = outer
    return joined.with_columns(
        program_id=pl.coalesce("program_id", program), module=pl.coalesce("module", module)
    ).select(ops.columns)


def _with_line_categories(ops: pl.DataFrame) -> pl.DataFrame:
    line = pl.col("line")
    traced = pl.when(line == TRACE_ME_LINE).then(pl.lit("wait")).when(line == STEPS_LINE)
    return ops.with_columns(traced_category=traced.then(pl.lit("control")))


def _number_assumed(name: str, number: int, source: str) -> Issue:
    detail = (
        f"a Chrome trace does not state the number that replica groups give {name}: {number} here"
    )
    return DEVICE_NUMBER_ASSUMED.found(source, detail=detail)
