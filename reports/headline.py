"""A run's headline numbers, each with n, spread and coverage, or the reason why it is not known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from xlahouse.reports.charts.cards import HeadlineCard
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.panel import Queryable
from xlahouse.reports.charts.phases import MEASURED
from xlahouse.reports.charts.units import (
    SPACE,
    plural,
    show_bytes,
    show_exact,
    show_factor,
    show_ratio,
    show_s,
)
from xlahouse.reports.panels.efficiency.latency import why_no_rate, why_no_tpot, why_no_ttft
from xlahouse.reports.panels.overview.compiled import SQL as COMPILED_SQL
from xlahouse.reports.panels.overview.compiled import compiled_cards

# Of a run of a server, the latencies of its requests, and why any is not known.
SUMMARY_SQL = """
with reasons as (
    select run_id, string_agg(distinct reason, '; ' order by reason) as latency_reason
    from latency_v3
    where source = 'server'
    group by run_id
)
select
    s.run_id,
    mesh_problem,
    s.requests,
    excluded_requests,
    coalesce(s.ttft_s, v.p50_ttft_s) as ttft_s,
    coalesce(s.tpot_s, v.p50_tpot_s) as tpot_s,
    s.output_tokens_per_s,
    output_tokens_per_s_per_chip,
    system_tokens_per_s,
    system_tokens_per_s_per_chip,
    wire_bytes,
    comm_compute_ratio,
    exposed_ratio,
    idle_ratio,
    v.run_id is not null as is_server,
    latency_reason
from run_summary_v2 as s
left join serving_summary_v1 as v on v.run_id = s.run_id
left join reasons on reasons.run_id = s.run_id
order by s.run_id
"""

# The values behind each headline: n values and their 5th and 95th percentile (least and most below n = 20).
SPREAD_SQL = f"""
with before_steps as (
    select run_id, device_id, request, step, idle_ps as between_steps_ps
    from bubble_v2
    where cause = 'between_steps'
), steps as (
    select
        t.*,
        coalesce(b.between_steps_ps, 0) as between_steps_ps,
        max(t.step) over (partition by t.run_id) as last_step
    from device_time_v1 as t
    left join before_steps as b
        on b.run_id = t.run_id and b.device_id = t.device_id
        and b.request is not distinct from t.request and b.step is not distinct from t.step
    where core is distinct from 'sparsecore' and {MEASURED}
    qualify t.step is not null or last_step is null
), sums as (
    select
        run_id,
        device_id,
        case when count(wire_bytes) = count(*) then sum(wire_bytes) end as wire_bytes
    from traffic_volume_v1
    where {MEASURED}
    group by run_id, device_id
), sent as (
    select
        devices.run_id,
        case when sums.device_id is null then 0 else wire_bytes end as wire_bytes
    from devices
    left join sums on sums.run_id = devices.run_id and sums.device_id = devices.device_id
    where traced and (core is distinct from 'sparsecore' or sums.device_id is not null)
), measured as (
    select run_id, 'ttft_s' as metric, ttft_s as value, 1 as weight
    from latency_v3
    union all
    select run_id, 'tpot_s', tpot_s, decode_steps
    from latency_v3
    union all
    select run_id, 'output_tokens_per_s', output_tokens_per_s, 1
    from latency_v3
    union all
    select run_id, 'wire_bytes', wire_bytes, 1
    from sent
    union all
    select run_id, 'comm_compute_ratio', collective_ps / nullif(compute_ps, 0), 1
    from steps
    union all
    select run_id, 'exposed_ratio', exposed_ps / nullif(collective_ps, 0), 1
    from steps
    union all
    select run_id, 'idle_ratio', (idle_ps + between_steps_ps) / nullif(period_ps, 0), 1
    from steps
)
select
    run_id,
    metric,
    count(*) as total,
    count(value) as n,
    cast(sum(weight) as bigint) as steps,
    cast(quantile_disc(value, 0.05) as double) as p05,
    cast(quantile_disc(value, 0.95) as double) as p95
from measured
group by run_id, metric
order by run_id, metric
"""


def headline_sql(facts: PageFacts) -> str:
    """The queries behind a run's cards."""
    asked = (COMPILED_SQL,) if facts.compiled else (SUMMARY_SQL, SPREAD_SQL)
    return "\n\n".join(f"{sql.strip()};" for sql in asked)


@dataclass(frozen=True)
class _Metric:
    name: str  # column of run_summary
    label: str  # on the card
    show: Callable[[float | None], str]  # number -> its text
    why: Callable[[PageFacts], str]  # why it is not known
    over: str  # what n counts


_NO_DEVICES = "no device events in the trace"
_DID_NOT_RUN = "compiled: nothing ran; `xlahouse predict RUN` forecasts a step"


