"""Latencies of a server's requests, how they are spread, and which are within the limits."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.columns import count_column, s_column, text_column
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.palette import CLOCK_COLOURS, LIMIT_COLOUR
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.theme import finish
from xlahouse.reports.charts.units import SECONDS, plural, show_factor, show_ratio, show_s, suit
from xlahouse.reports.panels.serving.steps import why_empty

SQL = """
select
    l.request, r.request_id, l.queue_s, l.ttft_s, l.request_ttft_s, l.tpot_s, l.e2e_s, l.output_tokens,
    l.reason, s.ttft_limit_s, s.tpot_limit_s, s.judged_requests, s.good_requests, s.good_ratio,
    s.good_requests_per_s, s.tokens_per_s, s.output_tokens_per_s, s.wall_problem, s.host_bound_ratio,
    s.mean_requests,
    s.p50_ttft_s, s.p90_ttft_s, s.p99_ttft_s, s.p50_tpot_s, s.p90_tpot_s, s.p99_tpot_s, s.p50_queue_s,
    s.prefill_least_ratio, s.prefill_most_ratio, s.profile
from latency_v3 as l
inner join serving_summary_v1 as s on s.run_id = l.run_id
left join served_requests as r on r.run_id = l.run_id and r.request = l.request
where l.run_id = $run and l.source = 'server'
order by l.request
"""

COLUMNS = (
    count_column("request", "Request"),
    text_column("request_id", "Id"),
    s_column("queue_s", "In queue"),
    s_column("ttft_s", "TTFT"),
    s_column("request_ttft_s", "TTFT with queue"),
    s_column("tpot_s", "TPOT"),
    s_column("e2e_s", "End to end"),
    count_column("output_tokens", "Output tokens"),
    text_column("reason", "Not known because"),
)
MOST_POINTS = 400


def spread_chart(values: pl.Series, limit: float | None, name: str) -> alt.Chart:
    """The share of requests that are at most as slow, with a line at the limit.

    Args:
        values: seconds, all known.
        limit: in seconds; None: none is set.
        name: what the values are.
    """
    unit = suit([*values, limit], SECONDS)
    ordered = values.sort()
    data = pl.DataFrame(
        {"s": ordered, "share": (pl.arange(1, len(ordered) + 1, eager=True)) / len(ordered)}
    )
    data = data.gather_every(-(-len(data) // MOST_POINTS)).with_columns(
        at=pl.col("s") / unit.factor
    )
    x = alt.X("at:Q", title=f"{name} ({unit.symbol})", scale=alt.Scale(zero=True))
    y = alt.Y(
        "share:Q",
        title="Requests at most as slow (%)",
        scale=alt.Scale(domain=[0, 1]),
        axis=alt.Axis(format="%", tickCount=5),
    )
    tooltip = [
        alt.Tooltip("s:Q", title=f"{name}, s", format=".6~g"),
        alt.Tooltip("share:Q", title="share", format=".1%"),
    ]
    base = alt.Chart(inline(data)).encode(x=x, y=y, tooltip=tooltip)
    hue = CLOCK_COLOURS["trace"]
    layers = [
        base.mark_line(interpolate="step-after", strokeWidth=2, color=hue),
        base.mark_point(filled=True, size=30, opacity=1, color=hue),
    ]
    if limit is not None:
        line = alt.Chart(inline(pl.DataFrame({"at": [limit / unit.factor]})))
        rule = line.mark_rule(strokeWidth=2, strokeDash=[6, 3], color=LIMIT_COLOUR)
        layers.append(rule.encode(x=x))
    return finish(alt.layer(*layers), f"{name} of requests", 230)


def ttft_name(rows: pl.DataFrame) -> str:
    """What is judged as TTFT: with the queue, where requests have markers of their own."""
    return "TTFT with queue" if rows["request_ttft_s"].is_not_null().any() else "TTFT"


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """TTFT and TPOT, each where a request has it."""
    drawn = []
    queued = pl.coalesce("request_ttft_s", "ttft_s")
    for name, metric, limit in (
        (ttft_name(rows), queued, "ttft_limit_s"),
        ("TPOT", pl.col("tpot_s"), "tpot_limit_s"),
    ):
        known = rows.select(value=metric, limit=limit).drop_nulls("value")
        if not known.is_empty():
            most = known["limit"][0]
            note = "Dashed: the limit." if most is not None else ""
            drawn.append(
                Figure(f"{name} of requests", spread_chart(known["value"], most, name), note)
            )
    return drawn


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many requests have each latency."""
    ttft, tpot = (len(rows) - rows[metric].null_count() for metric in ("ttft_s", "tpot_s"))
    requests = plural(len(rows), "request")
    return f"TTFT known for {ttft:,} and TPOT for {tpot:,} of {requests}."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Throughput, the limits, and why latencies are missing."""
    run = rows.row(0, named=True)
    rate = run["output_tokens_per_s"]
    counted = f", {show_factor(rate)} output tokens/s" if rate is not None else ""
    told = f"{show_factor(run['tokens_per_s'])} tokens/s, prompts included{counted}"
    if run["wall_problem"] is not None:
        told = f"Tokens/s are not known: {run['wall_problem']}"
    found = [f"{told}; {show_factor(run['mean_requests'])} requests in a step on average."]
    if run["profile"] is not None:
        least, most = (show_ratio(run[f"prefill_{bound}_ratio"]) for bound in ("least", "most"))
        share = least if least == most else f"{least} to {most}"
        named = "" if run["profile"] == "ambiguous" else f": {run['profile'].replace('_', '-')}"
        found.append(f"{share} of the tokens are of prompts{named}.")
    found += [
        f"{name}: median {show_s(run[f'p50_{metric}'])}, 90th percentile {show_s(run[f'p90_{metric}'])}, "
        f"99th {show_s(run[f'p99_{metric}'])}."
        for name, metric in (("TTFT from the first step", "ttft_s"), ("TPOT", "tpot_s"))
        if run[f"p50_{metric}"] is not None
    ]
    if run["p50_queue_s"] is not None:
        found.append(f"In the queue before the first step: median {show_s(run['p50_queue_s'])}.")
    if run["host_bound_ratio"] is not None:
        found.append(
            f"Devices wait for the host {show_ratio(run['host_bound_ratio'])} of the time."
        )
    limits = [
        f"{name} at most {show_s(run[column])}"
        for name, column in ((ttft_name(rows), "ttft_limit_s"), ("TPOT", "tpot_limit_s"))
        if run[column] is not None
    ]
    if not limits:
        found.append("No limits are set: `xlahouse set limits RUN ttft=0.5,tpot=0.05` sets them.")
    elif run["judged_requests"]:
        judged = plural(run["judged_requests"], "request")
        rate = show_factor(run["good_requests_per_s"])
        found.append(
            f"{run['good_requests']:,} of {judged} that can be judged are within the limits "
            f"({', '.join(limits)}): {rate} good requests/s."
        )
    else:
        found.append(f"No request can be compared with the limits ({', '.join(limits)}).")
    reasons = (
        rows.drop_nulls("reason").group_by("reason").len().sort("len", "reason", descending=True)
    )
    found += [f"{plural(count, 'request')}: {reason}." for reason, count in reasons.rows()]
    return found


PANEL: Panel[PageFacts] = Panel(
    key="server-requests",
    title="Requests of the server",
    lede="TTFT: from the start of a request's first step on the host to the end of the step that completes "
    "its prompt; with queue: from the start of the request's own marker. TPOT: from the end of the step that "
    "completes its prompt to the end of its last step, over its output tokens in between.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
