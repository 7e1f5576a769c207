"""A prediction in a few lines: latencies and periods, measured and predicted, and what they rest on."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from xlahouse.capture.words import plural
from xlahouse.sql.warehouse import Warehouse

_STEP = ["request", "step"]


def phase_means(before: pl.DataFrame, after: pl.DataFrame) -> pl.DataFrame:
    """phase, steps, step_ps, replayed_step_ps: mean periods of the same steps, one row per phase.

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


_LATENCIES = """
    select s.run_id, s.ttft_s * 1e3 as "TTFT", s.tpot_s * 1e3 as "TPOT", l.e2e_ms as "e2e"
    from run_summary_v2 s
    left join (
        select run_id, median(e2e_s) * 1e3 as e2e_ms from latency_v3 group by run_id
    ) l on l.run_id = s.run_id
    where s.run_id in ($parent, $run)
"""
_PERIODS = """
    select
        run_id, case when phase = 'step' or phase is null then 'step' else phase || ' step' end as step,
        case when count(period_ps) = count(*) then avg(period_ps) end / 1e9 as period_ms
    from device_time_v1
    where run_id in ($parent, $run) and step is not null and core is distinct from 'sparsecore'
    group by run_id, phase
"""
_ERRORS = """
    select phase, error_ratio, runs from predicted_step_v1
    where run_id = $run and error_ratio is not null order by phase
"""
UNCONFIRMED = "no hardware has validated these times"


def predicted_times(root: str, parent: str, run: str) -> pl.DataFrame:
    """time, measured_ms, predicted_ms, change_percent: TTFT, TPOT, e2e, and a row of each phase's steps.

    As pages have them: latencies are those of run_summary, e2e the median of latency's over requests, periods
    those of device_time, over all devices and steps. A time that is not known of the measured run has no row.

    Args:
        root: of the warehouse, which holds both runs.
        parent: id of the measured run.
        run: id of the predicted one.
    """
    given = {"parent": parent, "run": run}
    with Warehouse(root) as warehouse:
        latencies = (
            warehouse.query(_LATENCIES, given).pl().unpivot(index="run_id", variable_name="time")
        )
        periods = warehouse.query(_PERIODS, given).pl().sort("step")
    named = periods.select(
        "run_id",
        pl.format("mean period of a device's {}", "step").alias("time"),
        value="period_ms",
    )
    whole = pl.concat([latencies, named]).drop_nulls("value")
    before, after = (whole.filter(pl.col("run_id") == each) for each in (parent, run))
    both = before.select("time", measured_ms="value").join(
        after.select("time", predicted_ms="value"), on="time", how="left", maintain_order="left"
    )
    share = pl.col("predicted_ms") / pl.col("measured_ms") - 1
    return both.with_columns(change_percent=share * 100)


def growth_lines(times: pl.DataFrame) -> Iterator[str]:
    """Why TPOT grows in a replay whose requests end no later.

    Args:
        times: as predicted_times has them.
    """
    change = dict(times.drop_nulls("change_percent").select("time", "change_percent").iter_rows())
    if change.get("TPOT", 0) > 0 >= change.get("e2e", 1):
        yield (
            "TPOT grows though requests end no later: it counts from the end of the prefill, which comes "
            "sooner by more than the steps after it do; e2e says what a request gains"
        )


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


def error_lines(root: str, run: str) -> Iterator[str]:
    """How far a prediction is from the measured runs of what it predicts, one line per phase.

    Args:
        root: of the warehouse, which holds the prediction.
        run: id of the predicted run, or of the compiled run that was forecast.
    """
    with Warehouse(root) as warehouse:
        rows = warehouse.query(_ERRORS, {"run": run}).dicts()
    for row in rows:
        beside = plural(row["runs"], "measured run")
        yield f"{row['phase']}: error {100 * row['error_ratio']:+.1f} %, beside {beside}"
    if not rows:
        yield UNCONFIRMED
