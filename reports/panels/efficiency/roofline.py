"""Whether each op is bound by arithmetic or by memory, and how far it is below the device's peak."""

from __future__ import annotations

from collections.abc import Mapping

import altair as alt
import polars as pl

from xlahouse.reports.charts.columns import (
    bytes_column,
    count_column,
    dashed_column,
    factor_column,
    flops_column,
    ps_column,
    ratio_column,
    text_column,
)
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.palette import AXIS_COLOURS, KIND_COLOURS, present_colours
from xlahouse.reports.charts.panel import Figure, Panel, TableColumn, inline
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import INK, colour, finish
from xlahouse.reports.charts.units import (
    plural,
    show_bytes,
    show_exact,
    show_factor,
    show_flop_rate,
    show_ratio,
)

MAX_ROOFLINE_OPS = 400

# Compute ops with FLOPs and HBM bytes, the longest-running first. Sums are over devices and executions, so
# FLOPs / observed time is the rate of one device. Peaks are of the run's slowest device.
SQL = f"""
with peaks as (
    select min(peak_flops_per_s) as peak_flops_per_s, min(peak_hbm_bytes_per_s) as peak_hbm_bytes_per_s
    from hardware_peaks_v1
    where run_id = $run and device_id in (
        select device_id from devices
        where run_id = $run and traced and core is distinct from 'sparsecore'
    )
), ops as (
    select
        *,
        count(*) over () as all_ops,
        sum(observed_ps) over () as all_ps
    from roofline_v2
    where run_id = $run and category = 'compute'
), placed as (
    select *, flops > 0 and hbm_bytes > 0 and observed_ps > 0 as is_placed
    from ops
)
select
    op,
    module,
    program_id,
    executions,
    flops,
    hbm_bytes,
    hbm_source,
    flops / hbm_bytes as intensity,
    flops / (observed_ps / 1e12) as flops_per_s,
    observed_ps,
    predicted_ps,
    case when is_lower_bound then 'lower bound' end as certainty,
    case bound_by when 'math' then 'FLOPs' when 'hbm' then 'HBM' when 'ici' then 'links' end as bound_by,
    efficiency_ratio,
    peak_flops_per_s,
    peak_hbm_bytes_per_s,
    all_ops,
    observed_ps / nullif(all_ps, 0) as ratio
from placed
cross join peaks
where is_placed
order by observed_ps desc, module, op
limit {MAX_ROOFLINE_OPS}
"""


COLUMNS = (
    text_column("op", "Op"),
    text_column("module", "Program"),
    count_column("executions", "Executions"),
    flops_column("flops", "FLOPs"),
    bytes_column("hbm_bytes", "HBM bytes"),
    factor_column("intensity", "FLOP/byte"),
    TableColumn("flops_per_s", "FLOP/s", show_flop_rate, show_exact),
    ps_column("observed_ps", "Observed"),
    ps_column("predicted_ps", "Predicted"),
    text_column("bound_by", "Bound by"),
    ratio_column("efficiency_ratio", "Efficiency"),
    dashed_column("certainty", "Predicted is"),
    ratio_column("ratio", "Share of compute time"),
)

BOUND_COLOURS = {"FLOPs": KIND_COLOURS["all-reduce"], "HBM": KIND_COLOURS["all-gather"]}


def scatter(rows: pl.DataFrame) -> alt.Chart:
    """FLOP/s against FLOP/byte on log axes, under the roof of the device's peaks.

    Args:
        rows: rows of SQL with peaks.
    """
    roof = _roof(rows)
    low, _, high = roof["intensity"]
    rates = (*rows["flops_per_s"], *roof["rate"])
    x = _intensity_axis("intensity", low, high)
    y = {
        "title": "Rate of a device (FLOP/s, log scale)",
        "scale": alt.Scale(type="log", domain=[min(rates) / 2, max(rates) * 2], nice=False),
        "axis": alt.Axis(format=".0s", tickCount=6, labelOverlap="greedy"),
    }
    layers = [layer.encode(x=x) for layer in (_roof_line(roof, y), _op_points(rows, y))]
    title = "Roofline: rate of each op against its intensity"
    return finish(alt.layer(*layers), title, 340)


