"""Which compiled programs and which of their ops take the time."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import amount, named_bars, place_in
from xlahouse.reports.charts.columns import (
    PHASE_COLUMN,
    bytes_column,
    count_column,
    flops_column,
    ps_column,
    ratio_column,
    text_column,
)
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.palette import category_colours
from xlahouse.reports.charts.panel import Figure, Panel
from xlahouse.reports.charts.phases import MEASURED, PHASE, phase_order
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import colour
from xlahouse.reports.charts.units import (
    PICOSECONDS,
    plural,
    show_ratio,
    suit,
)

MAX_PROFILE_OPS = 100
MAX_OP_BARS = 20

OPS_SQL = f"""
with summed as (
    select
        program_id,
        op,
        min(module) as module,
        string_agg(distinct {PHASE}, ' and ' order by {PHASE} desc) as phase,
        min(opcode) as opcode,
        min(category) as category,
        min(layer) as layer,
        min(component) as component,
        min(framework_op) as framework_op,
        min(source_file || ':' || cast(source_line as varchar)) as source,
        cast(sum(executions) as bigint) as executions,
        cast(sum(self_ps) as bigint) as self_ps,
        case when count(flops) = count(*) then sum(flops) end as flops,
        case when count(accessed_bytes) = count(*) then sum(accessed_bytes) end as accessed_bytes
    from op_profile_v1
    where run_id = $run and {MEASURED}
    group by program_id, op
)
select
    *,
    count(*) over () as all_ops,
    self_ps / nullif(sum(self_ps) over (), 0) as ratio
from summed
order by self_ps desc, module, op
limit {MAX_PROFILE_OPS}
"""

OPS_COLUMNS = (
    text_column("op", "Op"),
    text_column("module", "Program"),
    text_column("category", "Category"),
    count_column("layer", "Layer"),
    text_column("component", "Component"),
    count_column("executions", "Executions"),
    ps_column("self_ps", "Self time"),
    ratio_column("ratio", "Share of all ops"),
    flops_column("flops", "FLOPs"),
    bytes_column("accessed_bytes", "Bytes accessed"),
    text_column("source", "Source line"),
)

_SUMS = ", ".join(
    f"cast(sum({each}_ps) as bigint) as {each}_ps"
    for each in ("launch", "compute", "collective", "copy", "wait", "control")
)
MODULES_SQL = f"""
with programs as (
    -- a trace of PyTorch's profiler has a program a transfer: they count together
    select
        {PHASE} as phase_name, module,
        case when module is distinct from 'nccl' then program_id end as program_id,
        max(devices) as devices,
        cast(sum(launches) as bigint) as launches,
        {_SUMS}
    from module_breakdown_v1
    where run_id = $run and {MEASURED}
    group by phase_name, module, case when module is distinct from 'nccl' then program_id end
)
select
    phase_name as phase,
    coalesce(module, 'outside every launch') as module,
    program_id,
    devices,
    launches,
    launch_ps,
    compute_ps,
    collective_ps,
    copy_ps,
    wait_ps,
    control_ps,
    compute_ps + collective_ps + copy_ps + wait_ps + control_ps as self_ps
