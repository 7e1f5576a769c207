"""What one thing that is chosen changes, all else being equal: pairs of setups, ranked."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from xlahouse.reports.charts.facts import RunFacts
from xlahouse.reports.charts.palette import KIND_COLOURS
from xlahouse.reports.charts.panel import Column, Figure, Panel, inline
from xlahouse.reports.charts.theme import INK, finish, rows_height
from xlahouse.reports.charts.units import plural, show_any, show_count, show_exact, show_factor
from xlahouse.reports.panels.runs.pairs import FACTORS, METRICS, RANKING_SQL, ROWS_SQL
from xlahouse.reports.panels.runs.setups import virtual_note


def _show_factor_name(name: object) -> str:
    return FACTORS.get(str(name), str(name))


def _show_metric(name: object) -> str:
    return METRICS.get(str(name), str(name))


def _show_times(value: float | None) -> str:
    return show_factor(value) if value is None else f"{show_factor(value)} times"


RANKING_COLUMNS = (
    Column("metric", "Metric", _show_metric, numeric=False),
    Column("factor", "What differs", _show_factor_name, numeric=False),
    Column("pairs", "Pairs", show_count),
    Column("conclusive", "Conclusive", show_count),
    Column("median_times", "Median effect", _show_times, show_exact),
    Column("least_times", "Least", _show_times, show_exact),
    Column("most_times", "Most", _show_times, show_exact),
    Column("greater", "More in the second", show_count),
)
ROWS_COLUMNS = (
    Column("factor", "What differs", _show_factor_name, numeric=False),
    Column("from_value", "From", numeric=False),
    Column("to_value", "To", numeric=False),
    Column("held", "The same in both", numeric=False),
    Column("metric", "Metric", _show_metric, numeric=False),
    Column("from_median", "From median", show_any),
    Column("to_median", "To median", show_any),
    Column("effect_ratio", "To / from", show_factor, show_exact),
    Column("from_runs", "n", show_count),
    Column("to_runs", "n", show_count),
    Column("spread", "Spread", show_any),
    Column("verdict", "Verdict", numeric=False),
    Column("from_run", "Run", numeric=False),
    Column("to_run", "Run", numeric=False),
)
_COLOUR = KIND_COLOURS["all-reduce"]
MAX_PAIRS = 10
_LABEL = 46  # characters above a bar, on a phone


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
    x = alt.X(
        "least_times:Q",
        title="The greater over the smaller of a pair (times)",
        scale=alt.Scale(type="log", domainMin=1),
        axis=alt.Axis(tickCount=5, format="~g"),
    )
    span = base.mark_bar(height=5, opacity=0.7, color=_COLOUR).encode(x=x, x2="most_times:Q")
    points = base.mark_point(filled=True, size=90, opacity=1, color=_COLOUR).encode(
        x="median_times:Q"
    )
    counts = base.mark_text(align="left", dy=-11, color=INK, fontSize=11).encode(
        x=alt.value(2), text=alt.Text("pairs_text:N")
    )
    return finish(
        alt.layer(span, points, counts), "Effect by what differs", rows_height(len(data), 40)
    )


def pairs_chart(rows: pl.DataFrame) -> alt.Chart:
    """Second over first of each pair, as a bar from 1 on a logarithmic axis, with the pair's name above it.

    Args:
        rows: rows of ROWS_SQL of one factor and metric, with known ratios.
    """
    name = pl.format("{} to {}: {}", "from_value", "to_value", "held")
    clipped = pl.concat_str(pl.col("text").str.head(_LABEL - 1), pl.lit("…"))
    data = (
        rows.with_row_index("place")
        .with_columns(name.alias("text"), pl.lit(1.0).alias("equal"))
        .with_columns(
            pl.when(pl.col("text").str.len_chars() > _LABEL)
            .then(clipped)
            .otherwise(pl.col("text"))
            .alias("shown")
        )
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
    x = alt.X(
        "effect_ratio:Q",
        title="Second over first (times)",
        scale=alt.Scale(type="log", nice=False),
        axis=alt.Axis(tickCount=5, format="~g"),
    )
    bars = base.mark_bar(height=10, yOffset=8, color=_COLOUR).encode(x=x, x2="equal:Q")
    names = base.mark_text(align="left", dy=-8, color=INK).encode(x=alt.value(0), text="shown:N")
    return finish(
        alt.layer(bars, names), "Pairs with the greatest effect", rows_height(len(data), 36)
    )


def pairs_figures(rows: pl.DataFrame, runs: Sequence[RunFacts]) -> list[Figure]:
    """The greatest effects of each factor on the first metric that is known."""
    found = []
    known = rows.drop_nulls("effect_ratio").filter(pl.col("effect_ratio") > 0)
    for factor, name in FACTORS.items():
        for metric, title in METRICS.items():
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


def ranking_figures(rows: pl.DataFrame, runs: Sequence[RunFacts]) -> list[Figure]:
    """A ranking for each metric."""
    found = []
    known = rows.drop_nulls("median_times").with_columns(
        pl.col("pairs").map_elements(lambda n: plural(n, "pair"), return_dtype=pl.String)
        .alias("pairs_text")
    )  # fmt: skip
    for metric, title in METRICS.items():
        part = known.filter(pl.col("metric") == metric)
        if not part.is_empty():
            note = "Point: median over pairs; bar: least to most. The greatest effect stands first."
            found.append(Figure(f"What changes {title}", ranking_chart(part), note))
    return found


def ranking_notes(rows: pl.DataFrame, runs: Sequence[RunFacts]) -> list[str]:
    """Which factors have no pair, and how far the pairs can be trusted."""
    found = virtual_note(runs)
    lacking = [name for factor, name in FACTORS.items() if factor not in set(rows["factor"])]
    if lacking:
        found.append(f"No two setups differ in nothing but: {', '.join(lacking)}.")
    conclusive, pairs = int(rows["conclusive"].sum()), int(rows["pairs"].sum())
    if conclusive < pairs:
        found.append(
            f"{pairs - conclusive:,} of {pairs:,} comparisons are inconclusive: a setup has one run, or the "
            "difference is within the spread of repeats."
        )
    if rows["known"].sum() < pairs:
        found.append("No effect is given where a value is 0, as the bytes of a single device are.")
    return found


def ranking_coverage(rows: pl.DataFrame, runs: Sequence[RunFacts]) -> str:
    """How many pairs there are of each factor."""
    most = rows.group_by("factor").agg(pl.col("pairs").max()).sort("factor")
    told = ", ".join(f"{FACTORS[name]} {count:,}" for name, count in most.iter_rows())
    return f"{plural(len(runs), 'run')}; pairs of setups that differ in one thing: {told}."


def rows_coverage(rows: pl.DataFrame, runs: Sequence[RunFacts]) -> str:
    """How many comparisons there are."""
    return f"{plural(len(rows), 'comparison')} in {plural(len(runs), 'run')}."


def why_empty(runs: Sequence[RunFacts]) -> str:
    """Why there is no pair."""
    if len(runs) < 2:
        return "There is one run, so nothing to hold it against."
    return (
        "No two setups differ in one thing alone (model, batch, lengths or parallelism), so no difference "
        "can be put down to any. Capture a sweep in which one of them varies."
    )


RANKING: Panel[Sequence[RunFacts]] = Panel(
    key="effects",
    title="What matters most",
    lede="Pairs of setups that are equal in everything but one thing. An effect is the ratio of their "
    "medians; its size the greater over the smaller, so that halving and doubling count alike.",
    sql=RANKING_SQL,
    columns=RANKING_COLUMNS,
    figures=ranking_figures,
    coverage=ranking_coverage,
    why_empty=why_empty,
    notes=ranking_notes,
)

PAIRS: Panel[Sequence[RunFacts]] = Panel(
    key="pairs",
    title="The pairs behind it",
    lede="Each comparison that the ranking rests on, the greatest effect of each first. n: runs of the "
    "setup; the spread is the larger one of the two.",
    sql=ROWS_SQL,
    columns=ROWS_COLUMNS,
    figures=pairs_figures,
    coverage=rows_coverage,
    why_empty=why_empty,
)
