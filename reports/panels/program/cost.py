"""Which instructions the TPU's compiler expects to take most cycles."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import amount, named_bars
from xlahouse.reports.charts.columns import count_column, ps_column, ratio_column, text_column
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.palette import COMPONENT_COLOURS, present_colours
from xlahouse.reports.charts.panel import Figure, Panel
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import colour
from xlahouse.reports.charts.units import plural, show_ps, show_ratio
from xlahouse.reports.panels.program.names import PROGRAM_NAMES

MAX_OPS = 100
MAX_BARS = 20

SQL = f"""
with {PROGRAM_NAMES}, bounds as (
    select
        *,
        sum(math_ps) over of_program as program_math_ps,
        sum(hbm_ps) over of_program as program_hbm_ps
    from compiler_roofline_v1
    where run_id = $run
    window of_program as (partition by world, program_id)
)

select
    coalesce(c.phase, n.program, c.module) as program, c.op, c.opcode, c.layer, c.component, c.framework_op,
    c.executions, c.estimated_cycles, c.cycles, c.cycles_ratio, b.math_ps, b.hbm_ps,
    b.program_math_ps, b.program_hbm_ps,
    count(*) over () as all_ops
from compiler_cost_v1 as c
inner join bounds as b
    on b.run_id = c.run_id and b.world = c.world and b.program_id = c.program_id and b.op = c.op
left join program_names as n on n.world = c.world and n.program_id = c.program_id
order by c.cycles desc nulls last, program, c.op
limit {MAX_OPS}
"""

COLUMNS = (
    text_column("program", "Program"),
    text_column("op", "Instruction"),
    text_column("opcode", "Opcode"),
    count_column("layer", "Layer"),
    text_column("component", "Component"),
    count_column("executions", "Executions"),
    count_column("cycles", "Estimated cycles"),
    ratio_column("cycles_ratio", "Share of the program's"),
    ps_column("math_ps", "Math at peak"),
    ps_column("hbm_ps", "HBM at peak"),
)


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """The instructions with most cycles."""
    top = rows.drop_nulls("cycles").head(MAX_BARS)
    if top.is_empty():
        return []
    data = top.with_columns(
        pl.concat_str("program", pl.lit(": "), "op").alias("name"),
        pl.col("component").fill_null("no component"),
    ).drop("all_ops")
    chart = named_bars(
        data,
        "name",
        amount("cycles", "Estimated cycles, all executions of one step"),
        colour(
            "component", present_colours(COMPONENT_COLOURS, data["component"]), column_width=110
        ),
        [
            alt.Tooltip("op:N", title="instruction"),
            alt.Tooltip("framework_op:N", title="framework"),
            alt.Tooltip("layer:N", title="layer"),
            alt.Tooltip("executions:Q", title="executions", format=","),
            alt.Tooltip("cycles:Q", title="estimated cycles", format=","),
            alt.Tooltip("cycles_ratio:Q", title="share of the program's", format=".3%"),
        ],
        "The instructions with the most estimated cycles",
    )
    return [Figure("Most expensive instructions", chart, shape="wide")]


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many instructions are listed."""
    every = total(rows.head(1), "all_ops")
    return f"{len(rows):,} of {plural(every, 'instruction')} with a cost."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """What the numbers are not, and how much of each program is listed."""
    shares = rows.group_by("program", maintain_order=True).agg(pl.col("cycles_ratio").sum())
    listed = [
        f"The listed instructions have {show_ratio(share)} of the cycles of {name}."
        for name, share in shares.iter_rows()
    ]
    return [
        "Cycles are the compiler's estimate, without collectives, not a measurement.",
        *listed,
        *_bounds(rows),
    ]


def _bounds(rows: pl.DataFrame) -> list[str]:
    """The least time of each program at the peaks of its chips."""
    programs = rows.unique("program", keep="first", maintain_order=True)
    known = programs.drop_nulls(["program_math_ps", "program_hbm_ps"])
    return [
        _bound(name, math, hbm)
        for name, math, hbm in known.select(
            "program", "program_math_ps", "program_hbm_ps"
        ).iter_rows()
    ]


def _bound(name: str, math_ps: float, hbm_ps: float) -> str:
    least, rest = (f"{show_ps(math_ps)} of math and ", "") if math_ps else ("", "; it has no math")
    return (
        f"At the chip's peaks {name} takes at least {least}{show_ps(hbm_ps)} of HBM traffic,"
        f" copies to VMEM included{rest}."
    )


def why_empty(facts: PageFacts) -> str:
    """Only a TPU's compiler states costs."""
    return "No compiler states what instructions cost: only a TPU's does, in its programs' HLO."


PANEL: Panel[PageFacts] = Panel(
    key="cost",
    title="Estimated cost",
    lede="Cycles that the TPU's compiler expects of each instruction, times its executions in one "
    "execution of the program.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
