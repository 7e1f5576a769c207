"""Launches and the steps that they belong to: numbers, instances, enqueue times, markers."""

from __future__ import annotations

import polars as pl

from xlahouse.ingest.instances import by_first_start, number_instances

STEP_MARKERS = ("prefill", "decode", "mixed", "warmup")
STEP = ("phase", "request", "step")


def finish_launches(
    launches: pl.DataFrame, markers: pl.DataFrame, hosts: pl.DataFrame
) -> pl.DataFrame:
    """Number launches, find their instances, and place them in steps.

    Args:
        launches: frames.LAUNCHES of all devices.
        markers: frames.MARKERS of all hosts.
        hosts: device_id, host.

    Returns:
        The launches table without run_id, and `launch_key`.
    """
    ordered = launches.sort("device_id", "start_ps").with_columns(
        launch=pl.int_range(pl.len()).over("device_id")
    )
    known = pl.struct("instance_key", "program_id").rank("dense").cast(pl.Int64) - 1
    if ordered["instance_key"].null_count() == 0:
        instance = ordered.select(known.alias("instance"))["instance"]
    else:
        instance = number_instances(ordered, ["program_id", "module"])
    numbered = by_first_start(ordered.with_columns(launch_instance=instance), "launch_instance")
    return _with_step(numbered, markers, hosts)


def _with_step(launches: pl.DataFrame, markers: pl.DataFrame, hosts: pl.DataFrame) -> pl.DataFrame:
    steps = markers.filter(pl.col("phase").is_in(STEP_MARKERS))
    if steps.is_empty():
        return launches.with_columns(
            phase=pl.lit("step"), request=pl.lit(None, pl.Int64), step="launch_instance"
        )
    end = (pl.col("start_ps") + pl.col("duration_ps")).alias("until")
    opened = steps.sort("start_ps").select(
        pl.col("host").fill_null(""), *STEP, end, when="start_ps"
    )
    hosted = launches.join(hosts, on="device_id", how="left").with_columns(
        pl.col("host").fill_null(""), when=pl.coalesce("enqueue_ps", "start_ps")
    )
    joined = hosted.sort("when").join_asof(opened, on="when", by="host", check_sortedness=False)
    inside = pl.col("when") < pl.col("until")
    return (
        joined.with_columns(pl.when(inside).then(name).alias(name) for name in STEP)
        .drop("until", "when", "host")
        .sort("device_id", "launch")
    )


def phase_rows(markers: pl.DataFrame, launches: pl.DataFrame) -> pl.DataFrame:
    """The phases table without run_id: markers, or launch instances where no marker is."""
    marked = markers.with_columns(source=pl.lit("marker"))
    if markers["phase"].is_in(STEP_MARKERS).any():
        return marked
    end = (pl.col("start_ps") + pl.col("duration_ps")).max()
    modules = launches.group_by("launch_instance").agg(
        start_ps=pl.col("start_ps").min(), duration_ps=end - pl.col("start_ps").min()
    )
    return pl.concat(
        [
            marked,
            modules.select(
                pl.lit("step").alias("phase"),
                pl.col("launch_instance").alias("step"),
                "start_ps",
                "duration_ps",
                pl.lit("module").alias("source"),
            ),
        ],
        how="diagonal",
    )
