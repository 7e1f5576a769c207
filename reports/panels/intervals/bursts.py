"""How much an axis sends, and for how long, before a transfer of another axis starts."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.columns import (
    AXIS_COLUMN,
    PHASE_COLUMN,
    bytes_column,
    count_column,
    ps_column,
)
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.log_axes import size_log, time_log
from xlahouse.reports.charts.palette import axis_colours
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.phases import PHASE, by_phase, phase_order
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import colour, finish, legend_columns
from xlahouse.reports.charts.units import plural

# A size holds the bytes from a power of two up to the next; 0 for none, NULL where they are not known.
# quantile_disc(x, p) is the value of row ceil(p n); a median is between the two middle rows.
SQL = f"""
with bursts as (
    select
        {PHASE} as phase,
        axis,
        count as transfers,
        bytes,
        end_ps - start_ps as length_ps,
        case when bytes >= 1 then pow(2, floor(log2(bytes))) when bytes is not null then 0 end as bucket
    from traffic_burst_v2
    where run_id = $run and scope = 'device'
)
select
    phase,
    axis,
    bucket as size_bytes,
    count(*) as bursts,
    cast(floor(quantile_cont(transfers, 0.5)) as bigint) as p50_transfers,
    max(transfers) as max_transfers,
    cast(case when count(bytes) = count(*) then sum(bytes) end as double) as bytes,
    quantile_disc(length_ps, 0.05) as p05_ps,
    cast(floor(quantile_cont(length_ps, 0.5)) as bigint) as p50_ps,
    quantile_disc(length_ps, 0.95) as p95_ps,
    max(length_ps) as max_ps
from bursts
group by phase, axis, bucket
order by {phase_order()}, axis, bucket
"""

COLUMNS = (
    PHASE_COLUMN,
    AXIS_COLUMN,
    bytes_column("size_bytes", "Bytes of a burst, from"),
    count_column("bursts", "Bursts"),
    count_column("p50_transfers", "Transfers p50"),
    count_column("max_transfers", "Most"),
    bytes_column("bytes", "Bytes, all bursts"),
    ps_column("p05_ps", "Length p5"),
    ps_column("p50_ps", "p50"),
    ps_column("p95_ps", "p95"),
    ps_column("max_ps", "Most"),
)


def burst_chart(rows: pl.DataFrame) -> alt.Chart:
    """Length against size, a circle for each axis and size, its area the number of bursts.

    Args:
        rows: rows of SQL of one phase, with bytes and lengths above 0.
    """
    data = rows.with_columns(
        (pl.col(f"{name}_ps") / 1e12).alias(f"{name}_s") for name in ("p05", "p50", "p95")
    )
    lengths = [*data["p05_s"], *data["p50_s"], *data["p95_s"]]
    sizes = [float(size) for size in data["size_bytes"]]
    x = alt.X("size_bytes:Q", **size_log(sizes, "Bytes of a burst on a device"))
    y = alt.Y("p50_s:Q", **time_log(lengths, "Length of a burst"))
    color = colour("axis", axis_colours(data["axis"]), "Axis", 110)
    base = alt.Chart(inline(data))
    spread = base.mark_rule(strokeWidth=2, opacity=0.6).encode(
        x=x, y=alt.Y("p05_s:Q"), y2="p95_s", color=color
    )
    circles = base.mark_circle(opacity=0.85).encode(
        x=x, y=y, color=color, size=_area(data["bursts"].to_list()), tooltip=_tooltip()
    )
    return finish(alt.layer(spread, circles), "Length of bursts against their bytes", 240)


def _area(bursts: list[int]) -> alt.Size:
    """The channel of a circle's area, whose legend has the least, the middle and the most."""
    low, high = min(bursts), max(bursts)
    legend = alt.Legend(
        title="Bursts",
        symbolType="circle",
        values=sorted({low, (low + high) // 2, high}),
        format=",d",
        columns=legend_columns(90),
    )
    return alt.Size(
        "bursts:Q", scale=alt.Scale(type="sqrt", rangeMin=60, rangeMax=500), legend=legend
    )


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """A chart of each phase, where there are several axes to take turns."""
    if rows["axis"].n_unique() < 2:
        return []
    known = rows.filter((pl.col("size_bytes") > 0) & (pl.col("p05_ps") > 0))
    note = "Circle: median length; line through it: 5th to 95th percentile."
    return [
        Figure(
            f"{phase.capitalize()}: length of bursts against their bytes", burst_chart(part), note
        )
        for phase, part in by_phase(known)
    ]


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many bursts hold how many transfers."""
    return f"{plural(total(rows, 'bursts'), 'burst')} on traced devices."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Why there is no chart, and what it leaves out."""
    found = []
    axes = rows["axis"].unique().to_list()
    if len(axes) == 1:
        found.append(
            f"Not drawn: all transfers are of one axis ({axes[0]}), so each device has a "
            "single burst."
        )
    unknown = total(rows.filter(pl.col("size_bytes").is_null()), "bursts")
    if unknown:
        found.append(f"{plural(unknown, 'burst')} of unknown bytes: in the table only.")
    nothing = total(rows.filter((pl.col("size_bytes") == 0) | (pl.col("p05_ps") <= 0)), "bursts")
    if nothing:
        found.append(f"{plural(nothing, 'burst')} of 0 bytes or 0 length: in the table only.")
    return found


why_empty = why_no_rows(
    "when its transfers ran is not known",
    "The trace has no collective that sends data, so there are no bursts.",
)


def _tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("axis:N", title="axis"),
        alt.Tooltip("size_bytes:Q", title="from, bytes (up to twice that)", format=","),
        alt.Tooltip("bursts:Q", title="bursts", format=","),
        alt.Tooltip("p50_transfers:Q", title="transfers p50", format=","),
        alt.Tooltip("p50_ps:Q", title="length p50, ps", format=","),
        alt.Tooltip("p05_ps:Q", title="p5, ps", format=","),
        alt.Tooltip("p95_ps:Q", title="p95, ps", format=","),
        alt.Tooltip("bytes:Q", title="bytes, all bursts", format=",.15~g"),
    ]


PANEL: Panel[PageFacts] = Panel(
    key="bursts",
    title="Bursts of an axis",
    lede="A burst is a sequence of transfers of one axis on a device, up to the first "
    "transfer of another axis.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
