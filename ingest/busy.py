"""Merges what a device did into intervals, once, so that interval views need no window over ops."""

from __future__ import annotations

import polars as pl

from xlahouse.ingest.collectives import BARRIER

KEY = ["device_id", "request", "step", "category"]


def busy_intervals(ops: pl.DataFrame, collectives: pl.DataFrame) -> pl.DataFrame:
    """The busy_intervals table without run_id.

    compute: compute ops. collective: transfers in flight, and ops of transfers whose other half was not
    seen. copy_running: copy and host-transfer ops that
    run (a prefetch in flight alone does not count). sync_wait: barriers. masked: the compute ops of
    pipeline ticks in which the stage holds no microbatch, again (they are compute too).
    """
    on_core = ops.filter(~pl.col("on_async_line") & (pl.col("duration_ps") > 0))
    category = (
        pl.when(pl.col("category") == "compute")
        .then(pl.lit("compute"))
        .when(pl.col("category").is_in(["copy", "host_transfer"]))
        .then(pl.lit("copy_running"))
        .when(pl.col("category") == "collective")
        .then(pl.lit("collective"))
        .when(pl.col("op") == BARRIER)
        .then(pl.lit("sync_wait"))
    )
    columns = ["device_id", "request", "step", "start_ps", "duration_ps"]
    spans = on_core.select(*columns, category=category).drop_nulls("category")
    flights = collectives.filter(pl.col("duration_ps") > 0).select(
        *columns, category=pl.lit("collective")
    )
    masked = on_core.filter(pl.col("masked") & (pl.col("category") == "compute"))
    masked = masked.select(*columns, category=pl.lit("masked"))
    return merge_spans(pl.concat([spans, flights, masked]), KEY)


def merge_spans(spans: pl.DataFrame, key: list[str]) -> pl.DataFrame:
    """Union of half-open intervals per key: spans that overlap or touch become one."""
    end = pl.col("start_ps") + pl.col("duration_ps")
    latest = end.cum_max().shift(1).over(key)
    begins = latest.is_null() | (pl.col("start_ps") > latest)
    ordered = spans.sort(*key, "start_ps").with_columns(end_ps=end, begins=begins)
    return (
        ordered.with_columns(number=pl.col("begins").cum_sum())
        .group_by("number", maintain_order=True)
        .agg(
            *(pl.col(name).first() for name in key),
            pl.col("start_ps").first(),
            duration_ps=pl.col("end_ps").max() - pl.col("start_ps").first(),
        )
        .drop("number")
    )
