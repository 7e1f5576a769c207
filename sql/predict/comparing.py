"""A prediction in a few lines: the steps of each phase, measured and predicted, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from xlahouse.ingest.replay.schedule import Costs
from xlahouse.ingest.replay.step_times import step_times
from xlahouse.sql.predict.loading import Parent


def phase_times(parent: Parent, costs: Costs) -> pl.DataFrame:
    """One row a phase: its steps' mean period, measured and predicted, in ms."""
    schedule = parent.schedule
    key = ["request", "step"]
    after = step_times(schedule, schedule.replay(costs))
    both = step_times(schedule).join(
        after.select(*key, predicted_ps="period_ps"), on=key, nulls_equal=True
    )
    mean = both.group_by("phase").agg(
        steps=pl.len(),
        measured_step_ms=pl.col("period_ps").mean() / 1e9,
        predicted_step_ms=pl.col("predicted_ps").mean() / 1e9,
    )
    share = pl.col("predicted_step_ms") / pl.col("measured_step_ms") - 1
    return mean.with_columns(change_percent=share * 100).sort("phase", nulls_last=True)


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
