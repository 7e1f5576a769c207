"""Setups side by side: which parallelism to choose for a workload, and at which batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from xlahouse.reports.charts.columns import (
    bytes_column,
    count_column,
    factor_column,
    ratio_column,
    s_column,
    text_column,
)
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.panel import Figure, Panel, TableColumn
from xlahouse.reports.charts.units import plural, show_factor, show_ratio, show_s
from xlahouse.reports.panels.runs.decision_charts import (
    LATENCIES,
    RATE,
    batch_chart,
    choice_chart,
    forecasts,
    pareto,
    shares_grey,
)
from xlahouse.reports.panels.runs.setups import (
    CHIP_RATE,
    MEMBERS_SQL,
    coverage,
    families,
    left_out,
    shared_words,
    subjects,
    unknown_models,
    virtual_note,
)

# Memory: the most that a program of the run holds in a device's HBM at once. Forecasts: the widest interval
# of a setup's runs; the rate's is over that of e2e, which is TTFT and a TPOT for each token after the first.
SQL = f"""{MEMBERS_SQL.strip()}, measured as (
    select
        setup_key,
        count(*) as requests,
        min(output_tokens_per_s) as min_output_tokens_per_s,
        max(output_tokens_per_s) as max_output_tokens_per_s
    from latency_v3
    inner join members using (run_id)
    group by setup_key
), held as (
    select setup_key, max(peak_bytes) as memory_bytes
    from program_memory_v1
    inner join members using (run_id)
    where memory = 'HBM'
    group by setup_key
), placed as (
    select
        run_id,
        cast(count(*) as double) / coalesce(max(devices_per_chip), 1) as places,
        case when max(devices_per_chip) is null then 'device' else 'chip' end as per
    from hardware_peaks_v1
    group by run_id
), steps as (
    select
        run_id,
        cast(min(case when metric = 'ttft' then optimistic_ps end) as double) / 1e12 as least_ttft_s,
        cast(max(case when metric = 'ttft' then pessimistic_ps end) as double) / 1e12 as most_ttft_s,
        cast(min(case when metric = 'tpot' then optimistic_ps end) as double) / 1e12 as least_tpot_s,
        cast(max(case when metric = 'tpot' then pessimistic_ps end) as double) / 1e12 as most_tpot_s
    from forecast
    where change is null
    group by run_id
), forecasts as (
    select
        setup_key,
        min(least_ttft_s) as least_ttft_s,
        max(most_ttft_s) as most_ttft_s,
        min(least_tpot_s) as least_tpot_s,
        max(most_tpot_s) as most_tpot_s,
        min(
            runs.batch_size * output_tokens / places
            / nullif(most_ttft_s + (output_tokens - 1) * most_tpot_s, 0)
        ) as least_rate,
        max(
            runs.batch_size * output_tokens / places
            / nullif(least_ttft_s + (output_tokens - 1) * least_tpot_s, 0)
        ) as most_rate,
        min(per) as forecast_per
    from steps
    inner join members using (run_id)
    inner join runs using (run_id)
    inner join placed using (run_id)
    group by setup_key
), medians as (
    select
        family,
        subject,
        label,
        setup_key,
        min(members.parallelism) as parallelism,
        min(evidence) as evidence,
        min(members.batch_size) as batch_size,
        count(*) as runs,
        median(ttft_s) as ttft_s,
        median(tpot_s) as tpot_s,
        median(output_tokens_per_s) as output_tokens_per_s,
        {CHIP_RATE} as chip_tokens_per_s,
        case when count(output_tokens_per_s) > 1
            then (max(output_tokens_per_s) - min(output_tokens_per_s))
                / nullif(median(output_tokens_per_s), 0) end as spread_ratio,
        case when count(output_tokens_per_s_per_chip) = count(output_tokens_per_s) then 'chip'
            else 'device' end as per,
        cast(round(median(
            coalesce(
                output_tokens_per_s / nullif(output_tokens_per_s_per_chip, 0),
                cast(device_count as double)
            )
        )) as bigint) as chips,
        median(exposed_ratio) as exposed_ratio,
        median(idle_ratio) as idle_ratio
    from run_summary_v2
    inner join members using (run_id)
    group by family, subject, label, setup_key
)
select
    medians.* exclude (per),
    coalesce(forecast_per, per) as per,
    least_ttft_s,
    most_ttft_s,
    least_tpot_s,
    most_tpot_s,
    least_rate,
    most_rate,
    memory_bytes,
    coalesce(requests, 0) as requests,
    min_output_tokens_per_s * chip_tokens_per_s / nullif(output_tokens_per_s, 0)
        as min_chip_tokens_per_s,
    max_output_tokens_per_s * chip_tokens_per_s / nullif(output_tokens_per_s, 0)
        as max_chip_tokens_per_s
