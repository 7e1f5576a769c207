"""Charts of a decision among setups: the rate of a chip against latency, and by batch."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from xlahouse.reports.charts.ends import Height, end_names, mark_names
from xlahouse.reports.charts.palette import BATCH_SHAPES, UNKNOWN_COLOUR, parallelism_colours
from xlahouse.reports.charts.panel import inline
from xlahouse.reports.charts.theme import INK, colour, finish, shape
from xlahouse.reports.charts.units import SECONDS, suit

LATENCIES = {"tpot_s": "TPOT", "ttft_s": "TTFT"}
RATE = "chip_tokens_per_s"
LOG_FROM = 8.0  # an axis whose ends differ by more is logarithmic
MAX_NAMES = 14  # of marks that all have their names; among more, those on the line have


def pareto(rows: pl.DataFrame, latency: str) -> pl.DataFrame:
    """Setups for which no other has more tokens/s per chip at no more latency, the shortest latency first.

    Measured setups alone, where there are any: a prediction must not hide a measurement.

    Args:
        rows: setups of one family.
        latency: one of LATENCIES.
    """
    known = rows.drop_nulls([latency, RATE])
    measured = known.filter(pl.col("evidence") == "measured")
    ordered = (known if measured.is_empty() else measured).sort(
        [latency, RATE], descending=[False, True], maintain_order=True
    )
    before = pl.col(RATE).cum_max().shift(1)
    return ordered.filter(before.is_null() | (pl.col(RATE) > before))


def forecasts(rows: pl.DataFrame, latency: str) -> pl.DataFrame:
    """Setups with a forecast of both, and no rate of a run.

    Args:
        rows: setups of one family.
        latency: one of LATENCIES.
    """
    bounds = [f"least_{latency}", f"most_{latency}", "least_rate", "most_rate"]
    return rows.filter(pl.col(RATE).is_null()).drop_nulls(bounds)


def choice_chart(rows: pl.DataFrame, latency: str, site: Sequence[str]) -> alt.Chart:
    """Output tokens/s of a chip against a latency: one mark per setup, and the line of the best ones.

    A forecast is a hollow box, from the best latency and rate to the worst.

    Args:
        rows: setups of one family, with the latency and the rate, or a forecast of them, known of some.
        latency: one of LATENCIES.
        site: parallelisms of all runs of the site.
    """
    spans = forecasts(rows, latency)
    ends = [spans[f"{end}_{latency}"] for end in ("least", "most")]
    unit = suit(pl.concat([rows[latency].drop_nulls(), *ends]), SECONDS)
    best = pareto(rows, latency)
    scaled = (pl.col(latency) / unit.factor).alias("latency")
    data = rows.drop_nulls([latency, RATE]).with_columns(scaled, _batch())
    per = pl.concat([data["per"], spans["per"]])[0]
    spans = _boxes(spans.filter(pl.col("per") == per), latency, unit.factor)
    times = pl.concat([data["latency"], spans["latency"], spans["until"]])
    rates = pl.concat([data[RATE], spans["least_rate"], spans["most_rate"]])
    x = _axis("latency", f"{LATENCIES[latency]} ({unit.symbol})", times)
    y = _axis(RATE, f"Output per {per} (tokens/s)", rates)
    shapes = data.sort("batch_size", nulls_last=True)["batch"]
    batches = shapes.unique(maintain_order=True).to_list()
    labels = pl.concat([data["parallelism"], spans["parallelism"]])
    look = {
        "x": x,
        "y": y,
        "color": _hue(site, labels),
        "shape": _batch_shapes(batches),
        "tooltip": _tooltip(latency, unit.symbol),
    }
    layers: list[alt.Chart] = []
    if len(best):
        line = alt.Chart(inline(best.select(scaled, RATE)))
        layers.append(line.mark_line(color=INK, opacity=0.45, strokeDash=[5, 4]).encode(x=x, y=y))
    measured = pl.col("evidence") == "measured"
    for part, filled in ((data.filter(measured), True), (data.filter(~measured), False)):
        if len(part):
            marks = alt.Chart(inline(part)).mark_point(
                filled=filled, size=110, opacity=1, strokeWidth=2
            )
            layers.append(marks.encode(**look))
    if len(spans):
        boxes = alt.Chart(inline(spans)).mark_rect(filled=False, strokeWidth=2, cornerRadius=2)
        top = y.copy()
        top.shorthand = "most_rate:Q"
        tooltip = _box_tooltip(latency, unit.symbol)
        layers.append(
            boxes.encode(
                x=x, x2="until:Q", y=top, y2="least_rate:Q", color=look["color"], tooltip=tooltip
            )
        )
    few = len(data) + len(spans) <= MAX_NAMES
    named = data if few else best.with_columns(scaled, _batch())
    corners = spans.with_columns(pl.col("most_rate").alias(RATE)).head(len(spans) if few else 0)
    both = pl.concat([each.select("latency", RATE, _name()) for each in (named, corners)])
    places = (_place("latency", times), _place(RATE, rates))
    texts = alt.Chart(inline(mark_names(both, "name", *places)))
    # A name stands on the side of its mark that has more room: on a phone, the right one may have none.
    right = "scale('x', datum.latency) > width / 2"
    texts = texts.mark_text(
        align=alt.ExprRef(f"{right} ? 'right' : 'left'"),
        dx=alt.ExprRef(f"{right} ? -9 : 9"),
        dy=-7,
        color=INK,
        fontSize=11,
    )
    layers.append(texts.encode(x=x, y=y, text="name:N"))
    title = f"Output tokens/s per {per} against {LATENCIES[latency]}"
    return finish(alt.layer(*layers), title, 380)


def _hue(site: Sequence[str], names: pl.Series) -> alt.Color:
    """The colour of each parallelism; the legend has those with one of their own."""
    colours = parallelism_colours(site, names)
    hue = colour("parallelism", colours, column_width=110)
    hue["legend"]["values"] = [name for name in colours if colours[name] != UNKNOWN_COLOUR]
    return hue


def shares_grey(names: pl.Series, site: Sequence[str]) -> bool:
    """Whether some of the parallelisms have no colour of their own."""
    return UNKNOWN_COLOUR in parallelism_colours(site, names).values()


def batch_chart(rows: pl.DataFrame, site: Sequence[str]) -> alt.Chart:
    """Output tokens/s of a chip against the batch: a line a parallelism, on the range over requests.

    Measured setups alone, where there are any.

    Args:
        rows: setups of one family with a rate and a batch.
        site: parallelisms of all runs of the site.
    """
    measured = rows.filter(pl.col("evidence") == "measured")
    rows = rows if measured.is_empty() else measured
    batches = alt.Axis(values=sorted(set(rows["batch_size"])), format=",d")
    x = alt.X(
        "batch_size:Q",
        title="Batch (sequences)",
        scale=alt.Scale(type="log", base=2, padding=16),
        axis=batches,
    )
    title = f"Output per {rows['per'][0]} (tokens/s)"
    y = alt.Y(f"{RATE}:Q", title=title, scale=alt.Scale(zero=True), axis=alt.Axis(format="~s"))
    hue = _hue(site, rows["parallelism"])
    tips = [
        alt.Tooltip("label:N", title="parallelism"),
        alt.Tooltip("batch_size:Q", title="batch", format=","),
        alt.Tooltip(f"{RATE}:Q", title="tokens/s, median", format=",.4~g"),
        alt.Tooltip(f"min_{RATE}:Q", title="least", format=",.4~g"),
        alt.Tooltip(f"max_{RATE}:Q", title="most", format=",.4~g"),
        alt.Tooltip("runs:Q", title="runs", format=","),
        alt.Tooltip("requests:Q", title="requests", format=","),
    ]
    base = alt.Chart(inline(rows.sort("batch_size")))
    lines = base.mark_line(strokeWidth=1.5).encode(x=x, y=y, color=hue, detail="label:N")
    spans = base.mark_rule(strokeWidth=3, opacity=0.6).encode(
        x=x, y=alt.Y(f"min_{RATE}:Q", title=title), y2=f"max_{RATE}:Q", color=hue
    )
    points = base.mark_point(filled=True, size=60, opacity=1).encode(
        x=x, y=y, color=hue, tooltip=tips
    )
    names = end_names(rows, "label", x, y, "batch_size", Height(RATE, also=(0.0,)))
    return finish(
        alt.layer(lines, spans, points, *names), "Output tokens/s by batch and parallelism", 320
    )


# Of a mark or a box: which setup it is.
_SETUP = (
    alt.Tooltip("label:N", title="parallelism"),
    alt.Tooltip("batch:N", title="batch"),
    alt.Tooltip("evidence:N", title="source"),
)


def _boxes(rows: pl.DataFrame, latency: str, factor: float) -> pl.DataFrame:
    """Forecasts with the ends of their boxes, in the chart's unit."""
    begins, until = (pl.col(f"{end}_{latency}") / factor for end in ("least", "most"))
    return rows.with_columns(begins.alias("latency"), until.alias("until"), _batch())


