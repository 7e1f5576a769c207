"""Reads what allocators of devices state at each (de)allocation: counters of a host's plane."""

from __future__ import annotations

import numpy as np
import polars as pl

from xlahouse.ingest.events import frames
from xlahouse.ingest.events.codes_of_names import ALLOCATOR_UNKNOWN
from xlahouse.ingest.events.frames import ColumnTypes
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.xplane.event_chunks import EventChunk, Mask

# By name, or by a number that only they state: one of the two may have another name some day.
ALLOCATION = pl.col("name").is_in(["MemoryAllocation", "MemoryDeallocation"])
# Stat of an allocator's event -> the counter's name, after the allocator's.
ALLOCATED = {"bytes_allocated": "bytes_in_use", "peak_bytes_in_use": "peak_bytes_in_use"}
_OF_DEVICE = r"^(?:TPU|GPU)_([0-9]{1,9})_"
_OF_HOST = r"(?i)host|cpu"  # as in `gpu_host_bfc`
_SAMPLES: ColumnTypes = {
    "start_ps": pl.Int64,
    "allocator": pl.String,  # `TPU_0_hbm`, `GPU_0_bfc`
    "index": pl.Int64,  # of the device on its host, where the allocator has no name
    **dict.fromkeys(ALLOCATED, pl.Int64),
}


def allocations(chunk: EventChunk, named: Mask) -> pl.DataFrame:
    """_SAMPLES of a chunk's events. named: kinds of events that are ALLOCATION."""
    numbers = {stat: chunk.integers(stat) for stat in ALLOCATED}
    chosen = chunk.of_kinds(named)
    for owners, _ in numbers.values():
        chosen[owners] = chunk.in_time[owners]
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return frames.empty(_SAMPLES)
    found = chunk.frame(rows).select("owner", "start_ps")
    told = {
        "allocator": chunk.texts("allocator_name"),
        "index": chunk.integers("index_on_host"),
        **numbers,
    }
    for column, (owners, values) in told.items():
        stated = pl.DataFrame({"owner": owners, column: values})
        found = found.join(stated, on="owner", how="left", maintain_order="left")
    return frames.conform(found, _SAMPLES)


def counters_of(samples: list[pl.DataFrame]) -> pl.DataFrame:
    """frames.COUNTERS of allocations' samples: bytes in use, and the most so far.

    Their `device_id` is the number within the host, by the allocator's name (`TPU_0_hbm`), else as stated.
    """
    if all(each.is_empty() for each in samples):
        return frames.empty(frames.COUNTERS)
    local = pl.col("allocator").str.extract(_OF_DEVICE).cast(pl.Int64)
    of_index = pl.concat_str(pl.lit("device_"), "index")
    named = frames.stack(samples, _SAMPLES).with_columns(
        device_id=pl.when(pl.col("allocator").is_null()).then("index").otherwise(local),
        allocator=pl.coalesce("allocator", of_index, pl.lit("allocator")),
    )
    found = []
    for stat, counter in ALLOCATED.items():
        name = pl.col("allocator") + f" {counter}"
        sampled = named.drop_nulls(stat).with_columns(name=name, value=stat)
        found.append(frames.conform(sampled, frames.COUNTERS))
    return pl.concat(found)


def allocator_issues(samples: list[pl.DataFrame], source: str) -> list[Issue]:
    """The finding about events that lack their allocator, its device or a number."""
    if all(each.is_empty() for each in samples):
        return []
    unnamed = pl.all_horizontal(pl.col("allocator", "index").is_null())
    short = pl.any_horizontal(pl.col(list(ALLOCATED)).is_null())
    name = pl.col("allocator")
    nowhere = ~name.str.contains(_OF_DEVICE) & ~name.str.contains(_OF_HOST)
    count = frames.stack(samples, _SAMPLES).filter(unnamed | short | nowhere).height
    return issues_found(source, (ALLOCATOR_UNKNOWN, count))
