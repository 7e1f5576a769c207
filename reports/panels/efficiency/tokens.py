"""How many tokens a second each request gives: over all of it, and while it decodes."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import amount
from xlahouse.reports.charts.columns import count_column, factor_column
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.palette import KIND_COLOURS, present_colours
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.theme import colour, finish
from xlahouse.reports.charts.units import plural, show_factor
from xlahouse.reports.panels.efficiency.latency import (
    first_requests,
    requests_height,
    why_no_tpot,
    why_no_ttft,
)

SQL = """
select
    request,
    output_tokens_per_s,
    decode_tokens_per_s,
    output_tokens_per_s / nullif(device_count, 0) as output_tokens_per_s_per_device,
    e2e_s
from latency_v3
inner join runs using (run_id)
where run_id = $run
order by request
"""

COLUMNS = (
    count_column("request", "Request"),
    factor_column("output_tokens_per_s", "Output tokens/s"),
    factor_column("decode_tokens_per_s", "Decode tokens/s"),
    factor_column("output_tokens_per_s_per_device", "Output tokens/s per device"),
)

TOKEN_RATES = {
    "output_tokens_per_s": "whole request",
    "decode_tokens_per_s": "decode alone",
}
TOKEN_RATE_COLOURS = {
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
        .unpivot(list(TOKEN_RATES), index="request", variable_name="over", value_name="rate")
        .drop_nulls("rate")
        .with_columns(pl.col("over").replace_strict(TOKEN_RATES, return_dtype=pl.String))
    )
    shown = present_colours(TOKEN_RATE_COLOURS, data["over"])
    points = alt.Chart(inline(data)).mark_point(filled=True, size=90, opacity=1)
    chart = points.encode(
        y=alt.Y("request:N", title="Request", sort=None),
        x=amount("rate", "Rate (tokens/s)"),
        color=colour("over", shown, column_width=140),
        tooltip=[
            alt.Tooltip("request:N", title="request"),
            alt.Tooltip("over:N", title="over"),
            alt.Tooltip("rate:Q", title="tokens/s", format=",.9~g"),
        ],
    )
    height = requests_height(data["request"].n_unique())
    return finish(chart, "Tokens per second by request", height)


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """One chart over the requests of which a rate is known."""
    known = rows.filter(pl.any_horizontal(pl.col(*TOKEN_RATES).is_not_null()))
    if known.is_empty():
        return []
    shown, left_out = first_requests(known)
    note = f"All sequences of a batch together. {left_out}".strip()
    return [Figure("Tokens per second by request", rate_chart(shown), note, shape="wide")]


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many requests have a rate."""
    known = len(rows.drop_nulls("output_tokens_per_s"))
    return f"{known:,} of {plural(len(rows), 'request')} with a known rate."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Why a rate is not known."""
    found = []
    if facts.row["batch_size"] is None:
        return ["Tokens per second are not known: no manifest states the batch size."]
    if rows["output_tokens_per_s"].has_nulls():
        found.append(f"Output tokens/s are not known for every request: {why_no_ttft(facts)}.")
    if rows["decode_tokens_per_s"].has_nulls():
        found.append(f"Decode tokens/s are not known for every request: {why_no_tpot(facts)}.")
    return _of_all_requests(facts) + found


def _of_all_requests(facts: PageFacts) -> list[str]:
    """The rate of all requests together, where it is known."""
    rate, chip_rate = (facts.row.get(f"system_tokens_per_s{per}") for per in ("", "_per_chip"))
    if rate is None:
        return []
    each = "" if chip_rate is None else f" ({show_factor(chip_rate)} per chip)"
    return [
        f"All requests together: {show_factor(rate)} output tokens/s{each}, from the start of the first "
        "to the last token."
    ]


def why_empty(facts: PageFacts) -> str:
    """Why no request has a rate."""
    return f"Tokens per second are not known: {why_no_ttft(facts)}."


PANEL: Panel[PageFacts] = Panel(
    key="tokens",
    title="Tokens per second",
    lede="Output tokens/s: batch x output tokens, over the time from the start of a request "
    "to its last token. Decode tokens/s: batch over TPOT.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
