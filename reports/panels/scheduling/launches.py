"""How long launches wait before they start, and how long hosts compile."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import amount
from xlahouse.reports.charts.columns import PHASE_COLUMN, count_column, ps_column
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.palette import CLOCK_COLOURS, KIND_COLOURS
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.phases import PHASE, phase_order
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import finish, rows_height
from xlahouse.reports.charts.units import PICOSECONDS, plural, suit

LAUNCHES_SQL = f"""
with phases_of_run as (
    select *, {PHASE} as phase_name
    from scheduling_v2
    where run_id = $run and launches > 0
)
select
    phase_name as phase,
    launches,
    linked_launches,
    early_launches,
    mean_queue_ps,
    p50_queue_ps,
    p95_queue_ps,
    mean_dispatch_ps,
    p50_dispatch_ps,
    p95_dispatch_ps,
    mean_launch_gap_ps,
    p50_launch_gap_ps,
    p95_launch_gap_ps,
    mean_host_blocked_ps
from phases_of_run
order by {phase_order("phase_name")}
"""

LAUNCHES_COLUMNS = (
    PHASE_COLUMN,
    count_column("launches", "Launches"),
    count_column("linked_launches", "Linked to the host"),
    ps_column("p50_queue_ps", "Queue p50"),
    ps_column("p95_queue_ps", "p95"),
    ps_column("p50_dispatch_ps", "Dispatch p50"),
    ps_column("p95_dispatch_ps", "p95"),
    ps_column("p50_launch_gap_ps", "Launch gap p50"),
    ps_column("p95_launch_gap_ps", "p95"),
    ps_column("mean_host_blocked_ps", "Host blocked, mean"),
)

COMPILES_SQL = f"""
with phases_of_run as (
    select *, {PHASE} as phase_name
    from scheduling_v2
    where run_id = $run
)
select phase_name as phase, compiles, compile_ps, recompiles
from phases_of_run
order by {phase_order("phase_name")}
"""

COMPILES_COLUMNS = (
    PHASE_COLUMN,
    count_column("compiles", "Compiles"),
    ps_column("compile_ps", "Compile time"),
    count_column("recompiles", "After warm-up"),
)

# Measure -> title and definition.
LAUNCH_MEASURES = {
    "queue": ("Queue", "From the enqueue on the host to the start."),
    "dispatch": ("Dispatch", "The part of the queue in which the device was free."),
    "launch_gap": (
        "Launch gap",
        "From the end of the previous launches to the start; negative: they overlap.",
    ),
}


def range_chart(rows: pl.DataFrame, measure: str) -> alt.Chart:
    """Median of a measure by phase, and a line to its 95th percentile.

    Args:
        rows: rows of LAUNCHES_SQL of which it is known.
        measure: `queue`, `dispatch` or `launch_gap`.
    """
    names = {p: f"{p}_{measure}_ps" for p in ("p50", "p95", "mean")}
    title = LAUNCH_MEASURES[measure][0]
    unit = suit([*rows[names["p50"]], *rows[names["p95"]]], PICOSECONDS)
    data = rows.select(
        *("phase", "launches"),
        *((pl.col(name) / unit.factor).alias(p) for p, name in names.items()),
        *(pl.col(name).alias(f"{p}_ps") for p, name in names.items()),
    )
    hue = CLOCK_COLOURS["trace"]
    x = amount("p50", f"{title} of a launch ({unit.symbol})")
    base = alt.Chart(inline(data)).encode(
        y=alt.Y("phase:N", title=None, sort=None),
        tooltip=[
            alt.Tooltip("phase:N", title="phase"),
            *(alt.Tooltip(f"{p}_ps:Q", title=f"{p}, ps", format=",.0f") for p in names),
            alt.Tooltip("launches:Q", title="launches", format=","),
        ],
    )
    line = base.mark_rule(color=hue, strokeWidth=2).encode(x=x, x2="p95")
    point = base.mark_point(color=hue, filled=True, size=80, opacity=1).encode(x=x)
    return finish(alt.layer(line, point), f"{title} of launches by phase", rows_height(len(data)))


def launches_figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """A chart for each measure that is known in any phase."""
    drawn = []
    for measure, (title, what) in LAUNCH_MEASURES.items():
        known = rows.drop_nulls(f"p50_{measure}_ps")
        if not known.is_empty():
            note = f"{what} Point: median; line: to the 95th percentile."
            drawn.append(Figure(f"{title} of launches by phase", range_chart(known, measure), note))
    return drawn


def launches_coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many launches are linked to the host."""
    linked = total(rows, "linked_launches")
    launches = total(rows, "launches")
    return f"{linked:,} of {launches:,} launches linked to their enqueue."


