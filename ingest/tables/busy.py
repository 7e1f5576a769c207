"""Merges what a device did into intervals, once, so that interval views need no window over ops."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xlahouse.ingest.events.spans import merge_spans
from xlahouse.ingest.tables.placed_ops import PlacedOps
from xlahouse.ingest.tables.transfer_pairs import BARRIER

Integers = NDArray[np.int64]
_CATEGORY = pl.col("category")
# Which kinds of ops each category of intervals is made of.
_RULES = {
    "compute": _CATEGORY == "compute",
    "collective": _CATEGORY == "collective",
    "copy_running": _CATEGORY.is_in(["copy", "host_transfer"]),
    "sync_wait": (pl.col("op") == BARRIER)
    & ~_CATEGORY.is_in(["compute", "collective", "copy", "host_transfer"]),
    "masked": pl.col("masked") & (_CATEGORY == "compute"),
}
_CATEGORIES = pl.Enum(list(_RULES))


def busy_intervals(ops: PlacedOps, transfers: pl.DataFrame) -> pl.DataFrame:
    """The busy_intervals table without run_id, by device and start.

    compute: compute ops. collective: transfers in flight, and ops of transfers whose other half was not
    seen. copy_running: copy and host-transfer ops that
    run (a prefetch in flight alone does not count). sync_wait: barriers. masked: the compute ops of
    pipeline ticks in which the stage holds no microbatch, again (they are compute too).

    Args:
        ops: of some devices.
        transfers: their collectives, with device_id, request, step, start_ps and duration_ps.
    """
    steps = _Steps(ops)
    devices, place = ops.devices()
    width = steps.distinct.height
    key = place * width + steps.of_launch.take(ops.launch)
    on_core = ops.of_kinds(~pl.col("on_async_line")) & (ops.duration_ps > 0)
    parts = []
    for number, (category, rule) in enumerate(_RULES.items()):
        rows = np.flatnonzero(on_core & ops.of_kinds(rule))
        spans = [of.take(rows) for of in (key, ops.start_ps, ops.duration_ps)]
        if category == "collective" and not transfers.is_empty():
            flights = transfers.filter(pl.col("duration_ps") > 0)
            place = np.searchsorted(devices, flights["device_id"].to_numpy())
            others = [place * width + steps.of_rows(flights)]
            others += [flights[name].to_numpy() for name in ("start_ps", "duration_ps")]
            spans = [np.concatenate(pair) for pair in zip(spans, others, strict=True)]
        merged, start, duration = merge_spans(*spans)
        parts.append((merged, np.full(len(merged), number), start, duration))
    merged, which, start, duration = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
    if len(devices) > 1:
        place, step = np.divmod(merged, width)
        order = np.lexsort((start, place))
    else:
        place, step = np.zeros_like(merged), merged
        order = np.argsort(start, kind="stable")
    intervals = pl.DataFrame(
        {
            "device_id": pl.Series(devices[place[order]], dtype=pl.Int64),
            "category": pl.Series(list(_RULES), dtype=_CATEGORIES).gather(which[order]),
            "start_ps": start.take(order),
            "duration_ps": duration.take(order),
        }
    )
    return pl.concat([intervals, steps.distinct[step[order]]], how="horizontal")


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
