"""A prediction in a few lines: the steps of each phase, measured and predicted, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from xlahouse.ingest.replay.schedule import Costs
from xlahouse.ingest.replay.step_times import step_times
from xlahouse.sql.predict.loading import Parent

_STEP = ["request", "step"]


def phase_means(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """phase, steps, step_ps, replayed_step_ps: mean periods of the same steps, a row a phase.

    Args:
        before: of step_times.
        after: the same of a replay.
    """
    both = before.join(after.select(*_STEP, replayed_ps="period_ps"), on=_STEP, nulls_equal=True)
    return (
        both.group_by("phase")
        .agg(
            steps=pl.len().cast(pl.Int64),
            step_ps=pl.col("period_ps").mean(),
            replayed_step_ps=pl.col("replayed_ps").mean(),
        )
        .sort("phase", nulls_last=True)
    )


def whole_ps(means: pl.DataFrame) -> pl.DataFrame:
    """Of phase_means, with whole picoseconds, as tables have them."""
    return means.with_columns(
        pl.col("step_ps", "replayed_step_ps").round().cast(pl.Int64),
    )


def phase_times(parent: Parent, costs: Costs) -> pl.DataFrame:
    """One row a phase: its steps' mean period, measured and predicted, in ms."""
    schedule = parent.schedule
    means = phase_means(step_times(schedule), step_times(schedule, schedule.replay(costs)))
    times = means.select(
        "phase",
        "steps",
        measured_step_ms=pl.col("step_ps") / 1e9,
        predicted_step_ms=pl.col("replayed_step_ps") / 1e9,
    )
    share = pl.col("predicted_step_ms") / pl.col("measured_step_ms") - 1
    return times.with_columns(change_percent=share * 100)


def rests_on_lines(costs: pl.DataFrame) -> Iterator[str]:
    """What the transfers of a prediction rest on, a line each."""
    for row in costs.iter_rows(named=True):
        what = f"{row['axis']} {row['kind']} of {row['group_size']} over {row['fabric'].upper()}"
        if row["source"].startswith("fitted"):
            error = 100 * row["error_ratio"]
            other = " in groups of other sizes" if row["source"] != "fitted" else ""
            yield (
                f"{what}: latency {row['latency_ps'] / 1e6:.3g} us a step and "
                f"{row['bytes_per_s'] / 1e9:.4g} GB/s, fitted to {row['samples']} transfers of "
                f"{row['sizes']} sizes{other} (median error {error:.2g} %)"
            )
        elif row["source"] == "peaks":
            yield f"{what}: bandwidth from the peaks of its links; fewer than three sizes are measured"
        else:
            yield f"{what}: as measured; neither fitted nor bounded by known peaks"
