"""How long collectives of each size take, from start to done, and how often they run."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.columns import (
    AXIS_COLUMN,
    KIND_COLUMN,
    PHASE_COLUMN,
    bytes_column,
    count_column,
    factor_column,
    ps_column,
)
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.log_axes import size_log, time_log
from xlahouse.reports.charts.palette import axis_colours, kind_shapes
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.phases import PHASE, by_phase, phase_order
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import colour, finish, shape
from xlahouse.reports.charts.units import (
    plural,
)

# The view has percentiles of each device, which do not add up: the median device's p50 and the slowest
# one's p99 do not depend on how many devices were traced.
SQL = f"""
with sizes as (
    select * replace ({PHASE} as phase)
    from collective_latency_summary_v2
    where run_id = $run
)
select
    phase,
    axis,
    kind,
    size_bucket_bytes as size_bytes,
    count(*) as devices,
    cast(sum(count) as bigint) as count,
    avg(collectives_per_step) as collectives_per_step,
    avg(collectives_per_s) as collectives_per_s,
    min(p50_ps) as fastest_p50_ps,
    cast(floor(quantile_cont(p50_ps, 0.5)) as bigint) as p50_ps,
    max(p50_ps) as slowest_p50_ps,
    max(p95_ps) as p95_ps,
    max(p99_ps) as p99_ps
from sizes
group by phase, axis, kind, size_bucket_bytes
order by
    {phase_order()},
    axis,
    kind,
    size_bucket_bytes
"""

COLUMNS = (
    PHASE_COLUMN,
    AXIS_COLUMN,
    KIND_COLUMN,
    bytes_column("size_bytes", "Payload from"),
    count_column("devices", "Devices"),
    count_column("count", "Collectives"),
    factor_column("collectives_per_step", "Per step"),
    factor_column("collectives_per_s", "Per second"),
    ps_column("fastest_p50_ps", "p50, fastest device"),
    ps_column("p50_ps", "p50, median device"),
    ps_column("slowest_p50_ps", "p50, slowest device"),
    ps_column("p95_ps", "p95, slowest device"),
    ps_column("p99_ps", "p99, slowest device"),
)


def duration_chart(rows: pl.DataFrame) -> alt.Chart:
    """Time in flight against payload, log-log.

    Args:
        rows: rows of SQL of one phase, sizes and times above 0.
    """
    data = rows.with_columns((pl.col(f"{p}_ps") / 1e12).alias(f"{p}_s") for p in ("p50", "p99"))
    x = alt.X("size_bytes:Q", **size_log(data["size_bytes"], "Payload"))
    times = time_log([*data["p50_s"], *data["p99_s"]], "Time in flight")
    y = alt.Y("p50_s:Q", **times)
    color = colour("axis", axis_colours(rows["axis"]), "Axis", 110, hollow=True)
    shapes = shape("kind", kind_shapes(rows["kind"]), "Kind", 160, hollow=True)
    base = alt.Chart(inline(data))
    tail = base.mark_rule(strokeWidth=2, opacity=0.5).encode(
        x=x, y=alt.Y("p50_s:Q", **times), y2="p99_s", color=color
    )
    # Outlines: an all-gather and a reduce-scatter of one size often lie on each other.
    points = base.mark_point(filled=False, size=90, strokeWidth=2, opacity=1).encode(
        x=x, y=y, color=color, shape=shapes, tooltip=_tooltip()
    )
    return finish(alt.layer(tail, points), "Time in flight against payload", 260)


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """A chart of each phase."""
    known = rows.filter((pl.col("size_bytes") > 0) & (pl.col("p50_ps") > 0))
    note = "Point: p50 of the median device; line up from it: to p99 of the slowest device."
    return [
        Figure(f"{phase.capitalize()}: time in flight against payload", duration_chart(part), note)
        for phase, part in by_phase(known)
    ]


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many collectives are timed."""
    traced = plural(facts.row["collectives"], "collective")
    return f"{total(rows, 'count'):,} of {traced} in the trace."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """What these times include, and what is not drawn."""
    found = ["Time in flight includes waiting for late devices; the bandwidth below does not."]
    unknown = total(rows.filter(pl.col("size_bytes").is_null()), "count")
    if unknown:
        found.append(f"{plural(unknown, 'collective')} of unknown size: in the table only.")
    off = rows.filter((pl.col("size_bytes") == 0) | (pl.col("p50_ps") <= 0))
    if not off.is_empty():
        found.append(
            f"{plural(total(off, 'count'), 'collective')} of 0 bytes or 0 time: in the table only."
        )
    return found


why_empty = why_no_rows(
    "there is no transfer to time",
    "The trace has no collectives, so there is no transfer to time.",
)


def _tooltip() -> list[alt.Tooltip]:
    exact = ",.9~g"
    return [
        alt.Tooltip("axis:N", title="axis"),
        alt.Tooltip("kind:N", title="kind"),
        alt.Tooltip("size_bytes:Q", title="payload from, bytes (up to twice that)", format=","),
        alt.Tooltip("count:Q", title="collectives", format=","),
        alt.Tooltip("devices:Q", title="devices", format=","),
        alt.Tooltip("collectives_per_step:Q", title="per step", format=exact),
        alt.Tooltip("p50_ps:Q", title="p50 of the median device, ps", format=","),
        alt.Tooltip("p95_ps:Q", title="p95 of the slowest device, ps", format=","),
        alt.Tooltip("p99_ps:Q", title="p99 of the slowest device, ps", format=","),
    ]


PANEL: Panel[PageFacts] = Panel(
    key="durations",
    title="Duration of collectives",
    lede="Time from the start of a collective (of its start op, if asynchronous) to its end. "
    "Payloads are grouped by powers of two.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
