"""Runs side by side: which parallelism is faster for a workload, and at which batch."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import amount
from xlahouse.reports.charts.columns import count_column, factor_column, s_column, text_column
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.palette import SERIES_COLOUR, label_colours
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.theme import colour, finish, rows_height
from xlahouse.reports.charts.units import SECONDS, Unit, show_factor, suit
from xlahouse.reports.panels.runs.setups import (
    MEMBERS_SQL,
    coverage,
    left_out,
    subjects,
    virtual_note,
)

SQL = f"""{MEMBERS_SQL.strip()}, measured as (
    select
        setup_key,
        count(*) as requests,
        min(ttft_s) as min_ttft_s,
        max(ttft_s) as max_ttft_s,
        min(tpot_s) as min_tpot_s,
        max(tpot_s) as max_tpot_s,
        min(output_tokens_per_s) as min_output_tokens_per_s,
        max(output_tokens_per_s) as max_output_tokens_per_s
    from latency_v2
    inner join members using (run_id)
    group by setup_key
), medians as (
    select
        subject,
        label,
        setup_key,
        min(members.model) as model,
        min(members.batch_size) as batch_size,
        count(*) as runs,
        median(ttft_s) as ttft_s,
        median(tpot_s) as tpot_s,
        median(output_tokens_per_s) as output_tokens_per_s,
        median(
            coalesce(
                output_tokens_per_s_per_chip, output_tokens_per_s / nullif(device_count, 0)
            )
        ) as chip_tokens_per_s,
        case when count(output_tokens_per_s_per_chip) = count(output_tokens_per_s) then 'chip'
            else 'device' end as per
    from run_summary_v2
    inner join members using (run_id)
    group by subject, label, setup_key
)
select
    medians.*,
    coalesce(requests, 0) as requests,
    min_ttft_s,
    max_ttft_s,
    min_tpot_s,
    max_tpot_s,
    min_output_tokens_per_s * chip_tokens_per_s / nullif(output_tokens_per_s, 0)
        as min_chip_tokens_per_s,
    max_output_tokens_per_s * chip_tokens_per_s / nullif(output_tokens_per_s, 0)
        as max_chip_tokens_per_s
