"""Runs side by side: which parallelism is quicker for a workload, and at which batch."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from xlahouse.reports.charts.facts import RunFacts
from xlahouse.reports.charts.palette import KIND_COLOURS, label_colours
from xlahouse.reports.charts.panel import Column, Figure, Panel, inline
from xlahouse.reports.charts.theme import colour, finish, rows_height
from xlahouse.reports.charts.units import SECONDS, show_count, show_exact, show_factor, show_s, suit
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
    from latency_v1
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
        cast(quantile_disc(ttft_s, 0.5) as double) as ttft_s,
        cast(quantile_disc(tpot_s, 0.5) as double) as tpot_s,
        cast(quantile_disc(output_tokens_per_s, 0.5) as double) as output_tokens_per_s
    from run_summary_v1
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
    min_output_tokens_per_s,
    max_output_tokens_per_s
from medians
left join measured using (setup_key)
order by subject, output_tokens_per_s desc nulls last, ttft_s nulls last, label, setup_key
"""

COLUMNS = (
    Column("subject", "Workload", numeric=False),
    Column("label", "Parallelism", numeric=False),
    Column("runs", "Runs", show_count),
    Column("requests", "Requests", show_count),
    Column("output_tokens_per_s", "Output tokens/s", show_factor, show_exact),
    Column("ttft_s", "TTFT", show_s, show_exact),
    Column("min_ttft_s", "least", show_s, show_exact),
    Column("max_ttft_s", "most", show_s, show_exact),
    Column("tpot_s", "TPOT", show_s, show_exact),
    Column("min_tpot_s", "least", show_s, show_exact),
    Column("max_tpot_s", "most", show_s, show_exact),
)

# Metric -> what it is called.
METRICS = {"output_tokens_per_s": "Output tokens/s", "ttft_s": "TTFT", "tpot_s": "TPOT"}
_RATE = "Output (tokens/s)"
_COLOUR = KIND_COLOURS["all-reduce"]


def metric_chart(rows: pl.DataFrame, metric: str) -> alt.Chart:
    """One metric by setup: the median over runs, on the range over their requests; the best first.

    Args:
        rows: rows of SQL of one subject, with `shown`.
        metric: one of METRICS.
    """
    known = rows.drop_nulls(metric).sort(metric, descending=metric not in _LESS_IS_BETTER)
    unit = suit(known[f"max_{metric}"], SECONDS) if metric in _LESS_IS_BETTER else None
    factor, symbol = (unit.factor, unit.symbol) if unit else (1.0, "tokens/s")
    data = known.select(
        "setup_key",
        "shown",
        "label",
        "runs",
        "requests",
        pl.col(metric).alias("exact"),
        (pl.col(metric) / factor).alias("median"),
        (pl.col(f"min_{metric}") / factor).alias("least"),
        (pl.col(f"max_{metric}") / factor).alias("most"),
    )
    title = f"{METRICS[metric]} ({symbol})" if unit else _RATE
    base = alt.Chart(inline(data)).encode(
        y=alt.Y("shown:N", sort=None, title=None),
        tooltip=[
            alt.Tooltip("label:N", title="parallelism"),
            alt.Tooltip("exact:Q", title=f"median, {'s' if unit else symbol}", format=",.9~g"),
            alt.Tooltip("least:Q", title=f"least, {symbol}", format=",.6~g"),
            alt.Tooltip("most:Q", title=f"most, {symbol}", format=",.6~g"),
            alt.Tooltip("runs:Q", title="runs", format=","),
            alt.Tooltip("requests:Q", title="requests", format=","),
        ],
    )
    span = base.mark_bar(height=4, opacity=0.7, color=_COLOUR).encode(
        x=alt.X("least:Q", title=title, scale=alt.Scale(zero=True), axis=alt.Axis(tickCount=5)),
        x2="most:Q",
    )
    points = base.mark_point(filled=True, size=80, opacity=1, color=_COLOUR).encode(x="median:Q")
    return finish(
        alt.layer(span, points), f"{METRICS[metric]} by parallelism", rows_height(len(data), 24)
    )


_LESS_IS_BETTER = ("ttft_s", "tpot_s")


def batch_chart(rows: pl.DataFrame) -> alt.Chart:
    """Output tokens/s against the batch, a line a parallelism.

    Args:
        rows: rows of SQL of one model whose workloads differ in the batch alone.
    """
    colours = label_colours(rows["label"].unique().to_list())
    chart = (
        alt.Chart(
            inline(rows.select("label", "batch_size", "output_tokens_per_s", "runs", "requests"))
        )
        .mark_line(point=alt.OverlayMarkDef(size=70, filled=True))
        .encode(
            x=alt.X(
                "batch_size:Q",
                title="Batch (sequences)",
                scale=alt.Scale(type="log", base=2),
                axis=alt.Axis(values=sorted(set(rows["batch_size"])), format=",d"),
            ),
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
    )
    return finish(chart, "Output tokens/s by batch and parallelism", 300)


def figures(rows: pl.DataFrame, runs: Sequence[RunFacts]) -> list[Figure]:
    """Per workload a chart of each known metric; per model one over batches, where there are several."""
    found = []
    for name, part in _families(rows):
        found.append(Figure(f"At which batch: {name}", batch_chart(part), shape="wide"))
    for subject, part in subjects(rows):
        for metric, title in METRICS.items():
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


def notes(rows: pl.DataFrame, runs: Sequence[RunFacts]) -> list[str]:
    """Which setup is ahead in each workload, and what that rests on."""
    found = virtual_note(runs)
    for subject, part in subjects(rows):
        ranked = part.drop_nulls("output_tokens_per_s").sort(
            "output_tokens_per_s", descending=True, maintain_order=True
        )
        if len(ranked) > 1:
            found.append(_leader(subject, *ranked.head(2).to_dicts()))
    if not _families(rows):
        found.append("No workload was run at several batches, so none can be told to suit one.")
    return [*found, *left_out(rows)]


def _leader(subject: str, first: dict[str, float], second: dict[str, float]) -> str:
    rate, next_rate = first["output_tokens_per_s"], second["output_tokens_per_s"]
    lead = (
        f"{subject}: {first['label']} gives the most output tokens/s, {show_factor(rate)}; next is "
        f"{second['label']} with {show_factor(next_rate)}"
    )
    if min(first["runs"], second["runs"]) == 1:
        return f"{lead}. Inconclusive: a setup has one run, so its spread over runs is not known."
    if first["min_output_tokens_per_s"] <= second["max_output_tokens_per_s"]:
        return f"{lead}. Inconclusive: the ranges over their requests overlap."
    return f"{lead}; the ranges over their requests do not overlap."


PANEL: Panel[Sequence[RunFacts]] = Panel(
    key="rates",
    title="Which parallelism is quicker",
    lede="Setups of one workload (model, batch, lengths, type, kind of device) side by side; repeats of a "
    "setup are one row. The best stands first; m2 stands for two microbatches.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=lambda runs: "There is no run on this page.",
    notes=notes,
)
