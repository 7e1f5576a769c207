"""TTFT and TPOT of each request, by the trace and by the host's clock, and how long each step took."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import amount
from xlahouse.reports.charts.columns import count_column, factor_column, s_column, text_column
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.palette import CLOCK_COLOURS, present_colours
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import BAR_STEP, colour, finish, rows_height
from xlahouse.reports.charts.units import (
    SECONDS,
    Unit,
    plural,
    show_ratio,
    show_s,
    suit,
)

SQL = """
select
    request,
    source,
    ttft_s,
    measured_ttft_s,
    queue_s,
    request_ttft_s,
    tpot_s,
    measured_tpot_s,
    decode_steps,
    p50_step_s,
    p90_step_s,
    p99_step_s,
    e2e_s,
    output_tokens_per_s,
    launch_period_s,
    launch_period_count,
    reason
from latency_v3
where run_id = $run
order by request
"""

COLUMNS = (
    count_column("request", "Request"),
    s_column("ttft_s", "TTFT"),
    s_column("measured_ttft_s", "Host clock, mean"),
    s_column("queue_s", "In queue"),
    s_column("request_ttft_s", "TTFT with queue"),
    s_column("tpot_s", "TPOT"),
    s_column("measured_tpot_s", "Host clock, mean"),
    count_column("decode_steps", "Decode steps"),
    s_column("p50_step_s", "Step p50"),
    s_column("p90_step_s", "p90"),
    s_column("p99_step_s", "p99"),
    s_column("e2e_s", "End to end"),
    factor_column("output_tokens_per_s", "Output tokens/s"),
    s_column("launch_period_s", "Launch period"),
    text_column("reason", "Not known because"),
    text_column("source", "Source of steps"),
)

# Requests on a chart; the table has more, the SQL has all.
MAX_REQUESTS = 40


def clock_chart(rows: pl.DataFrame, metric: str, name: str) -> alt.Chart:
    """One metric: a point for each request by the trace, a line for the host clock's mean.

    Args:
        rows: rows of SQL.
        metric: column of the trace's value, in seconds; the host's is `measured_<metric>`.
        name: what the axis calls it.
    """
    unit = suit([*rows[metric], *rows[f"measured_{metric}"]], SECONDS)
    seen, host = _by_clock(rows, metric, unit)
    hue = colour("clock", present_colours(CLOCK_COLOURS, [*seen["clock"], *host["clock"]]))
    x = amount("amount", f"{name} ({unit.symbol})")
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
    return finish(alt.layer(*layers), title, requests_height(len(seen)))


def _by_clock(rows: pl.DataFrame, metric: str, unit: Unit) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The known values: of the trace, one a request, and of the host, at most one."""
    trace = rows.select(
        pl.col("request").cast(pl.String).fill_null("all"),
        pl.col(metric).alias("s"),
        clock=pl.lit("trace"),
    )
    measured = pl.col(f"measured_{metric}").alias("s")
    host = rows.select(measured, clock=pl.lit("host clock, mean")).head(1)
    amount_of = (pl.col("s") / unit.factor).alias("amount")
    return trace.drop_nulls("s").with_columns(amount_of), host.drop_nulls("s").with_columns(
        amount_of
    )


def requests_height(count: int) -> int:
    """Height in px of `count` requests, one below the other."""
    return rows_height(count, BAR_STEP if count <= 12 else 14)


