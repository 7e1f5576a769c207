"""How long a server's steps take by how full the batch is, and what a prefill costs the decodes beside it."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.columns import (
    PHASE_COLUMN,
    count_column,
    factor_column,
    ratio_column,
    s_column,
)
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.phases import phase_order
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import finish
from xlahouse.reports.charts.units import SECONDS, plural, show_factor, show_s, suit
from xlahouse.reports.panels.serving.steps import counts, phase_colour, why_empty

SQL = f"""
select
    b.phase, b.requests, b.steps, b.lost_steps, b.mean_tokens, b.p50_period_s, b.p90_period_s,
    b.p99_period_s, b.compute_ratio, b.exposed_ratio, b.host_gap_ratio,
    i.added_s, i.slowdown_ratio, i.decode_steps
from serving_batch_v1 as b
left join interference_v1 as i
    on i.run_id = b.run_id and i.requests = b.requests and b.phase = 'mixed'
where b.run_id = $run
order by {phase_order("b.phase")}, b.requests
"""

COLUMNS = (
    PHASE_COLUMN,
    count_column("requests", "Requests"),
    count_column("steps", "Steps"),
    factor_column("mean_tokens", "Tokens"),
    s_column("p50_period_s", "Period p50"),
    s_column("p90_period_s", "p90"),
    s_column("p99_period_s", "p99"),
    ratio_column("compute_ratio", "Compute"),
    ratio_column("exposed_ratio", "Exposed"),
    ratio_column("host_gap_ratio", "Host late"),
    s_column("added_s", "Added by prefill"),
    factor_column("slowdown_ratio", "Times decode alone"),
)


def batch_chart(rows: pl.DataFrame) -> alt.Chart:
    """Median period against the number of requests, a line for each phase."""
    unit = suit(rows["p50_period_s"], SECONDS)
    data = rows.with_columns(period=pl.col("p50_period_s") / unit.factor)
    tooltip = [
        alt.Tooltip("phase:N", title="phase"),
        alt.Tooltip("requests:Q", title="requests"),
        alt.Tooltip("steps:Q", title="steps"),
        alt.Tooltip("p50_period_s:Q", title="median period, s", format=".6~g"),
        alt.Tooltip("p99_period_s:Q", title="p99, s", format=".6~g"),
    ]
    base = alt.Chart(inline(data)).encode(
        x=alt.X("requests:Q", title="Requests in the batch", axis=counts(rows["requests"])),
        y=alt.Y("period:Q", title=f"Period, median ({unit.symbol})", scale=alt.Scale(zero=True)),
        color=phase_colour(data),
        tooltip=tooltip,
    )
    points = base.mark_point(filled=True, size=50, opacity=1)
    return finish(
        alt.layer(base.mark_line(strokeWidth=1.5), points), "Period by requests in the batch", 230
    )


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """The period by phase and number of requests."""
    known = rows.drop_nulls(["p50_period_s", "requests"])
    if known.is_empty():
        return []
    note = "The gap between mixed and decode is what prefills in the batch cost the decodes."
    return [Figure("Period by requests in the batch", batch_chart(known), note, shape="wide")]


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many steps there are."""
    return f"{plural(total(rows, 'steps'), 'step')} with a period."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """What a prefill in the batch costs, where both kinds of steps were seen."""
    both = rows.drop_nulls("slowdown_ratio")
    if both.is_empty():
        if rows.filter(pl.col("phase") == "mixed").is_empty():
            return ["No step has a prefill beside decodes, so none interferes with them."]
        return ["No decode step serves as many requests as a mixed one: nothing to compare with."]
    most = both.sort("steps", "requests", descending=True).row(0, named=True)
    alone, beside = (plural(most[name], "step") for name in ("decode_steps", "steps"))
    added = f"{show_s(abs(most['added_s']))} {'longer' if most['added_s'] >= 0 else 'shorter'}"
    return [
        f"With a prefill in a batch of {most['requests']}, a step takes "
        f"{show_factor(most['slowdown_ratio'])} times the period of decodes alone: "
        f"{added} for each request in it (medians of {beside} and {alone})."
    ]


PANEL: Panel[PageFacts] = Panel(
    key="batches",
    title="Batches and interference",
    lede="Periods of steps by how many requests they serve. A prefill in the batch makes the decodes beside "
    "it wait: the period of mixed steps is compared with that of decode steps with as many requests.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
