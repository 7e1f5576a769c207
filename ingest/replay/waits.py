"""How long devices wait for circuits, as parts of their steps: what compute does not hide."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xlahouse.ingest.events.arrays import Integers

TABLE = "circuit_waits"
_STEP = ["device_id", "request", "step"]
_TRANSFER = ["program_id", "op", "group_index"]
_END = pl.col("start_ps") + pl.col("duration_ps")


class Waits(NamedTuple):
    """Members of transfers, from their last arrival to the begin that circuits allow: columns."""

    row: Integers  # of collectives
    from_ps: Integers  # the last arrival
    until_ps: Integers  # the begin


def circuit_waits(
    waits: Waits, transfers: pl.DataFrame, busy: pl.DataFrame, steps: pl.DataFrame
) -> pl.DataFrame:
    """Rows of the table circuit_waits, without run_id.

    Args:
        waits: of a replay.
        transfers: its rows of collectives.
        busy: its rows of busy_intervals.
        steps: its rows of device_steps.
    """
    windows = steps.select(*_STEP, "phase", opens_ps="start_ps", closes_ps=_END)
    waited = (
        transfers[waits.row]
        .select(*_STEP, *_TRANSFER, "start_ps", end_ps=_END)
        .with_columns(from_ps=pl.Series(waits.from_ps), until_ps=pl.Series(waits.until_ps))
        .join(windows, on=_STEP, nulls_equal=True, maintain_order="left")
        .with_columns(
            from_ps=pl.max_horizontal("from_ps", "opens_ps"),
            until_ps=pl.min_horizontal("until_ps", "closes_ps"),
        )
        .filter(pl.col("until_ps") > pl.col("from_ps"))
    )
    none = waited.clear().with_columns(
        exposed_ps=pl.lit(0.0, pl.Float64), sync_wait_ps=pl.lit(0.0, pl.Float64)
    )
    parts = [none]
    for (device,), own in waited.group_by("device_id", maintain_order=True):
        of_device = pl.col("device_id") == device
        parts.append(_divided(own, transfers.filter(of_device), busy.filter(of_device)))
    key = [*_STEP, "phase", *_TRANSFER]
    whole = (pl.col(name).sum().round().cast(pl.Int64) for name in ("exposed_ps", "sync_wait_ps"))
    return pl.concat(parts).group_by(key, maintain_order=True).agg(*whole)


def _divided(waited: pl.DataFrame, transfers: pl.DataFrame, busy: pl.DataFrame) -> pl.DataFrame:
    """Some waits of a device, with the exposed time and the sync wait in each.

    As in its steps: an instant without compute belongs in equal parts to the transfers then in flight,
    else to a copy that runs, else to a barrier.
    """
    flights = _Spans.of(transfers)
    compute, copies, barriers = (
        _Spans.of(busy.filter(pl.col("category") == category))
        for category in ("compute", "copy_running", "sync_wait")
    )
    every = (flights, compute, copies, barriers)
    times = np.unique(np.concatenate([time for spans in every for time in spans]))
    flying, computing, copying, waiting = (spans.open_at(times) for spans in every)
    share = np.where((computing == 0) & (flying > 0), 1 / np.maximum(flying, 1), 0.0)
    barrier = ((computing == 0) & (flying == 0) & (copying == 0) & (waiting > 0)).astype(float)
    start, end, begun, until = (
        waited[name].to_numpy() for name in ("start_ps", "end_ps", "from_ps", "until_ps")
    )
    exposed = _within(times, share, np.clip(begun, start, end), np.clip(until, start, end))
    return waited.with_columns(
        exposed_ps=pl.Series(exposed),
        sync_wait_ps=pl.Series(_within(times, barrier, begun, until)),
    )


class _Spans(NamedTuple):
    """Intervals of one device, in any order."""

    start_ps: Integers  # of each interval
    end_ps: Integers  # of each interval

    @classmethod
    def of(cls, rows: pl.DataFrame) -> _Spans:
        start = rows["start_ps"].to_numpy()
        return cls(start, start + rows["duration_ps"].to_numpy())

    def open_at(self, times: Integers) -> Integers:
        """How many are open from each time to the next."""
        begun = np.searchsorted(np.sort(self.start_ps), times, side="right")
        over = np.searchsorted(np.sort(self.end_ps), times, side="right")
        return begun - over


def _within(
    times: Integers, rate: NDArray[np.float64], begun: Integers, until: Integers
) -> NDArray[np.float64]:
    """What a rate, constant from each time to the next, adds up to between pairs of times."""
    total = np.concatenate(([0.0], np.cumsum(rate[:-1] * np.diff(times))))
    upper, lower = (np.interp(each, times, total) for each in (until, begun))
    found: NDArray[np.float64] = upper - lower
    return found
