"""Steps of PyTorch's profiler as launches: the kernels that the host launched within each marked step."""

from __future__ import annotations

import polars as pl

from xlahouse.ingest.events import frames

PROFILER_STEP = r"^ProfilerStep#(\d+)$"
# An engine's own step, such as vLLM's `execute_context_0(0)_generation_8(8)`.
_ENGINE_STEP = r"^execute_\w"
_ANNOTATION = "user_annotation"
CORRELATION = r'"correlation":\s*"?(\d+)'


def marked_steps(rows: pl.DataFrame) -> pl.DataFrame:
    """Annotations that are steps: of the profiler, else of an engine where the profiler marks none."""
    marks = rows.filter(pl.col("cat") == _ANNOTATION)
    for pattern in (PROFILER_STEP, _ENGINE_STEP):
        found = marks.filter(pl.col("name").str.contains(pattern))
        if not found.is_empty():
            return found
    return marks.clear()


def with_steps(ops: pl.DataFrame, others: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Ops with the step that launched each as `launch_key`, its name and the time of the first call.

    A kernel of a replayed graph has the correlation id of the graph's launch. The call may be on any thread
    of the process: autograd launches from its own.

    Args:
        ops: kernels with args and rank.
        others: all other rows, with rank and pid.
        calls: of the runtime, among these.

    Returns:
        ops with launch_key, step_name, enqueue_ps and enqueue_thread, all NULL outside every step.
    """
    marks = marked_steps(others).select(
        "rank",
        "pid",
        "start_ps",
        until=pl.col("start_ps") + pl.col("duration_ps"),
        step_name=pl.col("name").str.extract(r"^([A-Za-z]+)"),
    )
    number = pl.int_range(pl.len()).over("rank", "pid")
    marks = marks.sort("start_ps").with_columns(launch_key=number.cast(pl.Int64))
    correlation = pl.col("args").str.extract(CORRELATION).cast(pl.Int64, strict=False)
    made = calls.select("rank", "pid", "thread", "start_ps", correlation=correlation).drop_nulls(
        ["correlation", "start_ps"]
    )
    owned = (
        made.sort("start_ps")
        .unique(["rank", "correlation"], keep="first", maintain_order=True)
        .join_asof(marks, on="start_ps", by=["rank", "pid"], check_sortedness=False)
        .filter(pl.col("start_ps") < pl.col("until"))
        .select(
            "rank",
            "correlation",
            "launch_key",
            "step_name",
            enqueue_ps="start_ps",
            enqueue_thread="thread",
        )
    )
    return (
        ops.with_columns(correlation=correlation)
        .join(owned, on=["rank", "correlation"], how="left", maintain_order="left")
        .drop("correlation")
    )


def launches_of(ops: pl.DataFrame) -> pl.DataFrame:
    """frames.LAUNCHES of one device: each step from its first kernel's start to its last one's end."""
    return (
        ops.drop_nulls("launch_key")
        .group_by("launch_key")
        .agg(
            pl.col("device_id").first(),
            pl.col("step_name").first().alias("module"),
            pl.col("enqueue_ps").min(),
            pl.col("enqueue_thread").sort_by("enqueue_ps", nulls_last=True).first(),
            pl.col("start_ps").min(),
            duration_ps=(pl.col("start_ps") + pl.col("duration_ps")).max()
            - pl.col("start_ps").min(),
        )
        .sort("start_ps")
        .pipe(frames.conform, frames.LAUNCHES)
    )
