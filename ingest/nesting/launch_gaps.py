"""Finds the time between launches of a device, while a request is open."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

LEAST_PS = 10_000_000  # a gap is longer than this
GAPS = {
    "device_id": pl.Int64,
    "launch": pl.Int64,  # the next one
    "start_ps": pl.Int64,
    "duration_ps": pl.Int64,
    "thread": pl.String,  # that enqueued the next launch; NULL where it is not known
}
_BETWEEN = dict.fromkeys(("clock", "start_ps", "end_ps"), pl.Int64)


def launch_gaps(
    launches: pl.DataFrame, markers: pl.DataFrame, component_of: Mapping[str, int]
) -> pl.DataFrame:
    """Time between launches longer than 10 us: no launch is open on the device, and a request is, where
    any are marked.

    Args:
        launches: of all devices: device_id, launch, start_ps, duration_ps, request, enqueue_thread, and
            `clock`, the set of clocks that its own compares with.
        markers: frames.MARKERS.
        component_of: of each marker's host, its set of clocks.

    Returns:
        GAPS, by device and start.
    """
    if launches.is_empty():
        return pl.DataFrame(schema=GAPS)
    end = pl.col("start_ps") + pl.col("duration_ps")
    ran = launches.select("device_id", "start_ps", end_ps=end)
    closed = _without_request(launches, markers, component_of)
    devices = launches.select("device_id", "clock").unique()
    outside = devices.join(closed, on="clock").select("device_id", "start_ps", "end_ps")
    first = launches.group_by("device_id").agg(first_ps=pl.col("start_ps").min())
    taken = pl.concat([ran, outside]).sort("device_id", "start_ps")
    reached = pl.col("end_ps").cum_max().shift(1).over("device_id")
    gaps = (
        taken.with_columns(reached_ps=reached)
        .join(first, on="device_id", how="left", maintain_order="left")
        .filter(
            pl.col("start_ps") - pl.col("reached_ps") > LEAST_PS,
            pl.col("start_ps") > pl.col("first_ps"),
        )
        .sort("start_ps")
    )
    following = launches.select(
        "device_id", "launch", next_ps="start_ps", thread="enqueue_thread"
    ).sort("next_ps", "launch")
    found = gaps.join_asof(
        following,
        left_on="start_ps",
        right_on="next_ps",
        by="device_id",
        strategy="forward",
        check_sortedness=False,
    )
    return (
        found.drop_nulls("launch")
        .select(
            "device_id",
            "launch",
            start_ps="reached_ps",
            duration_ps=pl.col("start_ps") - pl.col("reached_ps"),
            thread="thread",
        )
        .sort("device_id", "start_ps")
        .cast(GAPS)  # type: ignore[arg-type]
    )


def _without_request(
    launches: pl.DataFrame, markers: pl.DataFrame, component_of: Mapping[str, int]
) -> pl.DataFrame:
    """clock, start_ps, end_ps of the times between requests.

    A request is open from its first marker to the later of the end of its last marker and of its last
    launch; a marker of a whole request counts by itself, since one around warm-ups has another's number.
    """
    if markers["request"].null_count() == markers.height:
        return pl.DataFrame(schema=_BETWEEN)
    end = pl.col("start_ps") + pl.col("duration_ps")
    whole = pl.when(pl.col("phase") == "request").then("start_ps")
    marks = markers.drop_nulls("request").with_columns(
        clock=pl.col("host").replace_strict(component_of, default=None, return_dtype=pl.Int64),
        alone=whole,
    )
    marked = (
        marks.drop_nulls("clock")
        .group_by("clock", "request", "alone")
        .agg(pl.col("start_ps").min(), end_ps=end.max())
    )
    stepped = launches.group_by("clock", "request").agg(last_ps=end.max())
    both = marked.join(stepped, on=["clock", "request"], how="left")
    last = pl.when(pl.col("alone").is_null()).then("last_ps")
    opened = both.select("clock", "start_ps", end_ps=pl.max_horizontal("end_ps", last))
    reached = pl.col("end_ps").cum_max().shift(1).over("clock")
    return (
        opened.sort("clock", "start_ps")
        .with_columns(reached_ps=reached)
        .filter(pl.col("start_ps") > pl.col("reached_ps"))
        .select("clock", start_ps="reached_ps", end_ps="start_ps")
    )