from programs
order by {phase_order("phase_name")}, self_ps desc, module, program_id
"""

MODULES_COLUMNS = (
    PHASE_COLUMN,
    text_column("module", "Program"),
    count_column("devices", "Devices"),
    count_column("launches", "Launches"),
    ps_column("launch_ps", "Time in launches"),
    ps_column("compute_ps", "Compute"),
    ps_column("collective_ps", "Collectives"),
    ps_column("copy_ps", "Copies"),
    ps_column("wait_ps", "Waits"),
    ps_column("control_ps", "Control"),
)

CATEGORY_NAMES = {
    "compute_ps": "compute",
    "collective_ps": "collective",
    "copy_ps": "copy",
    "wait_ps": "wait",
    "control_ps": "control",
}


def ops_chart(rows: pl.DataFrame) -> alt.Chart:
    """The ops with the most self time.

    Args:
        rows: rows of OPS_SQL.
    """
    unit = suit(rows["self_ps"], PICOSECONDS)
    data = _named(rows, "op").with_columns(
        (pl.col("self_ps") / unit.factor).alias("amount"),
        pl.col("category").replace("host_transfer", "copy"),
    ).drop("program_id", "all_ops")  # fmt: skip
    return named_bars(
        data,
        "name",
        amount("amount", f"Self time, all devices and executions ({unit.symbol})"),
        colour("category", category_colours(data["category"]), column_width=110),
        [
            alt.Tooltip("op:N", title="op"),
            alt.Tooltip("module:N", title="program"),
            alt.Tooltip("component:N", title="component"),
            alt.Tooltip("layer:N", title="layer"),
            alt.Tooltip("framework_op:N", title="framework"),
            alt.Tooltip("source:N", title="source"),
            alt.Tooltip("executions:Q", title="executions", format=","),
            alt.Tooltip("self_ps:Q", title="self time, ps", format=","),
            alt.Tooltip("ratio:Q", title="share of all ops", format=".3%"),
        ],
        "The ops with the most self time",
    )


def modules_chart(rows: pl.DataFrame) -> alt.Chart:
    """The programs with the most self time, stacked by category of op.

    Args:
        rows: rows of MODULES_SQL, one a phase and program.
    """
    unit = suit(rows["self_ps"], PICOSECONDS)
    data = _by_category(rows).with_columns((pl.col("ps") / unit.factor).alias("amount"))
    data = data.with_columns(place_in(CATEGORY_NAMES.values(), "part"))
    return named_bars(
        data,
        "name",
        amount("amount", f"Self time of its ops, all devices ({unit.symbol})"),
        colour("part", category_colours(data["part"]), column_width=110),
        [
            alt.Tooltip("name:N", title="program, phase"),
            alt.Tooltip("part:N", title="category"),
            alt.Tooltip("ps:Q", title="self time, ps", format=","),
            alt.Tooltip("launches:Q", title="launches", format=","),
            alt.Tooltip("devices:Q", title="devices", format=","),
        ],
        "The programs with the most self time",
    )


def _by_category(rows: pl.DataFrame) -> pl.DataFrame:
    """One row a program and category of which it has ops: name, launches, devices, part, ps."""
    labels = rows.with_columns((pl.col("module") + ", " + pl.col("phase")).alias("label"))
    named = _named(labels, "label")
    long = named.unpivot(
        list(CATEGORY_NAMES),
        index=["name", "launches", "devices"],
        variable_name="part",
        value_name="ps",
    ).filter(pl.col("ps") > 0)
    long = long.with_columns(pl.col("part").replace_strict(CATEGORY_NAMES, return_dtype=pl.String))
    # Bars follow the order of their first rows.
    return named.select("name").join(long, on="name", how="inner", maintain_order="left_right")


def ops_figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """One chart over the ops of most time."""
    top = rows.filter(pl.col("self_ps") > 0).head(MAX_OP_BARS)
    if top.is_empty():
        return []
    note = (
        f"The {len(top)} of {plural(total(rows.head(1), 'all_ops'), 'op')} with the most self time."
    )
    return [Figure("Ops by self time", ops_chart(top), note, shape="wide")]


def modules_figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """One chart over the programs of most time."""
    running = rows.filter(pl.col("self_ps") > 0).sort(
        "self_ps", descending=True, maintain_order=True
    )
    if running.is_empty():
        return []
    note = (
        f"The {MAX_OP_BARS} programs with the most self time." if len(running) > MAX_OP_BARS else ""
    )
    return [
        Figure(
            "Programs by self time", modules_chart(running.head(MAX_OP_BARS)), note, shape="wide"
        )
    ]


def ops_coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many ops are listed, and how much of the time is theirs."""
    listed = f"{len(rows):,} of {plural(total(rows.head(1), 'all_ops'), 'op')}"
    return f"{listed} with {show_ratio(float(rows['ratio'].sum()))} of the time."


def modules_coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many programs and launches are listed."""
    launched = rows.filter(pl.col("launches") > 0)
    programs = plural(launched.n_unique(["module", "program_id"]), "program")
    launches = plural(int(rows["launches"].sum()), "launch")
    return f"{programs}, {launches.replace('launchs', 'launches')} outside warm-up."


why_empty = why_no_rows(
    "the time of ops is not known",
    "No op ran outside warm-up.",
)


def _named(rows: pl.DataFrame, column: str) -> pl.DataFrame:
    """Adds `name`: the column's text, made unique by the program, its phases or its number."""
    names = rows[column].to_list()
    number = pl.col("program_id").cast(pl.String)
    for more in (pl.col("module"), pl.col("phase"), number) if column == "op" else (number,):
        added = rows.select(more.fill_null("no program")).to_series()
        names = [
            name if names.count(name) == 1 else f"{name}, {text}"
            for name, text in zip(names, added, strict=True)
        ]
    return rows.with_columns(pl.Series("name", names, dtype=pl.String))


OPS: Panel[PageFacts] = Panel(
    key="ops",
    title="Op profile",
    lede="Self time (without nested ops) of each op, over all devices, executions and phases "
    "outside warm-up.",
    sql=OPS_SQL,
    columns=OPS_COLUMNS,
    figures=ops_figures,
    coverage=ops_coverage,
    why_empty=why_empty,
)
MODULES: Panel[PageFacts] = Panel(
    key="programs",
    title="Compiled programs",
    lede="Self time of the ops of each compiled program (module), by category.",
    sql=MODULES_SQL,
    columns=MODULES_COLUMNS,
    figures=modules_figures,
    coverage=modules_coverage,
    why_empty=why_empty,
)
