"""How much of the devices' peaks a run uses: MFU by the model's FLOPs, HFU by the compiler's, and MBU."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import percent
from xlahouse.reports.charts.columns import (
    PHASE_COLUMN,
    bytes_column,
    count_column,
    dashed_column,
    flops_column,
    ratio_column,
    text_column,
)
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.palette import KIND_COLOURS, present_colours
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.phases import MEASURED, PHASE, phase_order
from xlahouse.reports.charts.theme import BAR_STEP, colour, finish, rows_height
from xlahouse.reports.charts.units import plural, show_ratio

KNOWN = 0.95  # of the busy time must have known FLOPs
SQL = f"""
with uses as (
    select
        {PHASE} as phase, 1 as place, 'MFU' as metric, mfu_ratio as ratio,
        device_steps as n, model_flops as used, available_flops as available, null as flops_known_ratio,
        mfu_problem as problem
    from mfu_v2
    where run_id = $run and {MEASURED}
    union all
    select
        {PHASE}, 2, 'HFU', hfu_ratio,
        device_steps, compiled_flops, available_flops, flops_known_ratio,
        case
            when hfu_ratio is not null then null
            when flops_known_ratio < {KNOWN}
                then 'ops of unknown FLOPs, such as custom calls, take more than 5 % of the busy time'
            else 'the peak FLOP/s of a device, the wall time, or the FLOPs of the ops are not known'
        end
    from mfu_v2
    where run_id = $run and {MEASURED}
    union all
    select
        phase, 3, 'MBU', mbu_ratio,
        tpot_count, weight_bytes + kv_bytes, tpot_s * peak_hbm_bytes_per_s, null, mbu_problem
    from mbu_v2
    where run_id = $run
)
select
    phase, metric, ratio, n,
    if(metric = 'MBU', null, used) as flops, if(metric = 'MBU', null, available) as peak_flops,
    if(metric = 'MBU', used, null) as bytes, if(metric = 'MBU', available, null) as peak_bytes,
    flops_known_ratio, problem
from uses
order by {phase_order()}, place
"""

COLUMNS = (
    PHASE_COLUMN,
    text_column("metric", "Metric"),
    ratio_column("ratio", "Share of peak"),
    count_column("n", "Device steps (MBU: requests)"),
    flops_column("flops", "FLOPs"),
    flops_column("peak_flops", "FLOPs at peak"),
    bytes_column("bytes", "Bytes a step"),
    bytes_column("peak_bytes", "Bytes at peak"),
    ratio_column("flops_known_ratio", "FLOPs known"),
    dashed_column("problem", "Not known because"),
)

METRIC_COLOURS = {
    "MFU": KIND_COLOURS["all-reduce"],
    "HFU": KIND_COLOURS["all-gather"],
    "MBU": KIND_COLOURS["reduce-scatter"],
}


def use_chart(rows: pl.DataFrame) -> alt.Chart:
    """Share of the peak by phase and metric.

    Args:
        rows: rows of SQL whose ratio is known.
    """
    shown = present_colours(METRIC_COLOURS, rows["metric"])
    used = rows.with_columns(
        pl.coalesce("flops", "bytes").alias("used"),
        pl.coalesce("peak_flops", "peak_bytes").alias("available"),
    )
    chart = (
        alt.Chart(inline(used))
        .mark_bar(cornerRadius=1)
        .encode(
            y=alt.Y("phase:N", title=None, sort=None),
            yOffset=alt.YOffset("metric:N", sort=list(shown)),
            x=percent("ratio", "Share of the devices' peak (%)"),
            color=colour("metric", shown, column_width=190),
            tooltip=[
                alt.Tooltip("phase:N", title="phase"),
                alt.Tooltip("metric:N", title="metric"),
                alt.Tooltip("ratio:Q", title="share of peak", format=".3%"),
                alt.Tooltip("used:Q", title="FLOPs, or bytes a step", format=",.9~g"),
                alt.Tooltip("available:Q", title="available at peak", format=",.9~g"),
                alt.Tooltip("n:Q", title="device steps, or requests", format=","),
            ],
        )
    )
    height = rows_height(rows["phase"].n_unique(), BAR_STEP * max(len(shown), 1))
    return finish(chart, "Share of the peaks by phase", height)


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """One chart over what is known."""
    known = rows.drop_nulls("ratio")
    if known.is_empty():
        return []
    note = (
        "MFU: FLOPs that the model needs; HFU: FLOPs of the compiled ops, padding and masked work "
        "included. Both are over wall time, gaps between steps included."
    )
    return [Figure("Share of the peaks by phase", use_chart(known), note, shape="wide")]


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many of the values are known."""
    known = len(rows.drop_nulls("ratio"))
    return f"{known:,} of {plural(len(rows), 'value')} known."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Why a value is not known, and what MFU and MBU count."""
    if facts.inferred:
        return ["MFU and MBU are not known: virtual devices have no peaks to compare with."]
    found = [
        f"{metric} is not known ({', '.join(phases)}): {why}."
        for (metric, why), phases in _unknown(rows).items()
    ]
    if "MBU" in set(rows.drop_nulls("ratio")["metric"]):
        found.append(
            "MBU counts the rows of an embedding that are looked up, and of experts as many as the "
            "tokens of a step can reach: an upper bound where tokens share experts."
        )
    if "MFU" in set(rows.drop_nulls("ratio")["metric"]):
        found.append(
            "MFU counts causal attention; PaLM's definition counts full attention, twice that term."
        )
    return found


def _unknown(rows: pl.DataFrame) -> dict[tuple[str, str], list[str]]:
    """(metric, why it is not known) -> its phases."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows.filter(pl.col("ratio").is_null()).iter_rows(named=True):
        why, known = row["problem"], row["flops_known_ratio"]
        if known is not None and known < KNOWN:
            why = f"{why} (FLOPs known for {show_ratio(known)})"
        found.setdefault((row["metric"], why), []).append(row["phase"])
    return found


why_empty = why_no_rows(
    "MFU and MBU are not known",
    "No step outside warm-up has an op, so MFU and MBU are not known.",
)


PANEL: Panel[PageFacts] = Panel(
    key="peaks",
    title="MFU and MBU",
    lede="MFU: FLOPs that the model needs in a phase over the FLOPs that the devices could do in its "
    "wall time at peak rate. HFU: the same of the compiled ops' FLOPs. MBU: bytes of weights and "
    "KV cache that a decode step reads, over the bytes that HBM could move in one TPOT.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
