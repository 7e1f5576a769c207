"""How far the clocks of trace files were apart, and whether skews across them are usable."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import amount, bars_height
from xlahouse.reports.charts.columns import count_column, ps_column, text_column
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.palette import CLOCK_COLOURS, present_colours
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import colour, finish
from xlahouse.reports.charts.units import PICOSECONDS, plural, suit

SQL = """
select
    clock,
    devices,
    reference,
    state,
    evidence,
    instances,
    offset_ps,
    drift_ppm,
    spread_ps,
    median_skew_ps,
    case when is_usable then 'yes' when not is_usable then 'no' end as usable
from clock_offset_v2
where run_id = $run
order by clock
"""

COLUMNS = (
    text_column("clock", "Clock"),
    count_column("devices", "Traced devices"),
    text_column("state", "State"),
    text_column("evidence", "Matched by", lambda value: value or ""),
    count_column("instances", "Shared collectives"),
    ps_column("offset_ps", "Offset"),
    ps_column("spread_ps", "Spread, p5 to p95"),
    ps_column("median_skew_ps", "Median skew"),
    text_column("usable", "Skews usable", lambda value: value or "not known"),
)

MAX_CLOCKS = 24  # more names are unreadable; the table has every clock
CLOCK_MEASURE_COLOURS = {
    "spread of the offset": CLOCK_COLOURS["trace"],
    "median skew": CLOCK_COLOURS["host clock, mean"],
}
CLOCK_MEASURES = {"spread_ps": "spread of the offset", "median_skew_ps": "median skew"}


def offset_chart(rows: pl.DataFrame) -> alt.Chart:
    """How much later each clock was than its reference.

    Args:
        rows: rows of SQL whose offset is known.
    """
    unit = suit(rows["offset_ps"], PICOSECONDS)
    data = rows.with_columns((pl.col("offset_ps") / unit.factor).alias("amount"))
    title = f"Offset from the reference clock ({unit.symbol})"
    chart = (
        alt.Chart(inline(data))
        .mark_bar(cornerRadius=1, color=CLOCK_COLOURS["trace"])
        .encode(
            y=alt.Y("clock:N", title=None, sort=None),
            x=alt.X("amount:Q", title=title, axis=alt.Axis(tickCount=5)),
            tooltip=_TIPS,
        )
    )
    return finish(chart, "Offset of each clock", bars_height(len(data)))


def spread_chart(rows: pl.DataFrame) -> alt.Chart:
    """The uncertainty of the clocks beside the skews that they measure.

    Args:
        rows: rows of SQL with a spread or a skew.
    """
    long = _long(rows)
    unit = suit(long["ps"], PICOSECONDS)
    data = long.with_columns((pl.col("ps") / unit.factor).alias("amount"))
    shown = present_colours(CLOCK_MEASURE_COLOURS, data["measure"])
    points = alt.Chart(inline(data)).mark_point(filled=True, size=80, opacity=1)
    chart = points.encode(
        y=alt.Y("clock:N", title=None, sort=None),
        x=amount("amount", f"Time ({unit.symbol})"),
        color=colour("measure", shown, column_width=180),
        tooltip=[
            alt.Tooltip("clock:N", title="clock"),
            alt.Tooltip("measure:N", title="measure"),
            alt.Tooltip("ps:Q", title="time, ps", format=","),
        ],
    )
    height = bars_height(data["clock"].n_unique())
    return finish(chart, "Spread of the offset and median skew", height)


_TIPS = [
    alt.Tooltip("clock:N", title="clock"),
    alt.Tooltip("offset_ps:Q", title="offset, ps", format=","),
    alt.Tooltip("spread_ps:Q", title="spread, ps", format=","),
    alt.Tooltip("instances:Q", title="shared collectives", format=","),
]


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """Offsets and their uncertainty, where clocks can be compared."""
    if len(rows) < 2:
        return []
    known = drawn_clocks(rows)
    if len(known) < 2:
        return []
    drawn = []
    if known["offset_ps"].abs().max():
        drawn.append(Figure("Offset of each clock", offset_chart(known)))
    others = known.filter(pl.col("clock") != pl.col("reference"))
    if (_long(others)["ps"] != 0).any():  # zeros alone are a sentence
        note = "Skews across clocks are usable where the spread is at most the skew."
        drawn.append(Figure("Uncertainty of the clocks, and skew", spread_chart(others), note))
    return drawn


def drawn_clocks(rows: pl.DataFrame) -> pl.DataFrame:
    """The clocks of known offset; of many the ones that are furthest off, and of these the least sure."""
    known = rows.drop_nulls("offset_ps")
    if len(known) <= MAX_CLOCKS:
        return known
    worst = (pl.col("offset_ps").abs(), pl.col("spread_ps").fill_null(0), pl.col("median_skew_ps"))
    first = known.sort(*worst, descending=True, nulls_last=True, maintain_order=True)
    return first.head(MAX_CLOCKS)


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many clocks there are, of how many devices."""
    return f"{plural(len(rows), 'clock')} of {plural(total(rows, 'devices'), 'traced device')}."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Why nothing is compared, and which skews are not usable."""
    if len(rows) == 1:
        return ["One process wrote the trace, by one clock: there is nothing to compare."]
    found = [
        f"{reason}: {', '.join(clocks[:16])}."
        for reason, clocks in (
            ("Several offsets fit", _clocks(rows, pl.col("state") == "ambiguous")),
            (
                "No launch or collective connects these clocks with the reference",
                _clocks(rows, pl.col("state") == "unconnected"),
            ),
            (
                "Skews are not usable, since the spread exceeds them",
                _clocks(rows, (pl.col("state") == "aligned") & (pl.col("usable") == "no")),
            ),
        )
        if clocks
    ]
    known = rows.drop_nulls("offset_ps")
    if len(known) > 1 and not known["offset_ps"].abs().max():
        found.append("No clock is ahead of its reference or behind it: every offset is 0.")
    if len(known) > MAX_CLOCKS and figures(rows, facts):
        found.append(f"Drawn: the {MAX_CLOCKS} of {len(rows):,} clocks that are furthest off.")
    return found


def _clocks(rows: pl.DataFrame, chosen: pl.Expr) -> list[str]:
    return rows.filter(chosen)["clock"].to_list()


def why_empty(facts: PageFacts) -> str:
    """Why no clock is known."""
    return "The trace has no device events, so clocks cannot be compared."


def _long(rows: pl.DataFrame) -> pl.DataFrame:
    """One row a clock and measure that is known: clock, measure, ps."""
    return (
        rows.unpivot(list(CLOCK_MEASURES), index="clock", variable_name="measure", value_name="ps")
        .drop_nulls("ps")
        .with_columns(pl.col("measure").replace_strict(CLOCK_MEASURES, return_dtype=pl.String))
    )


PANEL: Panel[PageFacts] = Panel(
    key="clocks",
    title="Clocks",
    lede="Devices leave a synchronous collective together, so its end times show the offset "
    "between two clocks. Ingest subtracts offset and drift from all times; the spread is the "
    "uncertainty that remains.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
