"""Reads host processes of a Chrome trace, including the virtual devices of XLA's CPU backend.

The export leaves out the numbers by which the thread pool links its closures (stats whose names begin
with `_`), which distinguish virtual devices. So their ops are known only where an op names
its device (newer XLA), or where there is one device.
"""

from __future__ import annotations

import polars as pl

from xlahouse.ingest.chrome.rows import (
    arguments,
    counter_rows,
    coverage_of,
    host_rows,
    integer,
    kv_transfer_rows,
    marker_rows,
)
from xlahouse.ingest.chrome.spans import COUNTER
from xlahouse.ingest.events import frames
from xlahouse.ingest.events.codes_of_devices import DEVICE_INFERRED, DEVICE_UNKNOWN
from xlahouse.ingest.events.codes_of_files import UNKNOWN_PLANE
from xlahouse.ingest.events.frames import ColumnTypes, Device, PlaneEvents
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.events.tpu_lines import MEGASCALE_PLANE

HOST_PROCESS = "/host:CPU"
_EXECUTE = r"^\w*(?:PjRt|Tfrt)\w*::Execute$"
_HELPER = r"^\w*(?:PjRt|Tfrt)\w*::ExecuteHelper$"
_OP_COLUMNS: ColumnTypes = {
    "args": pl.String,
    "op": pl.String,
    "module": pl.String,
    "program_id": pl.UInt64,
    "device_id": pl.Int64,
}


def read_host_process(
    name: str, rows: pl.DataFrame, refused: pl.DataFrame, source: str, host: str, virtual: bool
) -> PlaneEvents:
    """Threads of a host, or of a process that has no reader of its own.

    Args:
        name: of the process.
        rows: ChromeSpans.rows of the process, with `thread`.
        refused: (thread), events of the process that were refused.
        source: the file.
        host: its host.
        virtual: whether the file has no device, so that ops here are of virtual devices.
    """
    ops, issues = _virtual_ops(rows, source) if virtual else (rows.clear(), [])
    numbers = sorted(ops["device_id"].unique().to_list()) if virtual and not ops.is_empty() else []
    is_op = pl.col("event").is_in(ops["event"].implode())
    table = (
        pl.when(pl.col("ph") == COUNTER)
        .then(pl.lit("counters"))
        .when(is_op)
        .then(pl.lit("ops"))
        .otherwise(pl.lit("host_events"))
    )
    rows = rows.with_columns(table_name=table)
    others = rows.filter(pl.col("table_name") == "host_events")
    known = name == HOST_PROCESS
    if not known and name != MEGASCALE_PLANE and not others.is_empty():
        detail = f"process {name} has no reader of its own"
        issues.append(UNKNOWN_PLANE.found(source, others.height, detail))
    return PlaneEvents(
        devices=[
            Device(number, name, "cpu", "cpu", local_ordinal=number, host=host, inferred=True)
            for number in numbers
        ],
        ops=frames.conform(ops, frames.OPS),
        host_events=host_rows(others, host, prefix="" if known else f"{name}/"),
        counters=counter_rows(rows.filter(pl.col("table_name") == "counters"), None),
        markers=marker_rows(others, host),
        kv_transfers=kv_transfer_rows(others, host),
        coverage=coverage_of(source, name, rows, refused),
        issues=issues,
    )


def _virtual_ops(rows: pl.DataFrame, source: str) -> tuple[pl.DataFrame, list[Issue]]:
    """(ops whose device is known, findings)."""
    named = rows.filter(pl.col("args").str.contains('"hlo_op"', literal=True).fill_null(False))
    if named.is_empty():
        return named.with_columns(device_id=pl.lit(None, pl.Int64)), []
    told = pl.DataFrame(
        [(args, *_op(args)) for args in named["args"].unique()], schema=_OP_COLUMNS, orient="row"
    )
    executed, helped = (
        rows.filter(pl.col("name").str.contains(name)).height for name in (_EXECUTE, _HELPER)
    )
    only = 0 if executed and executed == helped else None  # each execution has one device
    ops = named.join(told, on="args", how="left", maintain_order="left").with_columns(
        device_id=pl.coalesce("device_id", pl.lit(only, pl.Int64)),
        line="thread",
        on_async_line=pl.lit(False),
    )
    placed = ops.drop_nulls(["op", "device_id"])
    lost, devices = ops.height - placed.height, placed["device_id"].n_unique()
    unknown = (
        "ops of virtual devices that a Chrome trace does not distinguish, because its export leaves out the "
        "thread pool's numbers"
    )
    issues = issues_found(source, (DEVICE_UNKNOWN, lost, unknown), (DEVICE_INFERRED, devices))
    return placed, issues


def _op(args: str) -> tuple[object, ...]:
    """op, module, program and device that an event's arguments name."""
    told = arguments(args)
    words = (told.get(name) or None for name in ("hlo_op", "hlo_module"))
    program, device = integer(told.get("program_id")), integer(told.get("device_ordinal"))
    return *words, None if program is None else program % (1 << 64), device
