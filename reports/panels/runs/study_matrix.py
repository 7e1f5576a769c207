"""Setups against workloads: each relative to a baseline that the reader chooses."""

from __future__ import annotations

import re
from collections.abc import Sequence

import altair as alt
import polars as pl

from xlahouse.reports.charts.columns import count_column, text_column
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.labels import NAME_BESIDE, clipped
from xlahouse.reports.charts.palette import EFFECT_RANGE, HEAT_INK
from xlahouse.reports.charts.panel import Figure, Panel, TableColumn, inline
from xlahouse.reports.charts.theme import INK, finish
from xlahouse.reports.charts.units import plural, show_any, show_exact
from xlahouse.reports.panels.runs.effects import show_effect
from xlahouse.reports.panels.runs.setups import MEMBERS_SQL

# Metric -> its name, and 1 where more is better, -1 where less is.
METRICS = {
    "output_tokens_per_s_per_chip": ("Output tokens/s per chip", 1),
    "output_tokens_per_s": ("Output tokens/s", 1),
    "tpot_s": ("TPOT", -1),
    "ttft_s": ("TTFT", -1),
}
SQL = f"""{MEMBERS_SQL.strip()}, pairs as (
    select
        c.metric,
        b.subject,
        b.label as baseline,
        o.label,
        c.median as baseline_median,
        c.other_median as median,
        c.runs as baseline_runs,
        c.other_runs as runs,
        c.verdict,
        row_number() over (
            partition by c.metric, b.setup_key, o.setup_key order by c.run_id, c.other_run_id
        ) as place
    from run_comparison_v2 as c
    inner join members as b on b.run_id = c.run_id
    inner join members as o on o.run_id = c.other_run_id
    where
        b.subject = o.subject
        and b.setup_key <> o.setup_key
        and c.metric in ('output_tokens_per_s_per_chip', 'output_tokens_per_s', 'tpot_s', 'ttft_s')
)
select
    metric,
    subject,
    baseline,
    label,
    baseline_median,
    median,
    median / nullif(baseline_median, 0) as effect_ratio,
    baseline_runs,
    runs,
    verdict
from pairs
where place = 1
order by metric, subject, baseline, label
"""

COLUMNS = (
    text_column("metric", "Metric", lambda name: METRICS[str(name)][0]),
    text_column("subject", "Workload"),
    text_column("baseline", "Baseline"),
    text_column("label", "Setup"),
    TableColumn("baseline_median", "Baseline's median", show_any),
    TableColumn("median", "Median", show_any),
    TableColumn("effect_ratio", "Effect", show_effect, show_exact),
    count_column("baseline_runs", "n"),
    count_column("runs", "n"),
    text_column("verdict", "Verdict"),
)
# More cells would be too small to read; the table's CSV has all.
MAX_SETUPS, MAX_WORKLOADS = 12, 16
MAX_UPRIGHT = 2  # on a phone, more names would lie on each other
_NUMBER = re.compile(r"(\d+)")


