"""Compares two runs: which metrics differ, by how much, and whether the second run is worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xlahouse.sql.answers.device_times import DEVICE_METRICS, device_times
from xlahouse.sql.warehouse import Warehouse

# Metrics that users wait and pay for, and what devices take of them; the other metrics explain these.
JUDGED = ("ttft_s", "tpot_s", "output_tokens_per_s", *DEVICE_METRICS)
NO_REGRESSION, REGRESSION, INCONCLUSIVE = 0, 1, 3

# Repeats of one setup have one median: they are compared by their own values.
_SQL = """
with pair as (
    select
        *,
        case when is_repeat then value else median end as base,
        case when is_repeat then other_value else other_median end as other
    from run_comparison_v2
    where run_id = $base and other_run_id = $other
)
select
    metric, base, other, 100 * (other / nullif(base, 0) - 1) as change_percent,
    spread, runs, other_runs, verdict, differing_count, differing, name, other_name
from pair
order by metric
"""


# A compiled run has no totals: it is compared by what a step of a phase moves and holds on a device.
_LOAD_SQL = """
select
    b.phase, b.metric, b.value as base, o.value as other,
    100 * (o.value / nullif(b.value, 0) - 1) as change_percent
from step_load_v1 as b
inner join step_load_v1 as o
    on o.run_id = $other and o.phase = b.phase and o.metric = b.metric
where b.run_id = $base and (b.source = 'compiled' or o.source = 'compiled')
order by b.phase, b.metric
"""


class LoadChange(NamedTuple):
    """A metric of a step of a phase of two runs side by side, at least one of them compiled."""

    phase: str  # prefill or decode
    metric: str  # as in step_load
    base: float  # of a device in a step
    other: float  # the same of the other run
    change_percent: float | None  # of the other from the base; None where the base is 0


class MetricChange(NamedTuple):
    """A metric of two runs side by side."""

    metric: str  # column of run_summary, or a device time
    # median over the repeats of the base's setup; its own value where both are repeats of one setup
    base: float
    other: float  # the same of the other run
    change_percent: float | None  # of the other from the base; None where the base is 0
    spread: float | None  # the larger of the repeats' spreads; None where a setup has one run
    runs: int  # repeats of the base's setup
    other_runs: int  # repeats of the other's setup
    verdict: str  # on the other run: better, worse, equal (bytes and counts) or inconclusive


@dataclass(frozen=True)
class RunComparison:
    """Two runs side by side."""

    rows: list[MetricChange]  # one per metric that both have
    differing: str  # names of the setup's choices that differ, joined by commas
    differing_count: int  # their number


def compare_runs(warehouse: Warehouse, base: str, other: str) -> RunComparison:
    """Compare two runs, each named by id, prefix or name.

    Raises:
        WarehouseError: there is no such run.
    """
    runs = {"base": warehouse.resolve_run(base), "other": warehouse.resolve_run(other)}
    found = warehouse.query(_SQL, runs).dicts()
    rows = [MetricChange(*(row[name] for name in MetricChange._fields)) for row in found]
    rows += [
        MetricChange(
            time.metric,
            time.base,
            time.other,
            100 * (time.other / time.base - 1) if time.base else None,
            time.spread,
            time.runs,
            time.other_runs,
            time.verdict,
        )
        for time in device_times(warehouse, runs["base"], runs["other"])
    ]
    rows.sort(key=lambda row: row.metric)
    if not found:
        return RunComparison(rows, "", 0)
    return RunComparison(rows, found[0]["differing"], found[0]["differing_count"])


def compare_loads(warehouse: Warehouse, base: str, other: str) -> list[LoadChange]:
    """What a step of each phase moves and holds in two runs, where one of them was compiled; else nothing.

    Raises:
        WarehouseError: there is no such run.
    """
    runs = {"base": warehouse.resolve_run(base), "other": warehouse.resolve_run(other)}
    return [LoadChange(**row) for row in warehouse.query(_LOAD_SQL, runs).dicts()]


def judge(
    comparison: RunComparison, fail_over_percent: float, metrics: Sequence[str] = JUDGED
) -> tuple[int, str]:
    """Judge whether the other run is worse than the base by more than a percentage.

    A metric is a regression where it is worse by more than that and by more than the spread of the
    repeats. It is inconclusive where a time's setup has one run, or where the repeats spread by more than the
    percentage and the difference lies within their spread.

    Returns:
        (NO_REGRESSION, REGRESSION or INCONCLUSIVE, a line with the reason).
    """
    named = {row.metric: row for row in comparison.rows}
    judged = [named[metric] for metric in metrics if metric in named]
    worse = [row for row in judged if row.verdict == "worse" and _past(row, fail_over_percent)]
    if worse:
        changes = ", ".join(f"{row.metric} {row.change_percent:+.2f} %" for row in worse)
        return REGRESSION, f"worse by more than {fail_over_percent:g} %: {changes}"
    if not judged:
        return INCONCLUSIVE, f"the runs share none of {', '.join(metrics)}"
    single = [
        row.metric
        for row in judged
        if row.verdict == "inconclusive" and min(row.runs, row.other_runs) < 2
    ]
    if single:
        return INCONCLUSIVE, f"{', '.join(single)}: one run of a setup shows no spread; repeat it"
    noisy = [
        row.metric
        for row in judged
        if row.verdict == "inconclusive" and _spreads(row, fail_over_percent)
    ]
    if noisy:
        return INCONCLUSIVE, (
            f"{', '.join(noisy)}: repeats spread by more than {fail_over_percent:g} %; repeat more often"
        )
    return NO_REGRESSION, f"no regression above {fail_over_percent:g} %"


def _past(row: MetricChange, percent: float) -> bool:
    return row.change_percent is None or abs(row.change_percent) > percent


def _spreads(row: MetricChange, percent: float) -> bool:
    return row.spread is None or row.spread > percent / 100 * abs(row.base)