from medians
left join measured using (setup_key)
order by subject, chip_tokens_per_s desc nulls last, ttft_s nulls last, label, setup_key
"""

COLUMNS = (
    text_column("subject", "Workload"),
    text_column("label", "Parallelism"),
    count_column("runs", "Runs"),
    count_column("requests", "Requests"),
    factor_column("chip_tokens_per_s", "Output tokens/s per chip"),
    text_column("per", "Per"),
    factor_column("output_tokens_per_s", "Output tokens/s"),
    s_column("ttft_s", "TTFT"),
    s_column("min_ttft_s", "least"),
    s_column("max_ttft_s", "most"),
    s_column("tpot_s", "TPOT"),
    s_column("min_tpot_s", "least"),
    s_column("max_tpot_s", "most"),
)

# Metric -> its name. Setups may differ in their number of devices, so rates are ranked by chip.
RATE_METRICS = {
    "chip_tokens_per_s": "Output tokens/s per chip",
    "ttft_s": "TTFT",
    "tpot_s": "TPOT",
}
_RATE = "Output (tokens/s)"


def metric_chart(rows: pl.DataFrame, metric: str) -> alt.Chart:
    """One metric by setup: the median over runs, on the range over their requests; the best first.

    Args:
        rows: rows of SQL of one subject, with `shown`.
        metric: one of RATE_METRICS.
    """
    is_time = metric in _LESS_IS_BETTER
    known = rows.drop_nulls(metric).sort(metric, descending=not is_time)
    unit = suit(known[f"max_{metric}"], SECONDS) if is_time else Unit(1.0, "tokens/s")
    data = known.select(
        *("setup_key", "shown", "label", "runs", "requests"),
        pl.col(metric).alias("exact"),
        (pl.col(metric) / unit.factor).alias("median"),
        (pl.col(f"min_{metric}") / unit.factor).alias("least"),
        (pl.col(f"max_{metric}") / unit.factor).alias("most"),
    )
    title = (
        f"{RATE_METRICS[metric]} ({unit.symbol})"
        if is_time
        else f"Output per {known['per'][0]} (tokens/s)"
    )
    base = alt.Chart(inline(data)).encode(
        y=alt.Y("shown:N", sort=None, title=None),
        tooltip=_tooltip("s" if is_time else unit.symbol, unit.symbol),
    )
    span = base.mark_bar(height=4, opacity=0.7, color=SERIES_COLOUR)
    span = span.encode(x=amount("least", title), x2="most:Q")
    points = base.mark_point(filled=True, size=80, opacity=1, color=SERIES_COLOUR)
    layers = alt.layer(span, points.encode(x="median:Q"))
    return finish(layers, f"{RATE_METRICS[metric]} by parallelism", rows_height(len(data), 24))


def _tooltip(exact: str, shown: str) -> list[alt.Tooltip]:
    """Values with their units: the median in `exact`, its range in `shown`."""
    return [
        alt.Tooltip("label:N", title="parallelism"),
        alt.Tooltip("exact:Q", title=f"median, {exact}", format=",.9~g"),
        alt.Tooltip("least:Q", title=f"least, {shown}", format=",.6~g"),
        alt.Tooltip("most:Q", title=f"most, {shown}", format=",.6~g"),
        alt.Tooltip("runs:Q", title="runs", format=","),
        alt.Tooltip("requests:Q", title="requests", format=","),
    ]


_LESS_IS_BETTER = ("ttft_s", "tpot_s")


def batch_chart(rows: pl.DataFrame) -> alt.Chart:
    """Output tokens/s against the batch, a line a parallelism.

    Args:
        rows: rows of SQL of one model whose workloads differ in the batch alone.
    """
    data = rows.select("label", "batch_size", "output_tokens_per_s", "runs", "requests")
    batches = alt.Axis(values=sorted(set(rows["batch_size"])), format=",d")
    colours = label_colours(rows["label"].unique().to_list())
    lines = alt.Chart(inline(data)).mark_line(point=alt.OverlayMarkDef(size=70, filled=True))
    scale = alt.Scale(type="log", base=2)
    chart = lines.encode(
        x=alt.X("batch_size:Q", title="Batch (sequences)", scale=scale, axis=batches),
        y=alt.Y("output_tokens_per_s:Q", title=_RATE, scale=alt.Scale(zero=True)),
        color=colour("label", colours, column_width=110),
        tooltip=[
            alt.Tooltip("label:N", title="parallelism"),
            alt.Tooltip("batch_size:Q", title="batch", format=","),
            alt.Tooltip("output_tokens_per_s:Q", title="output tokens/s", format=",.9~g"),
            alt.Tooltip("runs:Q", title="runs", format=","),
            alt.Tooltip("requests:Q", title="requests", format=","),
        ],
    )
    return finish(chart, "Output tokens/s by batch and parallelism", 300)


def figures(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[Figure]:
    """Per workload a chart of each known metric; per model one over batches, where there are several."""
    found = []
    for name, part in _families(rows):
        found.append(Figure(f"Rate by batch: {name}", batch_chart(part), shape="wide"))
    for subject, part in subjects(rows):
        for metric, title in RATE_METRICS.items():
            if part[metric].is_not_null().any():
                note = "Point: median over runs. Bar: least to most over their requests."
                found.append(Figure(f"{title}: {subject}", metric_chart(part, metric), note))
    return found


def _families(rows: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    """Workloads that differ in the batch alone, with rates at two batches at least."""
    known = rows.drop_nulls(["batch_size", "output_tokens_per_s"]).with_columns(
        pl.col("subject").str.replace(r", batch \d+", "").alias("family")
    )
    groups = known.group_by("family", maintain_order=True)
    parts = [(str(key[0]), part) for key, part in groups if part["batch_size"].n_unique() > 1]
    return parts[:4]


def notes(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[str]:
    """Which setup is ahead in each workload, and how certain that is."""
    found = virtual_note(runs)
    for subject, part in subjects(rows):
        ranked = part.drop_nulls("chip_tokens_per_s").sort(
            "chip_tokens_per_s", descending=True, maintain_order=True
        )
        if len(ranked) > 1:
            found.append(_leader(subject, *ranked.head(2).to_dicts()))
    if not _families(rows):
        found.append("No workload was run at several batches, so the best batch is not known.")
    return [*found, *left_out(rows)]


def _leader(subject: str, first: dict[str, float], second: dict[str, float]) -> str:
    rate, next_rate = first["chip_tokens_per_s"], second["chip_tokens_per_s"]
    lead = (
        f"{subject}: {first['label']} gives the most output tokens/s per {first['per']}, "
        f"{show_factor(rate)}; next is "
        f"{second['label']} with {show_factor(next_rate)}"
    )
    if min(first["runs"], second["runs"]) == 1:
        return f"{lead}. Inconclusive: a setup has one run, so its spread over runs is not known."
    if first["min_chip_tokens_per_s"] <= second["max_chip_tokens_per_s"]:
        return f"{lead}. Inconclusive: the ranges over their requests overlap."
    return f"{lead}; the ranges over their requests do not overlap."


PANEL: Panel[Sequence[PageFacts]] = Panel(
    key="rates",
    title="Which parallelism is faster",
    lede="Setups of one workload (model, batch, lengths, element type, device kind) side by "
    "side, the best first; repeats of a setup are one row. Rates are per chip, or per device "
    "where the devices of a chip are not known. m2: two microbatches.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=lambda runs: "There is no run on this page.",
    notes=notes,
)