def launches_notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Why queue, dispatch and blocked hosts are not known."""
    found = []
    linked, launches = total(rows, "linked_launches"), total(rows, "launches")
    early = total(rows, "early_launches")
    if not linked:
        found.append(
            "Queue and dispatch are not known: the trace links no launch to the host's call that enqueued it."
        )
    elif linked < launches:
        found.append(
            f"Queue and dispatch leave out {launches - linked:,} launches without a link to "
            "the host."
        )
    if early:
        found.append(
            f"{early:,} launches seem to start before their enqueue, so clocks of host and device disagree; "
            "their queue and dispatch are not known."
        )
    if rows["mean_host_blocked_ps"].is_null().all():
        found.append(
            "How long hosts are blocked is not known: it needs markers of steps and linked "
            "launches."
        )
    return found


no_launches = why_no_rows(
    "the waits of launches are not known",
    "The trace has no launches of programs, only ops.",
)


def compile_chart(rows: pl.DataFrame) -> alt.Chart:
    """Time that hosts compile, by phase.

    Args:
        rows: rows of COMPILES_SQL with a compile.
    """
    unit = suit(rows["compile_ps"], PICOSECONDS)
    data = rows.with_columns((pl.col("compile_ps") / unit.factor).alias("amount"))
    chart = (
        alt.Chart(inline(data))
        .mark_bar(cornerRadius=1, color=KIND_COLOURS["all-reduce"])
        .encode(
            y=alt.Y("phase:N", title=None, sort=None),
            x=amount("amount", f"Compile time, all hosts ({unit.symbol})"),
            tooltip=[
                alt.Tooltip("phase:N", title="phase"),
                alt.Tooltip("compiles:Q", title="compiles", format=","),
                alt.Tooltip("recompiles:Q", title="after warm-up", format=","),
                alt.Tooltip("compile_ps:Q", title="compile time, ps", format=","),
            ],
        )
    )
    return finish(chart, "Compile time by phase", rows_height(len(data)))


def compiles_figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """One chart, where anything was compiled."""
    known = rows.filter(pl.col("compiles") > 0)
    if known.is_empty():
        return []
    return [
        Figure(
            "Compile time by phase",
            compile_chart(known),
            "By the phase in which a compile starts.",
            "wide",
        )
    ]


def compiles_coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many compiles are known."""
    if rows["compiles"].has_nulls():
        return "Compiles are not known."
    return f"{plural(total(rows, 'compiles'), 'compile')} in {plural(len(rows), 'phase')}."


def compiles_notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Whether compiles are known, and whether any came after warm-up."""
    if rows["compiles"].has_nulls():
        return ["Compiles are not known: the trace has no events of a host."]
    found = []
    if not total(rows, "compiles"):
        found.append("Nothing was compiled while the profiler ran.")
    if rows["recompiles"].has_nulls():
        found.append(
            "Which compiles came after warm-up is not known: the trace has no markers of measured steps."
        )
    elif total(rows, "recompiles"):
        found.append(
            f"{plural(total(rows, 'recompiles'), 'compile')} after warm-up: these requests are "
            "left out of TTFT and TPOT."
        )
    return found


def no_compiles(facts: PageFacts) -> str:
    """Why nothing is known of compiles."""
    return "The trace has no launches, markers or compiles, so compiles are not known."


LAUNCHES: Panel[PageFacts] = Panel(
    key="launches",
    title="Queue, dispatch and launch gaps",
    lede="A launch is one execution of a compiled program on a device. Queue: its wait after "
    "the host enqueued it; dispatch: the part of it in which the device was free; "
    "launch gap: how long the device waited for the launch.",
    sql=LAUNCHES_SQL,
    columns=LAUNCHES_COLUMNS,
    figures=launches_figures,
    coverage=launches_coverage,
    why_empty=no_launches,
    notes=launches_notes,
)
COMPILES: Panel[PageFacts] = Panel(
    key="compiles",
    title="Compiles",
    lede="Time in which a host compiles. Compiles after warm-up are recompiles, which a "
    "served model should not have.",
    sql=COMPILES_SQL,
    columns=COMPILES_COLUMNS,
    figures=compiles_figures,
    coverage=compiles_coverage,
    why_empty=no_compiles,
    notes=compiles_notes,
)
