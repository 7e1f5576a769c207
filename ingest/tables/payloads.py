"""Keeps sums of payloads within 64 bits, which views and their readers count bytes in."""

from __future__ import annotations

import polars as pl

MOST_BYTES = 1 << 60  # of all transfers of a world; those of a few worlds still fit


def summable(payload: pl.Series, times: pl.Series) -> pl.Series:
    """Payloads, but NULL for the largest where all transfers together exceed MOST_BYTES.

    Args:
        payload: bytes of a transfer; NULL where not known.
        times: how many transfers have it; NULL counts as one.
    """
    counts = times.fill_null(1).cast(pl.Float64)
    total = payload.cast(pl.Float64) * counts
    if float(total.fill_null(0).sum()) <= MOST_BYTES:
        return payload
    share = MOST_BYTES / max(len(payload), 1)
    frame = pl.DataFrame({"payload": payload, "total": total})
    return frame.select(pl.when(pl.col("total") <= share).then("payload"))["payload"].alias(
        payload.name
    )