def first_requests(rows: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """The rows of the first MAX_REQUESTS requests, and a sentence where there are more."""
    if len(rows) <= MAX_REQUESTS:
        return rows, ""
    note = f"The first {MAX_REQUESTS} of {plural(len(rows), 'request')}."
    return rows.head(MAX_REQUESTS), note


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """TTFT and TPOT, each where any request has it by either clock."""
    drawn = []
    for metric, name in (("ttft_s", "TTFT"), ("tpot_s", "TPOT")):
        either = pl.col(metric).is_not_null() | pl.col(f"measured_{metric}").is_not_null()
        known = rows.filter(either)
        if not known.is_empty():
            shown, note = first_requests(known)
            drawn.append(Figure(f"{name} by request", clock_chart(shown, metric, name), note))
    return drawn


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many requests have each metric, and how many were left out."""
    if not facts.marked and not _served(rows):
        count = plural(total(rows, "launch_period_count"), "period")
        return f"{count} of one program."
    ttft, tpot = (len(rows) - rows[metric].null_count() for metric in ("ttft_s", "tpot_s"))
    left_out = f"{facts.row['excluded_requests']:,} left out (warm-up or compiling)"
    requests = plural(len(rows), "request")
    return f"TTFT known for {ttft:,} and TPOT for {tpot:,} of {requests}, {left_out}."


def why_no_ttft(facts: PageFacts) -> str:
    """Why a request has no TTFT."""
    if not facts.traced:
        return "no device events in the trace"
    if facts.row["is_server"]:
        return str(facts.row["latency_reason"] or "the trace shows no request from its start")
    if not facts.marked:
        return "no markers of requests in the trace"
    if not facts.row["requests"]:
        return "every request was a warm-up or had a compile"
    return "the trace lacks the ops of a prefill"


def why_no_rate(facts: PageFacts) -> str:
    """Why a request has no rate of output tokens."""
    if facts.traced and facts.row["is_server"]:
        return "requests share the steps of a server: the page on serving has the rate of all"
    return why_no_ttft(facts)


def why_no_tpot(facts: PageFacts) -> str:
    """Why a request has no TPOT."""
    if not facts.traced:
        return "no device events in the trace"
    if facts.row["is_server"]:
        return str(facts.row["latency_reason"] or "the trace shows no request to its end")
    if not facts.marked:
        return "no markers of requests in the trace"
    if facts.row["output_tokens"] == 1:
        return "one output token: no time between tokens"
    if not facts.row["requests"]:
        return "every request was a warm-up or had a compile"
    return "the trace lacks the ops of a request's first or last step"


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Why TTFT, TPOT or the host's values are missing."""
    found = []
    if _served(rows):
        found.append(
            "The page on serving has the requests of a server, and why latencies are not known."
        )
    elif rows["ttft_s"].has_nulls():
        found.append(f"TTFT is not known: {why_no_ttft(facts)}.")
    if rows["tpot_s"].has_nulls() and not _served(rows):
        found.append(f"TPOT is not known: {why_no_tpot(facts)}.")
    if rows["launch_period_s"].is_not_null().any():
        period = show_s(rows["launch_period_s"].drop_nulls()[0])
        step = facts.row.get("host_step")
        again = f"A {step} starts" if step else "The program that ran most often starts again"
        each = "one" if step else "one of its executions"
        found.append(
            f"{again} every {period} on average. Whether {each} makes a token is not known, so this is not "
            "a time per token, and no run is ranked by it."
        )
    if rows["measured_ttft_s"].is_null().all() and rows["measured_tpot_s"].is_null().all():
        found.append(
            "No host clock to compare with: the trace has no manifest with measured times."
        )
    found += _against_host(rows)
    return found


def _served(rows: pl.DataFrame) -> bool:
    """Whether requests share the steps of a server."""
    return bool((rows["source"] == "server").any())


def _against_host(rows: pl.DataFrame) -> list[str]:
    """How far the trace's mean is from the host clock's: the two should agree."""
    parts = []
    for metric, name in (("ttft_s", "TTFT"), ("tpot_s", "TPOT")):
        both = rows.drop_nulls([metric, f"measured_{metric}"]).filter(
            pl.col(f"measured_{metric}") > 0
        )
        if not both.is_empty():
            off = sum(both[metric]) / sum(both[f"measured_{metric}"]) - 1
            parts.append(f"{name} {'+' if off >= 0 else '-'}{show_ratio(abs(off))}")
    return [f"Mean of the trace relative to the host clock: {', '.join(parts)}."] if parts else []


def why_empty(facts: PageFacts) -> str:
    """Why there is no latency."""
    return f"Neither TTFT nor TPOT is known: {why_no_ttft(facts)}."


PANEL: Panel[PageFacts] = Panel(
    key="latency",
    title="Latency",
    lede="TTFT: from the start of the prefill on the host to the end of its last op on any "
    "device; with queue: from the start of the request's own marker. TPOT: from the end of the "
    "prefill to the end of the last decode step, over the number of "
    "decode steps.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
