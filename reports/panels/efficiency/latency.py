"""TTFT and TPOT of each request, by the trace and by the host's clock, and how long each step took."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.facts import RunFacts
from xlahouse.reports.charts.palette import CLOCK_COLOURS
from xlahouse.reports.charts.panel import Column, Figure, Panel, inline
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import BAR_STEP, colour, finish, rows_height
from xlahouse.reports.charts.units import (
    SECONDS,
    plural,
    show_count,
    show_exact,
    show_factor,
    show_ratio,
    show_s,
    show_text,
    suit,
)

SQL = """
select
    request,
    source,
    ttft_s,
    measured_ttft_s,
    tpot_s,
    measured_tpot_s,
    decode_steps,
    p50_step_s,
    p95_step_s,
    p99_step_s,
    e2e_s,
    output_tokens_per_s
from latency_v1
where run_id = $run
order by request
"""

COLUMNS = (
    Column("request", "Request", show_count),
    Column("ttft_s", "TTFT", show_s, show_exact),
    Column("measured_ttft_s", "Host clock, mean", show_s, show_exact),
    Column("tpot_s", "TPOT", show_s, show_exact),
    Column("measured_tpot_s", "Host clock, mean", show_s, show_exact),
    Column("decode_steps", "Decode steps", show_count),
    Column("p50_step_s", "Step p50", show_s, show_exact),
    Column("p95_step_s", "p95", show_s, show_exact),
    Column("p99_step_s", "p99", show_s, show_exact),
    Column("e2e_s", "End to end", show_s, show_exact),
    Column("output_tokens_per_s", "Output tokens/s", show_factor, show_exact),
    Column("source", "Steps known from", show_text, numeric=False),
)

# Requests that fit on a chart; the table has more, the SQL has all.
MAX_REQUESTS = 40


def clock_chart(rows: pl.DataFrame, metric: str, name: str) -> alt.Chart:
    """One metric: a point for each request by the trace, a line for the host clock's mean.

    Args:
        rows: rows of SQL.
        metric: column of the trace's value, in seconds; the host's is `measured_<metric>`.
        name: what the axis calls it.
    """
    unit = suit([*rows[metric], *rows[f"measured_{metric}"]], SECONDS)
    seen = rows.select(
        pl.col("request").cast(pl.String).fill_null("all"),
        pl.col(metric).alias("s"),
        clock=pl.lit("trace"),
    )
    host = rows.select(
        pl.col(f"measured_{metric}").alias("s"), clock=pl.lit("host clock, mean")
    ).head(1)
    seen, host = (
        part.drop_nulls("s").with_columns((pl.col("s") / unit.factor).alias("amount"))
        for part in (seen, host)
    )
    clocks = {*seen["clock"], *host["clock"]}
    present = {clock: hue for clock, hue in CLOCK_COLOURS.items() if clock in clocks}
    x = alt.X(
        "amount:Q",
        title=f"{name} ({unit.symbol})",
        scale=alt.Scale(zero=True),
        axis=alt.Axis(tickCount=5),
    )
    hue = colour("clock", present, column_width=150)
    tooltip = [
        alt.Tooltip("clock:N", title="clock"),
        alt.Tooltip("s:Q", title=f"{name}, s", format=".9~g"),
    ]
    layers = []
    if not host.is_empty():
        line = alt.Chart(inline(host)).mark_rule(strokeWidth=3)
        layers.append(line.encode(x=x, color=hue, tooltip=tooltip))
    if not seen.is_empty():
        request = alt.Tooltip("request:N", title="request")
        y = alt.Y("request:N", title="Request", sort=None)
        points = alt.Chart(inline(seen)).mark_point(filled=True, size=90, opacity=1)
        layers.append(points.encode(y=y, x=x, color=hue, tooltip=[request, *tooltip]))
    title = f"{name} by request, and the host clock's"
    step = BAR_STEP if len(seen) <= 12 else 14
    return finish(alt.layer(*layers), title, rows_height(len(seen), step))


def figures(rows: pl.DataFrame, facts: RunFacts) -> list[Figure]:
    """TTFT and TPOT, each where any request has it by either clock."""
    drawn = []
    for metric, name in (("ttft_s", "TTFT"), ("tpot_s", "TPOT")):
        known = rows.filter(
            pl.col(metric).is_not_null() | pl.col(f"measured_{metric}").is_not_null()
        )
        if known.is_empty():
            continue
        note = ""
        if len(known) > MAX_REQUESTS:
            note = f"The first {MAX_REQUESTS} of {plural(len(known), 'request')}."
        drawn.append(
            Figure(f"{name} by request", clock_chart(known.head(MAX_REQUESTS), metric, name), note)
        )
    return drawn


def coverage(rows: pl.DataFrame, facts: RunFacts) -> str:
    """How many requests have each metric, and how many were left out."""
    if not facts.marked:
        return f"{plural(total(rows, 'decode_steps'), 'period')} of one program; {facts.covered()}"
    ttft, tpot = (len(rows) - rows[metric].null_count() for metric in ("ttft_s", "tpot_s"))
    left_out = f"{facts.row['excluded_requests']:,} left out (warm-up or compiling)"
    requests = plural(len(rows), "request")
    return f"TTFT of {ttft:,} and TPOT of {tpot:,} of {requests}, {left_out}; {facts.covered()}"


def why_no_ttft(facts: RunFacts) -> str:
    """Why a request has no TTFT."""
    if facts.row["traced_devices"] == 0:
        return "no device events in the trace"
    if not facts.marked:
        return "no markers of requests in the trace"
    if not facts.row["requests"]:
        return "every request was a warm-up or compiled"
    return "the trace lacks the ops of a prefill"


def why_no_tpot(facts: RunFacts) -> str:
    """Why a request has no TPOT."""
    if facts.row["traced_devices"] == 0:
        return "no device events in the trace"
    if not facts.marked:
        return "no program ran twice"
    if facts.row["output_tokens"] == 1:
        return "one output token: no time between tokens"
    if not facts.row["requests"]:
        return "every request was a warm-up or compiled"
    return "the trace lacks the ops of a request's first or last step"


def notes(rows: pl.DataFrame, facts: RunFacts) -> list[str]:
    """Why TTFT, TPOT or the host's values are missing."""
    found = []
    if rows["ttft_s"].has_nulls():
        found.append(f"TTFT is not known: {why_no_ttft(facts)}.")
    if rows["tpot_s"].has_nulls():
        found.append(f"TPOT is not known: {why_no_tpot(facts)}.")
    if "module" in set(rows["source"]):
        found.append("Without markers TPOT is the mean period of the program that ran most often.")
    if rows["measured_ttft_s"].is_null().all() and rows["measured_tpot_s"].is_null().all():
        found.append(
            "No host clock to compare with: the trace came without a manifest that has one."
        )
    found += _against_host(rows)
    if facts.inferred:
        found.append(
            "Times are those of virtual devices on one machine's cores, not of an accelerator."
        )
    return found


def _against_host(rows: pl.DataFrame) -> list[str]:
    """How far the trace's mean is from the host clock's: the two should tell the same story."""
    told = []
    for metric, name in (("ttft_s", "TTFT"), ("tpot_s", "TPOT")):
        both = rows.drop_nulls([metric, f"measured_{metric}"]).filter(
            pl.col(f"measured_{metric}") > 0
        )
        if not both.is_empty():
            off = sum(both[metric]) / sum(both[f"measured_{metric}"]) - 1
            told.append(f"{name} {'+' if off >= 0 else '-'}{show_ratio(abs(off))}")
    return [f"Mean of the trace against the host clock's: {', '.join(told)}."] if told else []


def why_empty(facts: RunFacts) -> str:
    """Why there is no latency."""
    return f"Neither TTFT nor TPOT is known: {why_no_ttft(facts)}."


PANEL: Panel[RunFacts] = Panel(
    key="latency",
    title="Latency",
    lede="TTFT runs from the host's start of the prefill to the end of its last op on any device; TPOT is "
    "the mean time from there to the end of the last decode step.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
