"""Merges a device's ops into intervals, once, so that interval views need no window over ops."""

from __future__ import annotations

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.packing import Packing
from xlahouse.ingest.events.spans import KeyedSpans, joined, merge_spans
from xlahouse.ingest.tables.placed_ops import PlacedOps
from xlahouse.ingest.tables.transfer_pairs import BARRIER

_CATEGORY = pl.col("category")
COMMUNICATING = pl.col("communicates") & _CATEGORY.is_in(["compute", "host_transfer"])
ON_CORE = ~pl.col("on_async_line")
# Ops in each category of intervals.
RULES = {
    "compute": _CATEGORY == "compute",
    "collective": _CATEGORY == "collective",
    "copy_running": _CATEGORY.is_in(["copy", "host_transfer"]),
    "sync_wait": (pl.col("op") == BARRIER)
    & ~_CATEGORY.is_in(["compute", "collective", "copy", "host_transfer"]),
    "masked": pl.col("masked") & (_CATEGORY == "compute"),
    "communicating": COMMUNICATING,
}
_CATEGORIES = pl.Enum(list(RULES))


def busy_intervals(ops: PlacedOps, transfers: pl.DataFrame) -> pl.DataFrame:
    """The busy_intervals table without run_id, by device and start.

    compute: compute ops.
    collective: transfers in flight, and ops of transfers whose other half is missing.
    copy_running: running copy and host-transfer ops; a prefetch in flight does not count.
    sync_wait: barriers.
    masked: compute ops of pipeline ticks in which the stage holds no microbatch; they are compute too.
    communicating: kernels that compute and transfer by themselves, which are compute too, and sends and recvs
    that may be transfers between devices, which are copy_running too.

    Args:
        ops: of some devices.
        transfers: their collectives, with device_id, request, step, start_ps and duration_ps.
    """
    steps = _Steps(ops)
    devices, device = ops.devices()
    packing = Packing((len(devices), steps.distinct.height))
    masks = ops.of_each({"on_core": ON_CORE} | RULES)
    on_core = next(masks) & (ops.duration_ps > 0)
    key = packing.pack(device, steps.of_launch.take(ops.launch))
    every = KeyedSpans(key, ops.start_ps, ops.duration_ps)
    merged = []
    for category, mask in zip(RULES, masks, strict=True):
        spans = every.take(np.flatnonzero(on_core & mask))
        if category == "collective" and not transfers.is_empty():
            spans = joined(spans, _flights(transfers, devices, steps, packing))
        merged.append(merge_spans(*spans))
    number = np.repeat(np.arange(len(merged)), [len(spans.key) for spans in merged])
    spans = joined(*merged)
    device, step = packing.unpack(spans.key)
    if len(devices) > 1:
        order = np.lexsort((spans.start_ps, device))
    else:
        order = np.argsort(spans.start_ps, kind="stable")
    intervals = pl.DataFrame(
        {
            "device_id": pl.Series(devices[device[order]], dtype=pl.Int64),
            "category": pl.Series(list(RULES), dtype=_CATEGORIES).gather(number[order]),
            "start_ps": spans.start_ps.take(order),
            "duration_ps": spans.duration_ps.take(order),
        }
    )
    return pl.concat([intervals, steps.distinct[step[order]]], how="horizontal")


def _flights(
    transfers: pl.DataFrame, devices: Integers, steps: _Steps, packing: Packing
) -> KeyedSpans:
    """Transfers that take time, packed by device and step."""
    flights = transfers.filter(pl.col("duration_ps") > 0)
    device = np.searchsorted(devices, flights["device_id"].to_numpy())
    start, duration = (flights[name].to_numpy() for name in ("start_ps", "duration_ps"))
    return KeyedSpans(packing.pack(device, steps.of_rows(flights)), start, duration)


class _Steps:
    """Numbers for the steps (request, step) of launches: `distinct` has one row each."""

    def __init__(self, ops: PlacedOps) -> None:
        launches = ops.launches.select("request", "step")
        self.distinct = launches.unique(maintain_order=True)
        self.of_launch = self.of_rows(launches)

    def of_rows(self, rows: pl.DataFrame) -> Integers:
        """Number of each row's step."""
        key = ["request", "step"]
        numbered = self.distinct.with_row_index("number")
        joined = rows.select(key).join(
            numbered, on=key, how="left", nulls_equal=True, maintain_order="left"
        )
        numbers: Integers = joined["number"].to_numpy().astype(np.int64)
        return numbers
