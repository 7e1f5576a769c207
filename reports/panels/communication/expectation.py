"""Traffic that the model's layout needs, beside the measured traffic: a difference is a finding."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.capture.commands import STATE_MESH
from xlahouse.reports.charts.columns import (
    AXIS_COLUMN,
    KIND_COLUMN,
    PHASE_COLUMN,
    bytes_column,
    count_column,
    dashed_column,
)
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.palette import axis_colours
from xlahouse.reports.charts.panel import Figure, Panel, TableColumn, inline
from xlahouse.reports.charts.phases import PHASE, phase_order
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import INK, colour, finish, rows_height
from xlahouse.reports.charts.units import (
    BYTES,
    plural,
    show_bytes,
    show_exact,
    show_factor,
    suit,
)

SQL = f"""
select
    {PHASE} as phase,
    axis,
    kind,
    expected_count,
    measured_count,
    expected_payload_bytes,
    measured_payload_bytes,
    ratio,
    measured_dtype,
    expected_problem
from expected_traffic_v1
where run_id = $run
order by {phase_order()}, axis, kind
"""

COLUMNS = (
    PHASE_COLUMN,
    AXIS_COLUMN,
    KIND_COLUMN,
    bytes_column("expected_payload_bytes", "Expected"),
    bytes_column("measured_payload_bytes", "Measured"),
    TableColumn(
        "ratio", "Measured / expected", lambda r: "-" if r is None else show_factor(r), show_exact
    ),
    count_column("expected_count", "Collectives expected"),
    count_column("measured_count", "Collectives measured"),
    dashed_column("measured_dtype", "Type"),
    dashed_column("expected_problem", "Why no expectation"),
)
# A ratio this near to 1 is 1: counts of bytes differ by whole elements or not at all.
TOLERANCE = 1e-6
# A label in two lines leaves room for the bar on a phone.
_LINES = alt.Axis(labelExpr="split(datum.label, '\\n')", labelLineHeight=14)
_ROW = 42


def ratio_chart(rows: pl.DataFrame) -> alt.Chart:
    """Measured over expected payload by phase, axis and kind, and a rule where both are equal."""
    data = _labelled(rows).with_columns(
        pl.col("ratio").map_elements(show_factor, return_dtype=pl.String).alias("text")
    )
    top = max(1.0, *rows["ratio"].to_list())
    y = alt.Y("label:N", title=None, sort=None, axis=_LINES)
    x = alt.X(
        "ratio:Q",
        title="Measured / expected payload (ratio)",
        scale=alt.Scale(domain=[0, top * 1.3], nice=False),
        axis=alt.Axis(tickCount=5),
    )
    base = alt.Chart(inline(data))
    bars = base.mark_bar(cornerRadius=1).encode(
        x=x,
        y=y,
        color=colour("axis", axis_colours(data["axis"]), "Axis", 110),
        tooltip=_tooltip(),
    )
    texts = base.mark_text(align="left", dx=5).encode(x=x, y=y, text="text:N")
    rule = alt.Chart(inline(pl.DataFrame({"ratio": [1.0]})))
    same = rule.mark_rule(color=INK, strokeWidth=1.5, strokeDash=[4, 3]).encode(x=x)
    return finish(
        alt.layer(bars, same, texts), "Measured over expected payload", rows_height(len(data), _ROW)
    )


def surplus_chart(rows: pl.DataFrame) -> alt.Chart:
    """Payload that was measured and that the layout does not need."""
    unit = suit(rows["measured_payload_bytes"], BYTES)
    data = _labelled(rows).with_columns(
        (pl.col("measured_payload_bytes") / unit.factor).alias("amount")
    )
    chart = (
        alt.Chart(inline(data))
        .mark_bar(cornerRadius=1)
        .encode(
            x=alt.X("amount:Q", title=f"Payload ({unit.symbol})", axis=alt.Axis(tickCount=5)),
            y=alt.Y("label:N", title=None, sort=None, axis=_LINES),
            color=colour("axis", axis_colours(data["axis"]), "Axis", 110),
            tooltip=_tooltip(),
        )
    )
    return finish(chart, "Payload that was not expected", rows_height(len(data), _ROW))


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """Ratios where traffic is expected, and measured payload where none is."""
    drawn = []
    known = rows.drop_nulls("ratio")
    if not known.is_empty():
        note = "Dashed: measured equals expected."
        drawn.append(Figure("Measured over expected payload", ratio_chart(known), note))
    surplus = _surplus(rows).drop_nulls("measured_payload_bytes")
    if not surplus.is_empty():
        note = "This model on this mesh needs none of these collectives."
        drawn.append(Figure("Measured but not expected", surplus_chart(surplus), note))
    return drawn


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """For how many of the collectives there is something to expect."""
    judged = rows.filter(pl.col("expected_problem").is_null())
    return (
        f"{total(judged, 'measured_count'):,} of "
        f"{plural(total(rows, 'measured_count'), 'measured collective')} compared."
    )


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """The finding in words: as expected, or what differs and by how much; and why rows are not judged."""
    found = []
    judged = rows.drop_nulls("ratio")
    differing = judged.filter((pl.col("ratio") - 1).abs() > TOLERANCE)
    if not judged.is_empty() and differing.is_empty():
        found.append("All expected traffic was sent, to the byte.")
    for row in differing.to_dicts():
        expected, sent = row["expected_payload_bytes"], row["measured_payload_bytes"]
        times = f"{show_factor(row['ratio'])} times as much" if sent else "none was sent"
        found.append(
            f"{_label(row)}: {show_bytes(sent)} measured, {show_bytes(expected)} expected: {times}."
        )
    surplus = _surplus(rows)
    if not judged.is_empty() and surplus.is_empty():
        found.append("No unexpected traffic was sent.")
    for row in surplus.to_dicts():
        what = plural(row["measured_count"], "collective")
        found.append(f"{_label(row)}: {what}, none expected.")
    for reason in rows["expected_problem"].drop_nulls().unique(maintain_order=True):
        part = rows.filter(pl.col("expected_problem") == reason)
        which = "any collective" if len(part) == len(rows) else _listed(part)
        remedy = f"; {STATE_MESH}" if reason == facts.row["mesh_problem"] else ""
        found.append(f"No expectation for {which}: {reason}{remedy}.")
    unknown = rows.filter(pl.col("measured_payload_bytes").is_null())
    if not unknown.is_empty():
        found.append(f"Measured bytes are not known for {_listed(unknown)}.")
    return found


why_empty = why_no_rows(
    "nothing was measured",
    "Nothing was sent, and this model on this mesh needs no traffic.",
)


def _surplus(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of which nothing is expected, though what to expect is known, and something was measured."""
    return rows.filter(
        pl.col("expected_problem").is_null()
        & (pl.col("expected_payload_bytes") == 0)
        & (pl.col("measured_count") > 0)
    )


