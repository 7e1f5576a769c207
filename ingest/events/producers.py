"""Finds when launches were enqueued: by the host's calls that they name as their producers."""

from __future__ import annotations

import polars as pl


def linked(launches: pl.DataFrame, producers: pl.DataFrame) -> pl.DataFrame:
    """Launches with the time and thread of their enqueue, where they name a producer and lack the time.

    Of several producers with one id, which a process may use again, it is the latest before the
    launch; where none is before it, as clocks disagree, the first.

    Args:
        launches: frames.LAUNCHES.
        producers: frames.PRODUCERS of the same file.
    """
    if producers.is_empty() or launches["link"].null_count() == launches.height:
        return launches
    key, when = ["link_type", "link"], pl.col("enqueue_ps")
    thread = pl.col("enqueue_thread")
    first = producers.group_by(key).agg(
        first_ps=when.min(), first_thread=thread.sort_by(when).first(), several=when.n_unique() > 1
    )
    found = launches.join(first, on=key, how="left", maintain_order="left")
    enqueue, on_thread = ["enqueue_ps", "first_ps"], ["enqueue_thread", "first_thread"]
    if found["several"].any():
        latest = producers.sort("enqueue_ps").rename(
            {"enqueue_ps": "latest_ps", "enqueue_thread": "latest_thread"}
        )
        rows = found.with_row_index("row").sort("start_ps")
        found = rows.join_asof(
            latest, left_on="start_ps", right_on="latest_ps", by=key, check_sortedness=False
        ).sort("row")
        enqueue.insert(1, "latest_ps")
        on_thread.insert(1, "latest_thread")
    return found.with_columns(
        enqueue_ps=pl.coalesce(enqueue), enqueue_thread=pl.coalesce(on_thread)
    ).select(launches.columns)