def figures(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[Figure]:
    """A matrix for each metric; tokens/s of all chips only where those of one are not known."""
    found: list[Figure] = []
    for metric, (title, sign) in METRICS.items():
        part = rows.filter(pl.col("metric") == metric).drop_nulls("effect_ratio")
        part = part.filter(pl.col("effect_ratio") > 0)
        if part.is_empty() or (metric == "output_tokens_per_s" and found):
            continue
        note = (
            "Relative to the baseline. Blue-green is better, orange worse; dashed: inconclusive (one run, "
            "or within the spread of repeats); no cell: not run."
        )
        found.append(
            Figure(f"{title} by setup and workload", matrix_chart(part, title, sign), note, "wide")
        )
    return found


def matrix_chart(rows: pl.DataFrame, title: str, sign: int) -> alt.Chart:
    """Setups against workloads, for the baseline that is chosen below the chart.

    Args:
        rows: rows of SQL of one metric, with known effects.
        title: the metric's name.
        sign: 1 where more is better, -1 where less is.
    """
    setups = most(rows, "label", MAX_SETUPS)
    workloads = most(rows, "subject", MAX_WORKLOADS)
    kept = rows.filter(
        pl.col("label").is_in(setups),
        pl.col("baseline").is_in(setups),
        pl.col("subject").is_in(workloads),
    )
    goodness = (pl.col("effect_ratio").log(2) * sign).alias("goodness")
    data = pl.concat([kept, _baselines(kept)]).with_columns(
        goodness,
        pl.col("effect_ratio").map_elements(show_effect, return_dtype=pl.String).alias("text"),
        pl.col("subject")
        .replace_strict(short_names(workloads), return_dtype=pl.String)
        .alias("workload"),
        clipped(pl.col("label"), NAME_BESIDE, end=10).alias("shown"),
    )
    shown = data.unique("label", keep="any").sort(_place(setups, "label"))["shown"].to_list()
    names = [short_names(workloads)[workload] for workload in sorted(workloads, key=_natural)]
    chosen = alt.param(
        name="baseline",
        value=setups[0],
        bind=alt.binding_select(options=setups, name="Baseline: "),
    )
    base = (
        alt.Chart(inline(data))
        .transform_filter("datum.baseline == baseline")
        .encode(
            x=alt.X("workload:N", title=None, sort=names, axis=_workload_axis(len(names))),
            y=alt.Y("shown:N", title=None, sort=shown),
            tooltip=[
                alt.Tooltip("label:N", title="setup"),
                alt.Tooltip("subject:N", title="workload"),
                alt.Tooltip("text:N", title="effect"),
                alt.Tooltip("median:Q", title=f"{title}, median", format=",.4~g"),
                alt.Tooltip("baseline_median:Q", title="baseline's median", format=",.4~g"),
                alt.Tooltip("runs:Q", title="runs", format=","),
                alt.Tooltip("verdict:N", title="verdict"),
            ],
        )
    )
    scale = alt.Scale(domain=[-1, -0.03, 0, 0.03, 1], range=list(EFFECT_RANGE), clamp=True)
    cells = base.mark_rect().encode(color=alt.Color("goodness:Q", scale=scale, legend=None))
    doubt = (
        base.transform_filter("datum.verdict == 'inconclusive'")
        .mark_rect(filled=False, strokeWidth=1.5, strokeDash=[4, 3], opacity=0.9)
        .encode(stroke=alt.value(INK))
    )
    ink = alt.condition("abs(datum.goodness) > 0.6", alt.value(HEAT_INK[1]), alt.value(HEAT_INK[0]))
    texts = base.mark_text(fontSize=11).encode(text="text:N", color=ink)
    layers = alt.layer(cells, doubt, texts).add_params(chosen)
    return finish(layers, f"{title} by setup and workload", 34 * len(setups) + 20)


def _workload_axis(count: int) -> alt.Axis:
    """Names of workloads, a line for each of their parts: upright where they have room, else up the page."""
    lines = alt.Axis(labelExpr="split(datum.label, ', ')", labelAngle=0)
    if count > MAX_UPRIGHT:
        lines["labelAngle"] = -90
    return lines


def most(rows: pl.DataFrame, column: str, count: int) -> list[str]:
    """The values of a column that the most pairs have, so that a baseline in most workloads is first."""
    counts = rows.group_by(column).agg(pl.len().alias("pairs"))
    return counts.sort(["pairs", column], descending=[True, False])[column].head(count).to_list()


def _place(order: Sequence[str], column: str) -> pl.Expr:
    places = {name: place for place, name in enumerate(order)}
    return pl.col(column).replace_strict(places, return_dtype=pl.Int64)


def _natural(text: str) -> list[tuple[int, str]]:
    """Sorts `batch 8` before `batch 16`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _NUMBER.split(text)]


def _baselines(rows: pl.DataFrame) -> pl.DataFrame:
    """Each baseline's own cell in each of its workloads."""
    own = rows.unique(["baseline", "subject"], maintain_order=True)
    return own.with_columns(
        pl.col("baseline").alias("label"),
        pl.col("baseline_median").alias("median"),
        pl.col("baseline_runs").alias("runs"),
        pl.lit(1.0).alias("effect_ratio"),
        pl.lit("baseline").alias("verdict"),
    )


def short_names(subjects: Sequence[str]) -> dict[str, str]:
    """Each workload without the parts that all have."""
    parts = {subject: subject.split(", ") for subject in subjects}
    same = set.intersection(*(set(each) for each in parts.values())) if len(parts) > 1 else set()
    return {
        subject: ", ".join(part for part in each if part not in same) or subject
        for subject, each in parts.items()
    }


def notes(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[str]:
    """What has no cell."""
    found = []
    setups, workloads = rows["label"].n_unique(), rows["subject"].n_unique()
    if setups > MAX_SETUPS or workloads > MAX_WORKLOADS:
        found.append(
            f"Drawn: {min(setups, MAX_SETUPS)} of {plural(setups, 'setup')} and "
            f"{min(workloads, MAX_WORKLOADS)} of {plural(workloads, 'workload')}, with the most pairs; "
            "the CSV has all."
        )
    return found


def coverage(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> str:
    """How many setups and workloads have a pair."""
    setups = plural(rows["label"].n_unique(), "setup")
    return f"{setups} in {plural(rows['subject'].n_unique(), 'workload')} of {plural(len(runs), 'run')}."


PANEL: Panel[Sequence[PageFacts]] = Panel(
    key="matrix",
    title="Setups against workloads",
    lede="Each cell compares a setup with the baseline in the same workload: model, batch, lengths, element "
    "type and device kind.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=lambda runs: (
        "No two setups have the same workload, so no setup can be compared with another."
    ),
    notes=notes,
)