from medians
left join measured using (setup_key)
left join held using (setup_key)
left join forecasts using (setup_key)
order by family, chip_tokens_per_s desc nulls last, ttft_s nulls last, subject, label, setup_key
"""

COLUMNS = (
    text_column("label", "Setup"),
    count_column("batch_size", "Batch"),
    count_column("chips", "Chips"),
    s_column("ttft_s", "TTFT"),
    s_column("tpot_s", "TPOT"),
    factor_column("chip_tokens_per_s", "Tokens/s per chip"),
    ratio_column("exposed_ratio", "Exposed, of comm."),
    ratio_column("idle_ratio", "Idle"),
    bytes_column("memory_bytes", "Peak HBM"),
    count_column("runs", "Runs (n)"),
    count_column("requests", "Requests"),
    ratio_column("spread_ratio", "Spread of the rate"),
    text_column("evidence", "Source"),
)
_HOLLOW = " Hollow: compiled or predicted, not measured."
_BOX = " A box: a forecast, from best to worst, without the host."
_GREY = " Grey: parallelisms beyond the colours; names and tooltips tell them."
# A dash: no forecast was made, of a setup that ran.
_FORECAST_COLUMNS = tuple(
    TableColumn(f"{end}_{latency}", heading, lambda value: "-" if value is None else show_s(value))
    for latency, title in LATENCIES.items()
    for end, heading in (("least", f"{title} at best"), ("most", f"{title} at worst"))
)


def columns(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> tuple[TableColumn, ...]:
    """Those of forecasts where there are any, and of each workload what other workloads do not share."""
    known = any(rows[each.name].is_not_null().any() for each in _FORECAST_COLUMNS)
    shared = shared_words(rows)

    def own_words(family: str) -> str:
        return ", ".join(part for part in family.split(", ") if part not in shared)

    several = rows["family"].n_unique() > 1
    # Before the setup: rows are by workload, and a rate of one says nothing about another.
    workload = (text_column("family", "Workload", own_words),) if several else ()
    return (*workload, *COLUMNS[:5], *(_FORECAST_COLUMNS if known else ()), *COLUMNS[5:])


def figures(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[Figure]:
    """Per model and lengths: the rate against each latency, and by batch where there are several."""
    site = _by_importance(rows, runs)
    found = []
    for name, part in families(rows):
        known = part.drop_nulls(RATE)
        hollow = _HOLLOW if (part["evidence"] != "measured").any() else ""
        for latency, title in LATENCIES.items():
            drawn = pl.concat([known.drop_nulls(latency), forecasts(part, latency)])
            if len(drawn) > 1:
                box = _BOX if len(forecasts(drawn, latency)) else ""
                note = (
                    "A mark is a setup. Dashed: setups that no other beats in both, of those that "
                    f"were measured. Up and left is better.{hollow}{box}{_grey(drawn, site)}"
                )
                chart = choice_chart(drawn, latency, site)
                found.append(Figure(f"Rate against {title}: {name}", chart, note, _shape(title)))
        batches = known.drop_nulls("batch_size")
        if batches["batch_size"].n_unique() > 1:
            note = "Point: median over runs; bar: least to most over their requests."
            note += _grey(batches, site)
            found.append(Figure(f"Rate by batch: {name}", batch_chart(batches, site), note))
    return found


def _by_importance(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[str]:
    """The parallelisms of all runs: those on a dashed line, then those with the most runs."""
    best = [
        name
        for _, part in families(rows)
        for latency in LATENCIES
        for name in pareto(part, latency)["parallelism"]
    ]
    counts = Counter(facts.row["parallelism"] or "unknown mesh" for facts in runs)
    return [*best, *sorted(counts, key=lambda name: (-counts[name], name))]


def _grey(rows: pl.DataFrame, site: Sequence[str]) -> str:
    """What grey marks are, where there are any."""
    return _GREY if shares_grey(rows["parallelism"], site) else ""


def _shape(latency: str) -> str:
    return "wide" if latency == "TPOT" else "half"


def verdict(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[str]:
    """Per model and lengths: the setup with the most output per chip, how certain that is, and the setup with
    the least latency; first of all that times of virtual devices decide nothing."""
    found = (text for name, part in families(rows) for text in _verdict(name, part))
    return [*virtual_note(runs), *found]


def _verdict(name: str, part: pl.DataFrame) -> list[str]:
    known = part.drop_nulls(RATE)
    measured = known.filter(pl.col("evidence") == "measured")
    ranked = (known if measured.is_empty() else measured).sort(
        RATE, descending=True, maintain_order=True
    )
    if len(ranked) < 2:
        return []
    best = ranked.row(0, named=True)
    several = ranked["chips"].n_unique() > 1
    text = (
        f"{name}: {_setup(best, several)} gives the most output tokens/s per {best['per']}, "
        f"{show_factor(best[RATE])}{_latency(best)}. {_certainty(*ranked.head(2).to_dicts())}"
    )
    latency = "tpot_s" if ranked["tpot_s"].is_not_null().any() else "ttft_s"
    line = pareto(ranked, latency)
    if len(line) > 1:
        quick = line.row(0, named=True)
        text += (
            f" {_setup(quick, several)} has the least {LATENCIES[latency]}, {show_s(quick[latency])}, with "
            f"{show_ratio(quick[RATE] / best[RATE])} of that rate; "
            f"{len(line)} of {len(ranked)} setups are on the dashed line."
        )
    return [text]


def _setup(row: Mapping[str, Any], with_chips: bool) -> str:
    batch = "" if row["batch_size"] is None else f" at batch {row['batch_size']:,}"
    chips = f" on {plural(row['chips'], row['per'])}" if with_chips and row["chips"] else ""
    return f"{row['label']}{batch}{chips}"


def _latency(row: Mapping[str, Any]) -> str:
    known = [(title, row[name]) for name, title in LATENCIES.items() if row[name] is not None]
    return f" ({', '.join(f'{title} {show_s(value)}' for title, value in known)})" if known else ""


def notes(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[str]:
    """Which setup is ahead in each workload, how certain that is, and what has no chart."""
    found = []
    for subject, part in subjects(rows):
        ranked = part.filter(pl.col("evidence") == "measured").drop_nulls(RATE)
        if len(ranked) > 1:
            ranked = ranked.sort(RATE, descending=True, maintain_order=True)
            found.append(_leader(subject, *ranked.head(2).to_dicts()))
    if rows.drop_nulls("batch_size").group_by("family").agg(pl.col("batch_size").n_unique())[
        "batch_size"
    ].max() in (None, 1):
        found.append("No workload was run at several batches, so the best batch is not known.")
    shared = shared_words(rows)
    if shared:
        found.append(f"The same in all: {', '.join(shared)}.")
    return [*found, *unknown_models(runs), *left_out(rows)]


def _leader(subject: str, first: dict[str, float], second: dict[str, float]) -> str:
    rate, next_rate = first[RATE], second[RATE]
    lead = (
        f"{subject}: {first['label']} gives the most output tokens/s per {first['per']}, "
        f"{show_factor(rate)}; next is "
        f"{second['label']} with {show_factor(next_rate)}"
    )
    return f"{lead}. {_certainty(first, second)}"


def _certainty(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """How certain it is that the first of two setups is ahead of the next."""
    if min(first["runs"], second["runs"]) == 1:
        return "Inconclusive: a setup has one run, so its spread over runs is not known."
    if first["min_chip_tokens_per_s"] <= second["max_chip_tokens_per_s"]:
        return "Inconclusive: the ranges over their requests overlap."
    return "The ranges over their requests do not overlap."


PANEL: Panel[Sequence[PageFacts]] = Panel(
    key="rates",
    title="Which setup to choose",
    lede="Output tokens/s of a chip against latency, one mark per setup, with all its repeats. Rates are "
    "per chip, or per device where the devices of a chip are not known. m2: two microbatches.",
    sql=SQL,
    columns=(),
    columns_of=columns,
    figures=figures,
    coverage=coverage,
    why_empty=lambda runs: "There is no run on this page.",
    verdict=verdict,
    notes=notes,
    open_table=True,
)