def _listed(rows: pl.DataFrame) -> str:
    """The first of the rows in words, and how many more there are."""
    more = f"; and {len(rows) - 6:,} more" if len(rows) > 6 else ""
    return "; ".join(_label(row) for row in rows.head(6).to_dicts()) + more


def _label(row: dict[str, object]) -> str:
    return f"{row['phase']}, {row['axis']}, {row['kind']}"


def _labelled(rows: pl.DataFrame) -> pl.DataFrame:
    label = pl.concat_str("phase", pl.lit(", "), "axis", pl.lit("\n"), "kind").alias("label")
    return rows.with_columns(label)


def _tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("phase:N", title="phase"),
        alt.Tooltip("axis:N", title="axis"),
        alt.Tooltip("kind:N", title="kind"),
        alt.Tooltip("measured_payload_bytes:Q", title="measured payload, bytes", format=","),
        alt.Tooltip("expected_payload_bytes:Q", title="expected payload, bytes", format=","),
        alt.Tooltip("ratio:Q", title="measured / expected", format=".9~g"),
        alt.Tooltip("measured_count:Q", title="collectives measured", format=","),
        alt.Tooltip("expected_count:Q", title="collectives expected", format=","),
    ]


PANEL: Panel[PageFacts] = Panel(
    key="expected",
    title="Expected and measured traffic",
    lede="Traffic computed from the model, mesh, batch and lengths alone, beside the "
    "measured traffic. A ratio other than 1 means that the compiler or the program "
    "moves something else.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
