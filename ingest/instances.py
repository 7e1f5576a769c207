"""Finds which executions on different devices are one and the same (METRICS, Terms)."""

from __future__ import annotations

import polars as pl


def number_instances(rows: pl.DataFrame, key: list[str]) -> pl.Series:
    """Number the instances of executions.

    Per key, all devices' executions are ordered by start; a new instance begins where a device would
    repeat, or at a start at or after the earliest end so far.

    Args:
        rows: device_id, start_ps, duration_ps and the key's columns.
        key: what identifies the thing that was executed.

    Returns:
        One number a row, in the order of `rows`.
    """
    ordered = (
        rows.with_row_index("row")
        .with_columns(
            number=pl.struct(key).rank("dense"), end=pl.col("start_ps") + pl.col("duration_ps")
        )
        .sort("number", "start_ps", "device_id", "end")
    )
    columns = (ordered[name].to_list() for name in ("number", "device_id", "start_ps", "end"))
    numbers: list[int] = []
    instance, current, earliest_end = -1, None, 0
    seen: set[int] = set()
    for number, device, start, end in zip(*columns, strict=True):
        if number != current or device in seen or start >= earliest_end:
            instance += 1
            current, earliest_end = number, end
            seen = set()
        seen.add(device)
        earliest_end = min(earliest_end, end)
        numbers.append(instance)
    return ordered.with_columns(instance=pl.Series(numbers, dtype=pl.Int64)).sort("row")["instance"]


def by_first_start(rows: pl.DataFrame, instance: str) -> pl.DataFrame:
    """Renumber instances in order of their first start, so that numbers read as time."""
    first = pl.struct(pl.col("start_ps").min().over(instance), instance)
    return rows.with_columns((first.rank("dense").cast(pl.Int64) - 1).alias(instance))
