"""A run's headline numbers, each with n, spread and coverage, or the reason why it is not known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import polars as pl

from xlahouse.reports.facts import RunFacts
from xlahouse.reports.latency import why_no_tpot, why_no_ttft
from xlahouse.reports.units import (
    plural,
    show_bytes,
    show_exact,
    show_factor,
    show_ratio,
    show_s,
)

# The values that `Warehouse.metrics` gives too.
SUMMARY_SQL = """
select
    run_id,
    mesh_problem,
    requests,
    excluded_requests,
    ttft_s,
    tpot_s,
    output_tokens_per_s,
    wire_bytes,
    comm_compute_ratio,
    exposed_ratio,
    idle_ratio
from run_summary_v1
order by run_id
"""

# What each value rests on: n values and their 5th and 95th percentile (least and most below n = 20).
SPREAD_SQL = """
with steps as (
    select *
    from device_time_v1
    where core is distinct from 'sparsecore' and coalesce(phase, 'none') not in ('warmup', 'compile')
), sums as (
    select
        run_id,
        device_id,
        case when count(wire_bytes) = count(*) then sum(wire_bytes) end as wire_bytes
    from traffic_volume_v1
    where coalesce(phase, 'none') not in ('warmup', 'compile')
    group by run_id, device_id
), sent as (
    select
        devices.run_id,
        case when sums.device_id is null then 0 else wire_bytes end as wire_bytes
    from devices
    left join sums on sums.run_id = devices.run_id and sums.device_id = devices.device_id
    where traced and (core is distinct from 'sparsecore' or sums.device_id is not null)
), measured as (
    select run_id, 'ttft_s' as metric, ttft_s as value
    from latency_v1
    union all
    select run_id, 'tpot_s', tpot_s
    from latency_v1
    union all
    select run_id, 'output_tokens_per_s', output_tokens_per_s
    from latency_v1
    union all
    select run_id, 'wire_bytes', wire_bytes
    from sent
    union all
    select run_id, 'comm_compute_ratio', collective_ps / nullif(compute_ps, 0)
    from steps
    union all
    select run_id, 'exposed_ratio', exposed_ps / nullif(collective_ps, 0)
    from steps
    union all
    select run_id, 'idle_ratio', idle_ps / nullif(window_ps, 0)
    from steps
)
select
    run_id,
    metric,
    count(*) as total,
    count(value) as n,
    cast(quantile_disc(value, 0.05) as double) as p05,
    cast(quantile_disc(value, 0.95) as double) as p95
from measured
group by run_id, metric
order by run_id, metric
"""


@dataclass(frozen=True)
class Card:
    """One headline number, as text; `why` stands in its place where it is not known."""

    metric: str
    label: str
    text: str
    exact: str
    spread: str
    coverage: str
    why: str


@dataclass(frozen=True)
class _Metric:
    name: str
    label: str
    show: Callable[[float | None], str]
    why: Callable[[RunFacts], str]
    over: str  # what n counts


_NO_DEVICES = "no device events in the trace"


def _why_no_traffic(facts: RunFacts) -> str:
    if facts.row["traced_devices"] == 0:
        return _NO_DEVICES
    return "the size of a collective is decided on the device"


def _why_no_ratio(facts: RunFacts) -> str:
    return "no compute op ran in a step" if facts.row["traced_devices"] else _NO_DEVICES


def _why_no_exposure(facts: RunFacts) -> str:
    return "no collective ran in a step" if facts.row["traced_devices"] else _NO_DEVICES


def _why_no_idle(facts: RunFacts) -> str:
    return "no step with ops" if facts.row["traced_devices"] else _NO_DEVICES


METRICS = (
    _Metric("ttft_s", "TTFT", show_s, why_no_ttft, "request"),
    _Metric("tpot_s", "TPOT", show_s, why_no_tpot, "request"),
    _Metric("output_tokens_per_s", "Output tokens/s", show_factor, why_no_ttft, "request"),
    _Metric("wire_bytes", "Wire bytes, all devices", show_bytes, _why_no_traffic, "device"),
    _Metric("comm_compute_ratio", "Comm/compute", show_factor, _why_no_ratio, "device step"),
    _Metric("exposed_ratio", "Communication exposed", show_ratio, _why_no_exposure, "device step"),
    _Metric("idle_ratio", "Idle", show_ratio, _why_no_idle, "device step"),
)


def headline_cards(facts: RunFacts, spread: pl.DataFrame) -> list[Card]:
    """The cards of one run.

    Args:
        facts: with the run's row of SUMMARY_SQL in it.
        spread: rows of SPREAD_SQL, of any runs.
    """
    own = {row["metric"]: row for row in spread.filter(pl.col("run_id") == facts.run_id).to_dicts()}
    return [_card(metric, facts, own.get(metric.name)) for metric in METRICS]


def _card(metric: _Metric, facts: RunFacts, row: dict[str, float] | None) -> Card:
    # Without device events a sum over devices is not 0 but unknown.
    value = facts.row[metric.name] if facts.row["traced_devices"] else None
    n, total = (int(row["n"]), int(row["total"])) if row else (0, 0)
    coverage = _coverage(metric, facts, n, total)
    if value is None:
        return Card(metric.name, metric.label, "", "", "", coverage, metric.why(facts))
    spread = ""
    if row and row["p05"] is not None and row["p95"] is not None:
        each = " each" if metric.name == "wire_bytes" else ""
        spread = f"{_span(metric, row['p05'], row['p95'])}{each}"
    return Card(
        metric.name, metric.label, metric.show(value), show_exact(value), spread, coverage, ""
    )


def _span(metric: _Metric, low: float, high: float) -> str:
    first, last = metric.show(low), metric.show(high)
    if first == last:
        return f"all {first}"
    number, _, unit = first.partition(" ")
    # `12.1 to 12.5 ms` where both ends share a unit.
    return f"{number} to {last}" if unit and last.endswith(f" {unit}") else f"{first} to {last}"


def _coverage(metric: _Metric, facts: RunFacts, n: int, total: int) -> str:
    row = facts.row
    if metric.over == "request" and not facts.marked:
        return f"n = {n}, the executions of one program"
    if metric.over == "request":
        left_out = f", {row['excluded_requests']:,} left out" if row["excluded_requests"] else ""
        return f"n = {n:,} of {plural(total, 'request')}{left_out}"
    if metric.over == "device":
        return f"n = {n:,} of {plural(row['named_devices'], 'device')}"
    return f"n = {n:,} of {plural(total, metric.over)}"
