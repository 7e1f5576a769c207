"""Ops as they are read: few kinds, which hold the facts, and many events, which hold the times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from xlahouse.ingest.events import frames
from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.frames import ColumnTypes

OP_EVENTS: ColumnTypes = {
    "device_id": pl.Int64,
    "kind": pl.UInt32,  # row of the kinds
    "start_ps": pl.Int64,
    "duration_ps": pl.Int64,
    "launch_key": pl.Int64,
}
OP_KINDS: ColumnTypes = {name: kind for name, kind in frames.OPS.items() if name not in OP_EVENTS}


@dataclass(frozen=True)
class OpEvents:
    """Ops of one or more planes."""

    kinds: pl.DataFrame  # OP_KINDS, a row for all events that share it
    events: pl.DataFrame  # OP_EVENTS

    @classmethod
    def of_rows(cls, ops: pl.DataFrame) -> OpEvents:
        """From frames.OPS, one row an event."""
        names = list(OP_KINDS)
        kinds = ops.select(names).unique(maintain_order=True).with_row_index("kind")
        events = ops.join(kinds, on=names, how="left", nulls_equal=True, maintain_order="left")
        return cls(kinds.drop("kind"), frames.conform(events, OP_EVENTS))

    def rows(self) -> pl.DataFrame:
        """frames.OPS, one row an event."""
        kinds = self.kinds[self.events["kind"].cast(pl.Int64)]
        return frames.conform(
            pl.concat([self.events.drop("kind"), kinds], how="horizontal"), frames.OPS
        )


def join_kinds(parts: Sequence[OpEvents]) -> OpEvents:
    """The ops of many planes as one."""
    if len(parts) == 1:
        return parts[0]
    events, offset = [], 0
    for part in parts:
        moved = (pl.col("kind") + offset).cast(pl.UInt32)
        events.append(part.events.with_columns(moved))
        offset += part.kinds.height
    return OpEvents(
        frames.stack([part.kinds for part in parts], OP_KINDS), frames.stack(events, OP_EVENTS)
    )


def number_keys(keys: Integers, bound: int) -> tuple[Integers, Integers]:
    """(distinct keys, ascending; of each key its place among them).

    Args:
        keys: numbers from 0.
        bound: no key reaches it.
    """
    if bound > 4 * len(keys) + (1 << 20):
        distinct, places = np.unique(keys, return_inverse=True)
        return distinct, places.astype(np.int64)
    present = np.zeros(bound, bool)
    present[keys] = True
    places = np.cumsum(present) - 1
    return np.flatnonzero(present), places.take(keys)