def _why_no_traffic(facts: PageFacts) -> str:
    if not facts.traced:
        return _NO_DEVICES
    return "the size of a collective, or the devices that it spans, are not known"


def _why_no_ratio(facts: PageFacts) -> str:
    return "no compute op ran in a step" if facts.traced else _NO_DEVICES


def _why_no_exposure(facts: PageFacts) -> str:
    return "no collective ran in a step" if facts.traced else _NO_DEVICES


def _why_no_idle(facts: PageFacts) -> str:
    return "no step with ops" if facts.traced else _NO_DEVICES


HEADLINE_METRICS = (
    _Metric("ttft_s", "TTFT", show_s, why_no_ttft, "request"),
    _Metric("tpot_s", "TPOT", show_s, why_no_tpot, "request"),
    _Metric("output_tokens_per_s", "Output tokens/s", show_factor, why_no_rate, "request"),
    _Metric("wire_bytes", "Total wire bytes", show_bytes, _why_no_traffic, "device"),
    _Metric("comm_compute_ratio", "Comm/compute", show_factor, _why_no_ratio, "device step"),
    _Metric("exposed_ratio", "Exposed, of comm.", show_ratio, _why_no_exposure, "device step"),
    _Metric("idle_ratio", "Idle", show_ratio, _why_no_idle, "device step"),
)


def read_cards(
    source: Queryable, runs: Sequence[PageFacts], wanted: bool = True
) -> Mapping[str, list[HeadlineCard]]:
    """The cards of runs by run_id; none unless `wanted`."""
    if not wanted:
        return {facts.run_id: [] for facts in runs}
    spread = source.query(SPREAD_SQL).pl()
    of_run, none = spread.partition_by("run_id", as_dict=True), spread.clear()
    cards = {
        facts.run_id: headline_cards(facts, of_run.get((facts.run_id,), none)) for facts in runs
    }
    if any(facts.compiled for facts in runs):
        found = source.query(COMPILED_SQL).pl().partition_by("run_id", as_dict=True)
        for (run_id,), rows in found.items():
            if run_id in cards:
                cards[run_id] = [*compiled_cards(rows), *cards[run_id]]
    return cards


def headline_cards(facts: PageFacts, spread: pl.DataFrame) -> list[HeadlineCard]:
    """The cards of one run.

    Args:
        facts: with the run's row of SUMMARY_SQL in it.
        spread: rows of SPREAD_SQL, of any runs.
    """
    own = {row["metric"]: row for row in spread.filter(pl.col("run_id") == facts.run_id).to_dicts()}
    return [_card(metric, facts, own.get(metric.name)) for metric in HEADLINE_METRICS]


def _card(metric: _Metric, facts: PageFacts, row: dict[str, float] | None) -> HeadlineCard:
    # Without device events a sum over devices is not 0 but unknown.
    value = facts.row[metric.name] if facts.traced else None
    coverage = _coverage(metric, facts, row)
    if value is None:
        why = _DID_NOT_RUN if facts.compiled else metric.why(facts)
        return HeadlineCard(metric.name, metric.label, "", "", "", coverage, why)
    spread = _spread(metric, row)
    return HeadlineCard(
        metric.name, metric.label, metric.show(value), show_exact(value), spread, coverage, ""
    )


def _spread(metric: _Metric, row: dict[str, float] | None) -> str:
    """The 5th to the 95th percentile; below n = 20 these are the minimum and the maximum."""
    if row is None or row["p05"] is None or row["p95"] is None:
        return "spread not known"
    first, last = metric.show(row["p05"]), metric.show(row["p95"])
    whole = row["n"] < 20
    each = " each" if metric.over == "device" else ""
    if first == last:
        return f"all {first}{each}" if whole else f"p5 and p95: {first}{each}"
    number, _, unit = first.partition(SPACE)
    if unit and last.endswith(f"{SPACE}{unit}"):
        first = number  # `12.1 to 12.5 ms`
    return f"{'range' if whole else 'p5-p95:'} {first} to {last}{each}"


def _coverage(metric: _Metric, facts: PageFacts, row: dict[str, float] | None) -> str:
    n, total, steps = (int(row[key] or 0) for key in ("n", "total", "steps")) if row else (0, 0, 0)
    if metric.over == "request" and not (facts.marked or facts.row["is_server"]):
        return "n = 0"
    if metric.over == "request":
        out = facts.row["excluded_requests"]
        left_out = f", {out:,} left out" if out else ""
        each = f", {plural(steps, 'step')}" if metric.name == "tpot_s" else ""
        return f"n = {n:,} of {plural(total, 'request')}{each}{left_out}"
    if metric.over == "device":
        return f"n = {n:,} of {plural(facts.row['named_devices'], 'device')}"
    return f"n = {n:,} of {plural(total, metric.over)}"
