"""The effect of one chosen thing, all else being equal: pairs of setups, ranked."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from xlahouse.reports.charts.columns import count_column, factor_column, text_column
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.labels import NAME_ABOVE, clipped
from xlahouse.reports.charts.palette import SERIES_COLOUR
from xlahouse.reports.charts.panel import Figure, Panel, TableColumn, inline
from xlahouse.reports.charts.theme import INK, finish, rows_height
from xlahouse.reports.charts.units import plural, show_any, show_exact, show_factor
from xlahouse.reports.panels.runs.pairs import FACTORS, RANKING_SQL, ROWS_SQL, STUDY_METRICS
from xlahouse.reports.panels.runs.setups import virtual_note


def _show_factor_name(name: object) -> str:
    return FACTORS.get(str(name), str(name))


def _show_metric(name: object) -> str:
    return STUDY_METRICS.get(str(name), str(name))


def _show_times(value: float | None) -> str:
    return show_factor(value) if value is None else f"{show_factor(value)} times"


RANKING_COLUMNS = (
    text_column("metric", "Metric", _show_metric),
    text_column("factor", "What differs", _show_factor_name),
    count_column("pairs", "Pairs"),
    count_column("conclusive", "Conclusive"),
    TableColumn("median_times", "Median effect", _show_times, show_exact),
    TableColumn("least_times", "Least", _show_times, show_exact),
    TableColumn("most_times", "Most", _show_times, show_exact),
    count_column("greater", "Greater in the second"),
)
ROWS_COLUMNS = (
    text_column("factor", "What differs", _show_factor_name),
    text_column("from_value", "From"),
    text_column("to_value", "To"),
    text_column("held", "The same in both"),
    text_column("metric", "Metric", _show_metric),
    TableColumn("from_median", "From median", show_any),
    TableColumn("to_median", "To median", show_any),
    factor_column("effect_ratio", "To / from"),
    count_column("from_runs", "n"),
    count_column("to_runs", "n"),
    TableColumn("spread", "Spread", show_any),
    text_column("verdict", "Verdict"),
    text_column("from_run", "Run"),
    text_column("to_run", "Run"),
)
MAX_PAIRS = 10


def ranking_chart(rows: pl.DataFrame) -> alt.Chart:
    """How many times one metric changes with each factor: median on the range over pairs, logarithmic.

    Args:
        rows: rows of RANKING_SQL of one metric, with known effects.
    """
    data = rows.with_columns(pl.col("factor").replace(FACTORS).alias("shown"))
    base = alt.Chart(inline(data)).encode(
        y=alt.Y("shown:N", sort=None, title=None),
        tooltip=[
            alt.Tooltip("shown:N", title="what differs"),
            alt.Tooltip("median_times:Q", title="median, times", format=",.4~g"),
            alt.Tooltip("least_times:Q", title="least, times", format=",.4~g"),
            alt.Tooltip("most_times:Q", title="most, times", format=",.4~g"),
            alt.Tooltip("pairs:Q", title="pairs", format=","),
            alt.Tooltip("conclusive:Q", title="conclusive", format=","),
        ],
    )
    size = "The greater over the smaller of a pair (times)"
    x = _times_axis("least_times", size, alt.Scale(type="log", domainMin=1))
    span = base.mark_bar(height=5, opacity=0.7, color=SERIES_COLOUR).encode(x=x, x2="most_times:Q")
    points = base.mark_point(filled=True, size=90, opacity=1, color=SERIES_COLOUR)
    counts = base.mark_text(align="left", dy=-11, color=INK, fontSize=11)
    counts = counts.encode(x=alt.value(2), text=alt.Text("pairs_text:N"))
    layers = alt.layer(span, points.encode(x="median_times:Q"), counts)
    return finish(layers, "Effect by what differs", rows_height(len(data), 40))


def _times_axis(field: str, title: str, scale: alt.Scale) -> alt.X:
    axis = alt.Axis(tickCount=5, format="~g")
    return alt.X(f"{field}:Q", title=title, scale=scale, axis=axis)


def pairs_chart(rows: pl.DataFrame) -> alt.Chart:
    """Second over first of each pair, as a bar from 1 on a logarithmic axis, with the pair's name above it.

    Args:
        rows: rows of ROWS_SQL of one factor and metric, with known ratios.
    """
    name = pl.format("{} to {}: {}", "from_value", "to_value", "held")
    data = (
        rows.with_row_index("place")
        .with_columns(name.alias("text"), pl.lit(1.0).alias("equal"))
        .with_columns(clipped(pl.col("text"), NAME_ABOVE).alias("shown"))
    )
    base = alt.Chart(inline(data)).encode(
        y=alt.Y("place:O", title=None, axis=None),
        tooltip=[
            alt.Tooltip("text:N", title="pair"),
            alt.Tooltip("effect_ratio:Q", title="second over first", format=",.4~g"),
            alt.Tooltip("from_median:Q", title="first, median", format=",.9~g"),
            alt.Tooltip("to_median:Q", title="second, median", format=",.9~g"),
            alt.Tooltip("from_runs:Q", title="runs of the first", format=","),
            alt.Tooltip("to_runs:Q", title="runs of the second", format=","),
            alt.Tooltip("verdict:N", title="verdict"),
        ],
    )
    x = _times_axis("effect_ratio", "Second over first (times)", alt.Scale(type="log", nice=False))
    bars = base.mark_bar(height=10, yOffset=8, color=SERIES_COLOUR).encode(x=x, x2="equal:Q")
    names = base.mark_text(align="left", dy=-8, color=INK).encode(x=alt.value(0), text="shown:N")
    layers = alt.layer(bars, names)
    return finish(layers, "Pairs with the greatest effect", rows_height(len(data), 36))


def pairs_figures(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[Figure]:
    """The greatest effects of each factor on the first metric that is known."""
    found = []
    known = rows.drop_nulls("effect_ratio").filter(pl.col("effect_ratio") > 0)
    for factor, name in FACTORS.items():
        for metric, title in STUDY_METRICS.items():
            part = known.filter(pl.col("factor") == factor, pl.col("metric") == metric)
            if part.is_empty():
                continue
            note = f"{plural(len(part), 'pair')}, the greatest effect first."
            if len(part) > MAX_PAIRS:
                note = f"The {MAX_PAIRS} greatest effects of {len(part):,} pairs."
            chart = pairs_chart(part.head(MAX_PAIRS))
            found.append(Figure(f"{title} where {name} differs", chart, note, shape="wide"))
            break
    return found


def ranking_figures(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[Figure]:
    """A ranking for each metric."""
    found = []
    known = rows.drop_nulls("median_times").with_columns(
        pl.col("pairs").map_elements(lambda n: plural(n, "pair"), return_dtype=pl.String)
        .alias("pairs_text")
    )  # fmt: skip
    for metric, title in STUDY_METRICS.items():
        part = known.filter(pl.col("metric") == metric)
        if not part.is_empty():
            note = "Point: median over pairs; bar: least to most. The greatest effect is first."
            found.append(Figure(f"What changes {title}", ranking_chart(part), note))
    return found


def ranking_notes(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[str]:
    """Which factors have no pair, and how far the pairs can be trusted."""
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


def ranking_coverage(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> str:
    """How many pairs there are of each factor."""
    most = rows.group_by("factor").agg(pl.col("pairs").max()).sort("factor")
    counts = ", ".join(f"{FACTORS[name]} {count:,}" for name, count in most.iter_rows())
    return f"{plural(len(runs), 'run')}; pairs of setups that differ in one thing: {counts}."


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


RANKING: Panel[Sequence[PageFacts]] = Panel(
    key="effects",
    title="What matters most",
    lede="Pairs of setups that differ in one thing only. An effect is the ratio of their "
    "medians; its size is the greater over the smaller, so that halving and doubling "
    "count alike.",
    sql=RANKING_SQL,
    columns=RANKING_COLUMNS,
    figures=ranking_figures,
    coverage=ranking_coverage,
    why_empty=why_empty,
    notes=ranking_notes,
)

PAIRS: Panel[Sequence[PageFacts]] = Panel(
    key="pairs",
    title="Pairs behind the ranking",
    lede="Each comparison behind the ranking, the greatest effects first. n: runs of the "
    "setup. Spread: the larger of the two.",
    sql=ROWS_SQL,
    columns=ROWS_COLUMNS,
    figures=pairs_figures,
    coverage=rows_coverage,
    why_empty=why_empty,
)
