"""Finds which executions on different devices are one and the same (METRICS, Terms)."""

from __future__ import annotations

import numpy as np
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
        .with_columns(latest=pl.col("end").cum_max().shift(1).over("number"))
    )
    # Where nothing of the key is left running, an instance begins for certain: between two such places
    # mostly lies just one, and only where there may be more, rows are looked at one by one.
    begins = pl.col("latest").is_null() | (pl.col("start_ps") >= pl.col("latest"))
    heaps = ordered.with_columns(heap=begins.cum_sum())
    several = heaps.group_by("heap").agg(
        mixed=(pl.col("device_id").n_unique() < pl.len())
        | (pl.col("start_ps").max() >= pl.col("end").min())
    )
    heaps = heaps.join(several, on="heap", how="left", maintain_order="left")
    new = begins | _begins_in_heap(heaps)
    return heaps.with_columns(instance=new.cum_sum().cast(pl.Int64) - 1).sort("row")["instance"]


def _begins_in_heap(heaps: pl.DataFrame) -> pl.Series:
    """Whether an instance begins at a row, of the heaps that are `mixed`; false elsewhere."""
    mixed = heaps.with_row_index("place").filter("mixed")
    names = ("place", "heap", "device_id", "start_ps", "end")
    found: list[int] = []
    current, earliest_end = None, 0
    seen: set[int] = set()
    for place, heap, device, start, end in zip(*(mixed[n].to_list() for n in names), strict=True):
        if heap != current or device in seen or start >= earliest_end:
            found.append(place)
            current, earliest_end = heap, end
            seen = {device}
            continue
        seen.add(device)
        if end < earliest_end:
            earliest_end = end
    begins = np.zeros(heaps.height, bool)
    begins[found] = True
    return pl.Series(begins)


def by_first_start(rows: pl.DataFrame, instance: str) -> pl.DataFrame:
    """Renumber instances in order of their first start, so that numbers read as time."""
    first = pl.struct(pl.col("start_ps").min().over(instance), instance)
    return rows.with_columns((first.rank("dense").cast(pl.Int64) - 1).alias(instance))
