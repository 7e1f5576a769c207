"""Which kernels take the time: ops of one kernel together, over layers and programs."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import amount, named_bars
from xlahouse.reports.charts.columns import (
    count_column,
    dashed_column,
    ps_column,
    ratio_column,
    text_column,
)
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.labels import NAME_ABOVE, clipped
from xlahouse.reports.charts.palette import category_colours
from xlahouse.reports.charts.panel import Figure, Panel
from xlahouse.reports.charts.phases import MEASURED
from xlahouse.reports.charts.theme import colour
from xlahouse.reports.charts.units import PICOSECONDS, plural, show_ratio, suit

# Kernels that are known by their names: (label, pattern). ingest/hlo/scopes.py has the components of most.
MATMUL, EITHER = (
    "quantized matmul",
    "attention or mlp",
)  # which of these it is part of, no name states
KNOWN = (
    ("ragged paged attention", r"(?i)ragged_?paged_?attention|(^|[^a-z])rpa([^a-z]|$)"),
    ("paged attention", r"(?i)paged_?attention"),
    ("flash attention", r"(?i)flash_?(attention|attn)|splash|fmha|(^|[^a-z])sdpa([^a-z]|$)"),
    (
        "grouped matmul",
        r"(?i)grouped_?(matmul|gemm)|megablox|ragged_?dot|(^|[^a-z])t?gmm([^a-z]|$)",
    ),
    (MATMUL, r"(?i)quantized_?(matmul|gemm)|(int8|fp8|w8a8)_?(matmul|gemm)"),
)
_LABELS = " ".join(
    f"when regexp_matches(p.kernel, '{found}') then '{name}'" for name, found in KNOWN
)

SQL = f"""
with longest as (
    select program_id, op, max(duration_ps) as max_ps
    from ops
    where run_id = $run and {MEASURED} and coalesce(line, 'none') not in ('Steps', 'Async XLA Ops')
    group by program_id, op
), peaks as (
    -- of a device; NULL where devices differ
    select
        case when min(peak_flops_per_s) = max(peak_flops_per_s) then min(peak_flops_per_s) end as flops_per_s,
        case
            when min(peak_hbm_bytes_per_s) = max(peak_hbm_bytes_per_s) then min(peak_hbm_bytes_per_s)
        end as hbm_bytes_per_s
    from hardware_peaks_v1
    where run_id = $run
), named as (
    select
        p.*,
        l.max_ps,
        case {_LABELS} end as known
    from op_profile_v1 as p
    left join longest as l on l.program_id is not distinct from p.program_id and l.op = p.op
    where p.run_id = $run and {MEASURED} and p.category <> 'control'
), summed as (
    select
        kernel,
        category,
        min(known) as known,
        coalesce(
            string_agg(distinct component, ', ' order by component),
            case when min(known) = '{MATMUL}' then '{EITHER}' end
        ) as components,
        nullif(count(distinct layer), 0) as layers,
        count(distinct op) as ops,
        cast(sum(executions) as bigint) as calls,
        cast(sum(self_ps) as bigint) as self_ps,
        cast(sum(duration_ps) as double) / nullif(sum(executions), 0) as mean_ps,
        max(max_ps) as max_ps,
        case when category = 'compute' and count(flops) = count(*) then sum(flops) end as flops,
        case when count(hbm_bytes) = count(*) then sum(hbm_bytes) end as hbm_bytes
    from named
    group by kernel, category
)
select
    summed.*,
    count(*) over () as all_kernels,
    self_ps / nullif(sum(self_ps) over (), 0) as ratio,
    flops * 1e12 / nullif(self_ps * flops_per_s, 0) as flops_ratio,
    hbm_bytes * 1e12 / nullif(self_ps * hbm_bytes_per_s, 0) as hbm_ratio
from summed
cross join peaks
order by self_ps desc, kernel, category
"""

COLUMNS = (
    text_column("kernel", "Kernel"),
    dashed_column("known", "Known as"),
    text_column("category", "Category"),
    dashed_column("components", "Component"),
    count_column("layers", "Layers"),
    count_column("calls", "Calls"),
    ps_column("self_ps", "Self time"),
    ratio_column("ratio", "Share of all"),
    ps_column("mean_ps", "Mean call"),
    ps_column("max_ps", "Longest call"),
    ratio_column("flops_ratio", "FLOP use"),
    ratio_column("hbm_ratio", "HBM use"),
)
MAX_BARS = 12


def chart(rows: pl.DataFrame) -> alt.Chart:
    """The kernels with the most self time.

    Args:
        rows: the first rows of SQL.
    """
    unit = suit(rows["self_ps"], PICOSECONDS)
    place = pl.int_range(pl.len()).add(1).cast(pl.String)
    known = pl.concat_str(pl.col("known"), pl.lit(": ")).fill_null("")
    said = pl.concat_str(place, pl.lit(". "), known, pl.col("kernel"))
    data = rows.with_columns(
        clipped(said, NAME_ABOVE).alias("name"),
        pl.col("kernel").str.head(200),
        (pl.col("self_ps") / unit.factor).alias("amount"),
        pl.col("category").replace("host_transfer", "copy"),
    ).drop("all_kernels", "ops", "flops", "hbm_bytes")
    return named_bars(
        data,
        "name",
        amount("amount", f"Self time, all devices and executions ({unit.symbol})"),
        colour("category", category_colours(data["category"]), column_width=110),
        [
            alt.Tooltip("kernel:N", title="kernel"),
            alt.Tooltip("known:N", title="known as"),
            alt.Tooltip("components:N", title="component"),
            alt.Tooltip("layers:Q", title="layers"),
            alt.Tooltip("calls:Q", title="calls", format=","),
            alt.Tooltip("amount:Q", title=f"self time, {unit.symbol}", format=",.4~g"),
            alt.Tooltip("ratio:Q", title="share of all", format=".2%"),
        ],
        "The kernels with the most self time",
    )


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """One chart over the kernels of most time."""
    top = rows.filter(pl.col("self_ps") > 0).head(MAX_BARS)
    if top.is_empty():
        return []
    note = f"The {len(top)} of {plural(len(rows), 'kernel')} with the most self time."
    return [Figure("Kernels by self time", chart(top), note, shape="wide")]


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many kernels there are, and the share of the time whose component is known."""
    placed = float(rows.filter(pl.col("components") != EITHER)["ratio"].sum() or 0)
    calls = plural(int(rows["calls"].sum()), "call")
    return (
        f"{plural(len(rows), 'kernel')}, {calls}; component known for {show_ratio(placed)} of the "
        f"time."
    )


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Why use is not known, and how far times of virtual devices are valid."""
    if facts.inferred:
        return [
            "Virtual devices share the cores of one machine, and have no peaks: uses are not known."
        ]
    unknown = rows.filter((pl.col("category") == "compute") & pl.col("flops_ratio").is_null())
    if unknown.is_empty():
        return []
    share = show_ratio(float(unknown["ratio"].sum() or 0))
    return [
        f"FLOP use is not known for compute kernels with {share} of the time: custom calls state no "
        "FLOPs, or the peak of the devices is not known; `xlahouse set peaks RUN bf16_flops=PEAK` states it."
    ]


why_empty = why_no_rows("the time of kernels is not known", "No op ran outside warm-up.")

PANEL: Panel[PageFacts] = Panel(
    key="kernels",
    title="Ops by kernel",
    lede="Ops whose names differ in their numbers only are one kernel, over layers, programs and phases "
    "outside warm-up. Self time: without nested ops. FLOP and HBM use: per second of self time, over the "
    "peak.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