def _roof(rows: pl.DataFrame) -> pl.DataFrame:
    """The roof's corners (intensity, rate): left of all ops, where the peaks meet, right of all ops."""
    peak, hbm = rows["peak_flops_per_s"][0], rows["peak_hbm_bytes_per_s"][0]
    ridge = peak / hbm
    low, high = min(*rows["intensity"], ridge) / 2, max(*rows["intensity"], ridge) * 2
    return pl.DataFrame({"intensity": [low, ridge, high]}).with_columns(
        pl.min_horizontal(pl.col("intensity") * hbm, pl.lit(peak)).alias("rate")
    )


def _roof_line(roof: pl.DataFrame, y: Mapping[str, object]) -> alt.Chart:
    line = alt.Chart(inline(roof)).mark_line(color=INK, strokeWidth=2, opacity=0.7)
    return line.encode(
        y=alt.Y("rate:Q", **y),
        tooltip=[
            alt.Tooltip("intensity:Q", title="FLOP/byte", format=",.5~g"),
            alt.Tooltip("rate:Q", title="peak, FLOP/s", format=",.5~g"),
        ],
    )


def _op_points(rows: pl.DataFrame, y: Mapping[str, object]) -> alt.Chart:
    data = rows.select(
        *("op", "module", "intensity", "flops_per_s"),
        *("bound_by", "efficiency_ratio", "observed_ps", "ratio"),
    ).with_columns(pl.col("bound_by").fill_null("not known"))
    shown = present_colours(BOUND_COLOURS, data["bound_by"])
    shown |= dict.fromkeys(sorted(set(data["bound_by"]) - set(shown)), AXIS_COLOURS["mixed"])
    return (
        alt.Chart(inline(data))
        .mark_point(filled=True, opacity=0.75)
        .encode(
            y=alt.Y("flops_per_s:Q", **y),
            size=alt.Size("ratio:Q", scale=alt.Scale(range=[30, 500], domainMin=0), legend=None),
            color=colour("bound_by", shown, title="Bound by", column_width=100),
            tooltip=[
                alt.Tooltip("op:N", title="op"),
                alt.Tooltip("module:N", title="program"),
                alt.Tooltip("intensity:Q", title="FLOP/byte", format=",.5~g"),
                alt.Tooltip("flops_per_s:Q", title="FLOP/s", format=",.5~g"),
                alt.Tooltip("efficiency_ratio:Q", title="efficiency", format=".2%"),
                alt.Tooltip("observed_ps:Q", title="observed, ps", format=","),
                alt.Tooltip("ratio:Q", title="share of compute time", format=".2%"),
            ],
        )
    )


def _intensity_axis(field: str, low: float, high: float) -> alt.X:
    return alt.X(
        f"{field}:Q",
        title="Arithmetic intensity (FLOP/byte, log scale)",
        scale=alt.Scale(type="log", domain=[low, high], nice=False),
        axis=alt.Axis(format="~g", tickCount=6, labelOverlap="greedy", labelSeparation=8),
    )


def intensity_chart(rows: pl.DataFrame) -> alt.Chart:
    """Share of the FLOPs by intensity, four bins a power of ten: valid even where times are not."""
    data = _intensity_bins(rows)
    # One bin alone would fill the chart, wherever it lies.
    low, high = min(0.1, float(data["low"][0])), max(1000, float(data["high"][-1]))
    bars = alt.Chart(inline(data)).mark_bar(color=KIND_COLOURS["all-reduce"])
    shares = alt.Axis(format="%", tickCount=5)
    chart = bars.encode(
        x=_intensity_axis("low", low, high),
        x2="high",
        y=alt.Y("ratio:Q", title="Share of the FLOPs (%)", axis=shares),
        y2=alt.datum(0),
        tooltip=[
            alt.Tooltip("low:Q", title="from FLOP/byte", format=",.4~g"),
            alt.Tooltip("high:Q", title="to FLOP/byte", format=",.4~g"),
            alt.Tooltip("ratio:Q", title="of the FLOPs", format=".2%"),
            alt.Tooltip("flops:Q", title="FLOPs", format=",.6~g"),
            alt.Tooltip("ops:Q", title="ops", format=","),
        ],
    )
    return finish(chart, "Share of the FLOPs by arithmetic intensity", 220)


