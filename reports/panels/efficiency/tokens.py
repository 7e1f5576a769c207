"""How many tokens a second each request gives: over all of it, and while it decodes."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.facts import RunFacts
from xlahouse.reports.charts.palette import KIND_COLOURS
from xlahouse.reports.charts.panel import Column, Figure, Panel, inline
from xlahouse.reports.charts.theme import BAR_STEP, colour, finish, rows_height
from xlahouse.reports.charts.units import plural, show_count, show_exact, show_factor
from xlahouse.reports.panels.efficiency.latency import MAX_REQUESTS, why_no_tpot, why_no_ttft

SQL = """
select
    request,
    output_tokens_per_s,
    decode_tokens_per_s,
    output_tokens_per_s / nullif(device_count, 0) as output_tokens_per_s_per_device,
    e2e_s
from latency_v1
inner join runs using (run_id)
where run_id = $run
order by request
"""

COLUMNS = (
    Column("request", "Request", show_count),
    Column("output_tokens_per_s", "Output tokens/s", show_factor, show_exact),
    Column("decode_tokens_per_s", "Decode tokens/s", show_factor, show_exact),
    Column("output_tokens_per_s_per_device", "Output tokens/s a device", show_factor, show_exact),
)

RATES = {
    "output_tokens_per_s": "whole request",
    "decode_tokens_per_s": "decode alone",
}
RATE_COLOURS = {
    "whole request": KIND_COLOURS["all-reduce"],
    "decode alone": KIND_COLOURS["all-gather"],
}


def rate_chart(rows: pl.DataFrame) -> alt.Chart:
    """Tokens a second of each request, all sequences of its batch together.

    Args:
        rows: rows of SQL.
    """
    data = (
        rows.with_columns(pl.col("request").cast(pl.String).fill_null("all"))
        .unpivot(list(RATES), index="request", variable_name="over", value_name="rate")
        .drop_nulls("rate")
        .with_columns(pl.col("over").replace_strict(RATES, return_dtype=pl.String))
    )
    present = set(data["over"])
    shown = {name: hue for name, hue in RATE_COLOURS.items() if name in present}
    chart = (
        alt.Chart(inline(data))
        .mark_point(filled=True, size=90, opacity=1)
        .encode(
            y=alt.Y("request:N", title="Request", sort=None),
            x=alt.X(
                "rate:Q",
                title="Rate (tokens/s)",
                scale=alt.Scale(zero=True),
                axis=alt.Axis(tickCount=5),
            ),
            color=colour("over", shown, column_width=140),
            tooltip=[
                alt.Tooltip("request:N", title="request"),
                alt.Tooltip("over:N", title="over"),
                alt.Tooltip("rate:Q", title="tokens/s", format=",.9~g"),
            ],
        )
    )
    count = data["request"].n_unique()
    return finish(
        chart, "Tokens a second by request", rows_height(count, BAR_STEP if count <= 12 else 14)
    )


def figures(rows: pl.DataFrame, facts: RunFacts) -> list[Figure]:
    """One chart over the requests of which a rate is known."""
    known = rows.filter(pl.any_horizontal(pl.col(*RATES).is_not_null()))
    if known.is_empty():
        return []
    note = "All sequences of a batch together."
    if len(known) > MAX_REQUESTS:
        note += f" The first {MAX_REQUESTS} of {plural(len(known), 'request')}."
    return [
        Figure(
            "Tokens a second by request", rate_chart(known.head(MAX_REQUESTS)), note, shape="wide"
        )
    ]


def coverage(rows: pl.DataFrame, facts: RunFacts) -> str:
    """How many requests have a rate."""
    known = len(rows.drop_nulls("output_tokens_per_s"))
    return f"{known:,} of {plural(len(rows), 'request')} that count; {facts.covered()}"


def notes(rows: pl.DataFrame, facts: RunFacts) -> list[str]:
    """Why a rate is not known."""
    found = []
    if facts.row["batch_size"] is None:
        return ["Tokens a second are not known: no manifest says how many sequences a batch has."]
    if rows["output_tokens_per_s"].has_nulls():
        found.append(f"Output tokens/s are not known of every request: {why_no_ttft(facts)}.")
    if rows["decode_tokens_per_s"].has_nulls():
        found.append(f"Decode tokens/s are not known of every request: {why_no_tpot(facts)}.")
    if facts.inferred:
        found.append(
            "Virtual devices share the cores of one machine: an accelerator is far faster."
        )
    return found


def why_empty(facts: RunFacts) -> str:
    """Why no request has a rate."""
    return f"Tokens a second are not known: {why_no_ttft(facts)}."


PANEL: Panel[RunFacts] = Panel(
    key="tokens",
    title="Tokens a second",
    lede="Output tokens/s: batch x output tokens over the time from a request's start to its last token. "
    "Decode tokens/s: batch over TPOT.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