def _box_tooltip(latency: str, unit: str) -> list[alt.Tooltip]:
    return [
        *_SETUP,
        alt.Tooltip("latency:Q", title=f"{LATENCIES[latency]} at best, {unit}", format=",.4~g"),
        alt.Tooltip("until:Q", title=f"{LATENCIES[latency]} at worst, {unit}", format=",.4~g"),
        alt.Tooltip("most_rate:Q", title="tokens/s at best", format=",.4~g"),
        alt.Tooltip("least_rate:Q", title="tokens/s at worst", format=",.4~g"),
    ]


def _place(field: str, values: pl.Series) -> Height:
    """Where marks are along an axis that reaches over the values."""
    low, high = float(values.min()), float(values.max())  # type: ignore[arg-type]
    return Height(field, is_log=low > 0 and high / low > LOG_FROM, also=(low, high))


def _axis(field: str, title: str, values: pl.Series) -> alt.X:
    wide = _place(field, values).is_log
    scale = (
        alt.Scale(type="log", nice=False, padding=24) if wide else alt.Scale(zero=False, padding=24)
    )
    kind = alt.Y if field == RATE else alt.X
    return kind(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(tickCount=6, format="~s"))


def _batch_shapes(batches: Sequence[str]) -> alt.Shape:
    shapes = {batch: BATCH_SHAPES[k % len(BATCH_SHAPES)] for k, batch in enumerate(batches)}
    channel = shape("batch", shapes, "batch", 60)
    # Hollow marks would leave the legend without any.
    channel["legend"]["symbolStrokeWidth"] = 1.5
    channel["legend"]["symbolStrokeColor"] = INK
    return channel


def _batch() -> pl.Expr:
    return pl.col("batch_size").cast(pl.String).fill_null("not known").alias("batch")


def _name() -> pl.Expr:
    return pl.format("{}, batch {}", "label", "batch").alias("name")


def _tooltip(latency: str, unit: str) -> list[alt.Tooltip]:
    return [
        *_SETUP,
        alt.Tooltip("latency:Q", title=f"{LATENCIES[latency]}, {unit}", format=",.4~g"),
        alt.Tooltip(f"{RATE}:Q", title="tokens/s", format=",.4~g"),
        alt.Tooltip("chips:Q", title="chips", format=","),
        alt.Tooltip("runs:Q", title="runs", format=","),
        alt.Tooltip("requests:Q", title="requests", format=","),
    ]