def _intensity_bins(rows: pl.DataFrame) -> pl.DataFrame:
    """One row a bin with ops: low and high (FLOP/byte), ratio of all FLOPs, flops, ops."""
    whole = float(rows["flops"].sum())
    return (
        rows.with_columns((pl.col("intensity").log10() * 4 + 1e-9).floor().alias("bin"))
        .group_by("bin")
        .agg(pl.col("flops").sum(), pl.len().alias("ops"))
        .sort("bin")
        .select(
            (10 ** (pl.col("bin") / 4)).alias("low"),
            (10 ** ((pl.col("bin") + 1) / 4)).alias("high"),
            (pl.col("flops") / whole).alias("ratio"),
            "flops",
            "ops",
        )
    )


def has_roof(rows: pl.DataFrame) -> bool:
    """Whether the devices' peaks are known."""
    return not (rows["peak_flops_per_s"].has_nulls() or rows["peak_hbm_bytes_per_s"].has_nulls())


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """The roofline where peaks are known, and the intensities in any case."""
    drawn = []
    if has_roof(rows):
        peak, hbm = rows["peak_flops_per_s"][0], rows["peak_hbm_bytes_per_s"][0]
        note = (
            "Point: an op; area: its share of the compute time. Line: the roof, "
            f"{show_flop_rate(peak)} and {show_bytes(hbm)}/s, which meet at "
            f"{show_factor(peak / hbm)} FLOP/byte."
        )
        drawn.append(Figure("Roofline", scatter(rows), note, shape="wide"))
    note = "Ops in the table. An op with few FLOPs per byte is bound by memory on any accelerator."
    drawn.append(Figure("FLOPs by arithmetic intensity", intensity_chart(rows), note, shape="wide"))
    return drawn


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many compute ops are placed, and how much of the time is theirs."""
    ops = plural(total(rows.head(1), "all_ops"), "compute op")
    share = show_ratio(float(rows["ratio"].sum()))
    most = ", the longest-running," if len(rows) == MAX_ROOFLINE_OPS else ""
    return f"{len(rows):,} of {ops}{most} with {share} of their time."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Why there is no roof, and where bytes are an upper bound."""
    found = []
    if facts.inferred:
        found.append(
            "No roofline: virtual devices have no peaks, and their times are not an accelerator's."
        )
    elif not has_roof(rows):
        found.append(
            "No roofline: the peaks of the devices are not known; state the kind, "
            "`xlahouse set device-kind RUN KIND`, or the peaks, `xlahouse set peaks RUN bf16_flops=PEAK`."
        )
    if "bytes_accessed" in set(rows["hbm_source"]):
        found.append(
            "For ops without a breakdown by memory, all accessed bytes count as HBM bytes: "
            "an upper bound, so their intensity is a lower bound. Where that bound is above the "
            "time of their FLOPs, what bounds them is not known, and predicted time and efficiency "
            "are lower bounds."
        )
    found.append(
        "Left out: ops whose FLOPs or bytes are unknown or 0 (custom calls, data movement)."
    )
    return found


def why_empty(facts: PageFacts) -> str:
    """Why no op has a place."""
    if not facts.traced:
        return "The trace has no device events, so the time of ops is not known."
    if facts.inferred:
        return (
            "Virtual devices have no peaks, so there is no roof, and no compute op of the "
            "trace has both FLOPs and bytes."
        )
    return (
        "No compute op of the trace has both FLOPs and bytes: the profiler recorded no "
        "costs of ops."
    )


PANEL: Panel[PageFacts] = Panel(
    key="roofline",
    title="Roofline",
    lede="The roof is the rate that the device's peak FLOP/s and peak HBM bandwidth allow. "
    "The nearer an op is to the roof, the better it uses the device.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
