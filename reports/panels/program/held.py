"""How much HBM a program holds from one instruction to the next."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.columns import bytes_column, count_column, text_column
from xlahouse.reports.charts.distribution import styles
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.palette import RESERVE_COLOURS
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.theme import finish
from xlahouse.reports.charts.units import BYTES, plural, show_bytes, suit
from xlahouse.reports.panels.program.names import PROGRAM_NAMES

MAX_PROGRAMS = 6
MAX_PLACES = 2000  # of a program: the greatest of each of as many stretches

SQL = f"""
with {PROGRAM_NAMES}, placed as (
    select
        coalesce(n.program, m.module) as program, m.world, m.program_id, m.schedule_index, m.op,
        m.in_use_bytes,
        max(m.peak_bytes) over of_program as peak_bytes,
        row_number() over (of_program order by m.schedule_index) as place,
        count(*) over of_program as places
    from memory_timeline_v2 as m
    left join program_names as n on n.world = m.world and n.program_id = m.program_id
    where m.run_id = $run and m.source = 'program' and m.memory_space_id = 0
        and m.in_use_bytes is distinct from 0  -- when the program has ended
    window of_program as (partition by m.world, m.program_id)
), ranked as (
    select *, dense_rank() over (order by peak_bytes desc, world, program_id) as rank
    from placed
)
select
    program, schedule_index, op, in_use_bytes, peak_bytes,
    max(rank) over () as programs
from ranked
where rank <= {MAX_PROGRAMS}
qualify row_number() over (
    partition by rank, (place - 1) * {MAX_PLACES} // greatest(places, {MAX_PLACES})
    order by in_use_bytes desc, place
) = 1
order by rank, schedule_index
"""

COLUMNS = (
    text_column("program", "Program"),
    count_column("schedule_index", "Place in the schedule"),
    text_column("op", "Instruction"),
    bytes_column("in_use_bytes", "Held from here on"),
)


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """A line for each program over the places of its schedule."""
    known = rows.drop_nulls("in_use_bytes")
    if known.is_empty():
        return []
    unit = suit(known["in_use_bytes"], BYTES)
    names = known["program"].unique(maintain_order=True).to_list()
    looks = {name: (hue, [1, 0]) for name, hue in zip(names, RESERVE_COLOURS, strict=False)}
    hue, dash = styles("program", looks, 130)
    data = known.with_columns((pl.col("in_use_bytes") / unit.factor).alias("amount"))
    chart = (
        alt.Chart(inline(data.drop("peak_bytes", "programs")))
        .mark_line(interpolate="step-after", strokeWidth=1.5)
        .encode(
            x=alt.X(
                "schedule_index:Q",
                title="Place in the program's schedule",
                axis=alt.Axis(format=",d", tickMinStep=1),
            ),
            y=alt.Y("amount:Q", title=f"HBM held on a device ({unit.symbol})"),
            color=hue,
            strokeDash=dash,
            tooltip=[
                alt.Tooltip("program:N", title="program"),
                alt.Tooltip("op:N", title="instruction"),
                alt.Tooltip("in_use_bytes:Q", title="bytes", format=","),
            ],
        )
    )
    return [
        Figure("HBM held over the program", finish(chart, "HBM held, by place", 260), shape="wide")
    ]


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many programs are drawn."""
    shown, every = rows["program"].n_unique(), rows.select(pl.col("programs").max()).item() or 0
    return f"{shown:,} of {plural(every, 'program')} by the compiler's assignment."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Where each program holds most."""
    found = []
    for name, own in rows.drop_nulls("in_use_bytes").group_by("program", maintain_order=True):
        top = own.sort("in_use_bytes", descending=True, maintain_order=True).row(0, named=True)
        at = f" from {top['op']} on" if top["op"] else ""
        found.append(f"{name[0]}: most is held{at}, {show_bytes(top['in_use_bytes'])}.")
    return found


def why_empty(facts: PageFacts) -> str:
    """Only some traces hold the assignment."""
    return "No program states where its values lie in HBM."


PANEL: Panel[PageFacts] = Panel(
    key="held",
    title="Memory over the program",
    lede="HBM that a program holds on a device, from one instruction of its schedule to the next; its code "
    "is not in it.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
