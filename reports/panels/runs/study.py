"""The effect of one setting, all else being equal: signed, in words, and the pairs behind it."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from xlahouse.reports.charts.columns import count_column, metric_column, text_column
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.labels import NAME_ABOVE, clipped
from xlahouse.reports.charts.palette import SERIES_COLOUR
from xlahouse.reports.charts.panel import Figure, Panel, TableColumn, inline
from xlahouse.reports.charts.sums import greatest
from xlahouse.reports.charts.theme import INK, finish, rows_height
from xlahouse.reports.charts.units import plural, show_exact
from xlahouse.reports.panels.runs.effects import show_effect
from xlahouse.reports.panels.runs.pairs import EFFECTS_SQL, FACTORS, ROWS_SQL, STUDY_METRICS
from xlahouse.reports.panels.runs.setups import virtual_note


def _show_factor_name(name: object) -> str:
    return FACTORS.get(str(name), str(name))


def _show_metric(name: object) -> str:
    return STUDY_METRICS.get(str(name), str(name))


EFFECT_COLUMNS = (
    text_column("factor", "Setting that differs", _show_factor_name),
    text_column("from_value", "From"),
    text_column("to_value", "To"),
    text_column("metric", "Metric", _show_metric),
    TableColumn("median_ratio", "Median effect", show_effect, show_exact),
    TableColumn("least_ratio", "Least", show_effect, show_exact),
    TableColumn("most_ratio", "Most", show_effect, show_exact),
    count_column("pairs", "Pairs"),
    count_column("conclusive", "Conclusive"),
)
ROWS_COLUMNS = (
    text_column("factor", "Setting that differs", _show_factor_name),
    text_column("from_value", "From"),
    text_column("to_value", "To"),
    text_column("held", "The same in both"),
    text_column("metric", "Metric", _show_metric),
    metric_column("from_median", "From median"),
    metric_column("to_median", "To median"),
    TableColumn("effect_ratio", "Effect", show_effect, show_exact),
    count_column("from_runs", "n"),
    count_column("to_runs", "n"),
    metric_column("spread", "Spread"),
    text_column("verdict", "Verdict"),
    text_column("from_run", "Run"),
    text_column("to_run", "Run"),
)
MAX_BARS = 14
MAX_SENTENCES = 3  # of a setting
# Effects that a sentence names, with words that fit there.
WORDED = {"output_tokens_per_s_per_chip": "tokens/s per chip", "output_tokens_per_s": "tokens/s"}
WORDED |= {"tpot_s": "TPOT", "ttft_s": "TTFT", "wire_bytes": "wire bytes"}


def effects_chart(rows: pl.DataFrame) -> alt.Chart:
    """Second over first of each change, as a bar from 1 on a logarithmic axis, its name above it.

    Args:
        rows: rows of EFFECTS_SQL of one metric, with known effects, the greatest first.
    """
    name = pl.format("{} {} to {}: {}", "what", "from_value", "to_value", "effect")
    data = (
        rows.with_row_index("place")
        .with_columns(
            pl.col("factor").replace(FACTORS).alias("what"),
            pl.col("median_ratio")
            .map_elements(show_effect, return_dtype=pl.String)
            .alias("effect"),
            pl.lit(1.0).alias("equal"),
        )
        .with_columns(name.alias("text"))
        .with_columns(clipped(pl.col("text"), NAME_ABOVE, end=10).alias("shown"))
    )
    base = alt.Chart(inline(data)).encode(
        y=alt.Y("place:O", title=None, axis=None),
        tooltip=[
            alt.Tooltip("text:N", title="change"),
            alt.Tooltip("median_ratio:Q", title="second over first", format=",.4~g"),
            alt.Tooltip("least_ratio:Q", title="least", format=",.4~g"),
            alt.Tooltip("most_ratio:Q", title="most", format=",.4~g"),
            alt.Tooltip("pairs:Q", title="pairs", format=","),
            alt.Tooltip("conclusive:Q", title="conclusive", format=","),
        ],
    )
    x = alt.X(
        "median_ratio:Q",
        title="Second over first (times)",
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(tickCount=5, format="~g"),
    )
    faint = alt.condition("datum.conclusive > 0", alt.value(1), alt.value(0.45))
    bars = base.mark_bar(height=10, yOffset=8, color=SERIES_COLOUR)
    bars = bars.encode(x=x, x2="equal:Q", opacity=faint)
    names = base.mark_text(align="left", dy=-8, color=INK).encode(x=alt.value(0), text="shown:N")
    return finish(alt.layer(bars, names), "Effects by setting", rows_height(len(data), 36))


def effects_figures(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[Figure]:
    """The greatest effects on each metric."""
    found = []
    for metric, title in STUDY_METRICS.items():
        part = rows.filter(pl.col("metric") == metric).drop_nulls("median_ratio")
        if part.is_empty():
            continue
        ordered = part.sort(
            pl.col("median_ratio").log().abs(), descending=True, maintain_order=True
        )
        left_out = f" The {MAX_BARS} greatest of {len(part):,}." if len(part) > MAX_BARS else ""
        note = f"Right: more; left: less. Faint: inconclusive in all pairs.{left_out}"
        found.append(Figure(f"Effects on {title}", effects_chart(ordered.head(MAX_BARS)), note))
    return found


def effects_verdict(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[str]:
    """Of each setting the changes with the greatest effect on the rate, each with its other effects."""
    found = []
    for factor, name in FACTORS.items():
        part = rows.filter(pl.col("factor") == factor).drop_nulls("median_ratio")
        changes = (
            part.group_by("from_value", "to_value", maintain_order=True)
            .agg(pl.col("median_ratio").log().abs().max().alias("size"))
            .sort("size", descending=True, maintain_order=True)
        )
        for before, after, _ in changes.head(MAX_SENTENCES).iter_rows():
            change = part.filter(pl.col("from_value") == before, pl.col("to_value") == after)
            found.append(_sentence(f"{name.capitalize()} {before} to {after}", change))
    return found


def _sentence(change: str, rows: pl.DataFrame) -> str:
    by_metric = {row["metric"]: row for row in rows.to_dicts()}
    told = [
        f"{word} {show_effect(by_metric[metric]['median_ratio'])}"
        for metric, word in WORDED.items()
        if metric in by_metric
        and not (metric == "output_tokens_per_s" and f"{metric}_per_chip" in by_metric)
    ]
    timed = rows.filter(pl.col("metric") != "wire_bytes")
    pairs, conclusive = (int(greatest(timed, name)) for name in ("pairs", "conclusive"))
    how = f"{plural(pairs, 'pair')}, {conclusive or 'none'} conclusive"
    return f"{change}: {', '.join(told)}" + (f" ({how})." if pairs else ".")


def effects_notes(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[str]:
    """Which settings have no pair, and how far the pairs can be trusted."""
    found = virtual_note(runs)
    lacking = [name for factor, name in FACTORS.items() if factor not in set(rows["factor"])]
    if lacking:
        found.append(f"No two setups differ only in: {', '.join(lacking)}.")
    conclusive, pairs = int(rows["conclusive"].sum()), int(rows["pairs"].sum())
    if conclusive < pairs:
        found.append(
            f"{pairs - conclusive:,} of {pairs:,} comparisons are inconclusive: a setup has one run, or the "
            "difference is within the spread of repeats."
        )
    if rows["known"].sum() < pairs:
        found.append(
            "No effect is given where a value is 0, such as the wire bytes of a single device."
        )
    return found


def effects_coverage(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> str:
    """How many pairs there are of each setting."""
    sums = rows.group_by("factor", "metric").agg(pl.col("pairs").sum())
    most = sums.group_by("factor").agg(pl.col("pairs").max()).sort("factor")
    counts = ", ".join(f"{FACTORS[name]} {count:,}" for name, count in most.iter_rows())
    return f"{plural(len(runs), 'run')}; pairs of setups that differ in one setting: {counts}."


def rows_coverage(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> str:
    """How many comparisons there are."""
    return f"{plural(len(rows), 'comparison')} in {plural(len(runs), 'run')}."


def why_empty(runs: Sequence[PageFacts]) -> str:
    """Why there is no pair."""
    if len(runs) < 2:
        return "There is one run, so there is no run to compare with."
    return (
        "No two setups differ in one thing alone (model, batch, lengths or parallelism), so "
        "no difference has a single cause. Capture a sweep that varies one of them."
    )


EFFECTS: Panel[Sequence[PageFacts]] = Panel(
    key="effects",
    title="Effect of each setting",
    lede="Pairs of setups that differ in one setting only: an effect is the second setup's median over the "
    "first's, as the median over such pairs.",
    sql=EFFECTS_SQL,
    columns=EFFECT_COLUMNS,
    figures=effects_figures,
    coverage=effects_coverage,
    why_empty=why_empty,
    verdict=effects_verdict,
    notes=effects_notes,
)

PAIRS: Panel[Sequence[PageFacts]] = Panel(
    key="pairs",
    title="Pairs behind the effects",
    lede="Each comparison, the greatest effects first. n: runs of the setup. Spread: the larger of the two.",
    sql=ROWS_SQL,
    columns=ROWS_COLUMNS,
    figures=lambda rows, runs: [],
    open_table=True,
    coverage=rows_coverage,
    why_empty=why_empty,
)
