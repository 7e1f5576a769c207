"""Transfers that wait for other devices' transfers: few kinds, steps and texts, many rows of numbers.

A collective's instance is known once all devices are read, so all transfers of a run are in memory at
once: 64 bytes each, where rows with all columns would take a kilobyte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from xlahouse.ingest.events import frames

TRANSFER_KINDS: frames.ColumnTypes = {
    "program_id": pl.UInt64,
    "module": pl.String,
    "op": pl.String,
    "kind": pl.String,
    "dtype": pl.String,
    "payload_bytes": pl.Int64,
    "payload_is_bound": pl.Boolean,
    "over_dcn": pl.Boolean,
    "is_async": pl.Boolean,
    "sequence": pl.Int64,
    "layer": pl.Int64,
    "component": pl.String,
}
TRANSFER_STEPS: frames.ColumnTypes = {"phase": pl.String, "request": pl.Int64, "step": pl.Int64}
TRANSFER_EVENTS: frames.ColumnTypes = {
    "device_id": pl.Int64,
    "launch": pl.Int64,
    "start_ps": pl.Int64,
    "duration_ps": pl.Int64,
    "issue_ps": pl.Int64,
    "wait_ps": pl.Int64,
    "arrival_ps": pl.Int64,
    "of_kind": pl.UInt32,
    "of_step": pl.UInt32,
}


@dataclass(frozen=True)
class Transfers:
    """Collectives of some devices, without their groups."""

    kinds: pl.DataFrame  # TRANSFER_KINDS, a row for all transfers that share it
    steps: pl.DataFrame  # TRANSFER_STEPS, likewise
    events: pl.DataFrame  # TRANSFER_EVENTS, by device and start
    unpaired: int  # ops without a partner

    @classmethod
    def of_rows(cls, rows: pl.DataFrame, unpaired: int) -> Transfers:
        """From one row a transfer with all columns; missing columns are NULL."""
        if rows.is_empty():
            return cls(
                frames.empty(TRANSFER_KINDS),
                frames.empty(TRANSFER_STEPS),
                frames.empty(TRANSFER_EVENTS),
                unpaired,
            )
        columns = {**TRANSFER_EVENTS, **TRANSFER_KINDS, **TRANSFER_STEPS}
        events = frames.conform(rows, columns).sort("device_id", "start_ps")
        kinds, of_kind = _shared(events, TRANSFER_KINDS)
        steps, of_step = _shared(events, TRANSFER_STEPS)
        places = [of_kind.alias("of_kind"), of_step.alias("of_step")]
        placed = events.drop("of_kind", "of_step").hstack(places)[list(TRANSFER_EVENTS)]
        return cls(kinds, steps, placed, unpaired)


def join_transfers(parts: Sequence[Transfers]) -> Transfers:
    """The transfers of all devices as one, by device and start; the parts are not copied."""
    events, kinds, steps = [], 0, 0
    for part in parts:
        of_kind, of_step = pl.col("of_kind") + kinds, pl.col("of_step") + steps
        events.append(part.events.with_columns(of_kind.cast(pl.UInt32), of_step.cast(pl.UInt32)))
        kinds, steps = kinds + part.kinds.height, steps + part.steps.height
    return Transfers(
        frames.stack([part.kinds for part in parts], TRANSFER_KINDS),
        frames.stack([part.steps for part in parts], TRANSFER_STEPS),
        _in_order([frame for frame in events if frame.height]),
        sum(part.unpaired for part in parts),
    )


def whole_rows(
    events: pl.DataFrame, kinds: pl.DataFrame, steps: pl.DataFrame, most: int
) -> Iterator[pl.DataFrame]:
    """Events with the columns of their kinds and steps, so many at a time."""
    for start in range(0, events.height, most):
        piece = events.slice(start, most)
        parts = [piece.drop("of_kind", "of_step"), kinds[piece["of_kind"]], steps[piece["of_step"]]]
        yield pl.concat(parts, how="horizontal")


def _shared(rows: pl.DataFrame, columns: frames.ColumnTypes) -> tuple[pl.DataFrame, pl.Series]:
    """(the distinct values of some columns; of each row, its place among them)."""
    names = list(columns)
    distinct, places = frames.distinct(rows[names])
    return distinct, pl.Series("place", places.astype(np.uint32))


def _in_order(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """Join frames, each by device and start; mostly each holds its own devices."""
    if not parts:
        return frames.empty(TRANSFER_EVENTS)
    parts = sorted(parts, key=lambda part: part.row(0)[:1])
    firsts = [part["device_id"][0] for part in parts[1:]]
    lasts = [part["device_id"][-1] for part in parts[:-1]]
    joined = pl.concat(parts)
    if all(np.array(lasts) < np.array(firsts)):
        return joined
    return joined.sort("device_id", "start_ps")
