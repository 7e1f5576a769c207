"""Finds when launches were enqueued: by the host's calls that they name as their producers."""

from __future__ import annotations

import polars as pl


def linked(launches: pl.DataFrame, producers: pl.DataFrame) -> pl.DataFrame:
    """Launches with the time of their enqueue, where they name a producer and lack the time.

    Of several producers with one id, which a process may use again, it is the latest before the
    launch; where none is before it, as clocks disagree, the first.

    Args:
        launches: frames.LAUNCHES.
        producers: frames.PRODUCERS of the same file.
    """
    key, when = ["link_type", "link"], pl.col("enqueue_ps")
    first = producers.group_by(key).agg(first_ps=when.min(), several=when.n_unique() > 1)
    found = launches.join(first, on=key, how="left", maintain_order="left")
    enqueue = pl.coalesce("enqueue_ps", "first_ps")
    if found["several"].any():
        latest = producers.rename({"enqueue_ps": "latest_ps"}).sort("latest_ps")
        rows = found.with_row_index("row").sort("start_ps")
        found = rows.join_asof(
            latest, left_on="start_ps", right_on="latest_ps", by=key, check_sortedness=False
        ).sort("row")
        enqueue = pl.coalesce("enqueue_ps", "latest_ps", "first_ps")
    return found.with_columns(enqueue_ps=enqueue).select(launches.columns)
