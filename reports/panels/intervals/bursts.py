"""Bursts: how much an axis sends, and for how long, before another axis takes its turn."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.facts import RunFacts
from xlahouse.reports.charts.log_axes import size_log, time_log
from xlahouse.reports.charts.palette import axis_colours
from xlahouse.reports.charts.panel import Column, Figure, Panel, inline
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import colour, finish, legend_columns
from xlahouse.reports.charts.units import plural, show_bytes, show_count, show_exact, show_ps

# A size holds the bytes from a power of two up to the next; 0 for none, NULL where they are not known.
# quantile_disc(x, p) is the value of row ceil(p n).
SQL = """
with bursts as (
    select
        coalesce(phase, 'outside markers') as phase,
        axis,
        count as transfers,
        bytes,
        end_ps - start_ps as length_ps,
        case when bytes >= 1 then pow(2, floor(log2(bytes))) when bytes is not null then 0 end as bucket
    from traffic_burst_v1
    where run_id = $run and scope = 'device'
)
select
    phase,
    axis,
    bucket as size_bytes,
    count(*) as bursts,
    quantile_disc(transfers, 0.5) as p50_transfers,
    max(transfers) as max_transfers,
    cast(case when count(bytes) = count(*) then sum(bytes) end as double) as bytes,
    quantile_disc(length_ps, 0.05) as p05_ps,
    quantile_disc(length_ps, 0.5) as p50_ps,
    quantile_disc(length_ps, 0.95) as p95_ps,
    max(length_ps) as max_ps
from bursts
group by phase, axis, bucket
order by case phase when 'prefill' then 0 when 'decode' then 1 else 2 end, phase, axis, bucket
"""

COLUMNS = (
    Column("phase", "Phase", numeric=False),
    Column("axis", "Axis", numeric=False),
    Column("size_bytes", "Bytes of a burst, from", show_bytes, show_exact),
    Column("bursts", "Bursts", show_count),
    Column("p50_transfers", "Transfers p50", show_count),
    Column("max_transfers", "Most", show_count),
    Column("bytes", "Bytes, all bursts", show_bytes, show_exact),
    Column("p05_ps", "Length p5", show_ps, show_exact),
    Column("p50_ps", "p50", show_ps, show_exact),
    Column("p95_ps", "p95", show_ps, show_exact),
    Column("max_ps", "Most", show_ps, show_exact),
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
    x = alt.X("size_bytes:Q", **size_log(_edges(data), "Bytes of a burst on a device"))
    y = alt.Y("p50_s:Q", **time_log(lengths, "Length of a burst"))
    color = colour("axis", axis_colours(data["axis"]), "Axis", 110)
    low, high = (int(find(data["bursts"].to_list())) for find in (min, max))
    size = alt.Size(
        "bursts:Q",
        scale=alt.Scale(type="sqrt", rangeMin=60, rangeMax=500),
        legend=alt.Legend(
            title="Bursts",
            symbolType="circle",
            values=sorted({low, (low + high) // 2, high}),
            format=",d",
            columns=legend_columns(90),
        ),
    )
    base = alt.Chart(inline(data))
    spread = base.mark_rule(strokeWidth=2, opacity=0.6).encode(
        x=x, y=alt.Y("p05_s:Q"), y2="p95_s", color=color
    )
    circles = base.mark_circle(opacity=0.85).encode(
        x=x, y=y, color=color, size=size, tooltip=_tooltip()
    )
    return finish(alt.layer(spread, circles), "Length of bursts against their bytes", 240)


def figures(rows: pl.DataFrame, facts: RunFacts) -> list[Figure]:
    """A chart of each phase, where there are several axes to take turns."""
    if rows["axis"].n_unique() < 2:
        return []
    known = rows.filter((pl.col("size_bytes") > 0) & (pl.col("p05_ps") > 0))
    note = "Circle: median length; line through it: 5th to 95th percentile."
    return [
        Figure(f"{phase.capitalize()}: length of bursts against their bytes", chart, note)
        for phase in known["phase"].unique(maintain_order=True)
        for chart in [burst_chart(known.filter(pl.col("phase") == phase))]
    ]


def coverage(rows: pl.DataFrame, facts: RunFacts) -> str:
    """How many bursts hold how many transfers."""
    return f"{plural(total(rows, 'bursts'), 'burst')} on traced devices; {facts.covered()}"


def notes(rows: pl.DataFrame, facts: RunFacts) -> list[str]:
    """Why there is no chart, and what it leaves out."""
    found = []
    axes = rows["axis"].unique().to_list()
    if len(axes) == 1:
        found.append(
            f"All transfers are of one axis ({axes[0]}), so each device has one burst as long as its "
            "traffic: no chart."
        )
    unknown = total(rows.filter(pl.col("size_bytes").is_null()), "bursts")
    if unknown:
        found.append(
            f"{plural(unknown, 'burst')} of unknown bytes: in the table, not in the charts."
        )
    nothing = total(rows.filter((pl.col("size_bytes") == 0) | (pl.col("p05_ps") <= 0)), "bursts")
    if nothing:
        found.append(f"{plural(nothing, 'burst')} without bytes or length: not on a log axis.")
    if facts.inferred:
        found.append("On virtual devices the bytes of a burst are real, its length is not.")
    return found


def why_empty(facts: RunFacts) -> str:
    """Why there are no bursts."""
    if facts.row["traced_devices"] == 0:
        return "The trace holds no device events, so when its transfers ran is not known."
    return "The trace holds no collective that sends anything, so there are no bursts."


def _edges(rows: pl.DataFrame) -> list[float]:
    return [float(size) for size in rows["size_bytes"]]


def _tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("axis:N", title="axis"),
        alt.Tooltip("size_bytes:Q", title="bytes, from (to twice that)", format=","),
        alt.Tooltip("bursts:Q", title="bursts", format=","),
        alt.Tooltip("p50_transfers:Q", title="transfers p50", format=","),
        alt.Tooltip("p50_ps:Q", title="length p50, ps", format=","),
        alt.Tooltip("p05_ps:Q", title="p5, ps", format=","),
        alt.Tooltip("p95_ps:Q", title="p95, ps", format=","),
        alt.Tooltip("bytes:Q", title="bytes, all bursts", format=",.15~g"),
    ]


PANEL: Panel[RunFacts] = Panel(
    key="bursts",
    title="Bursts of an axis",
    lede="On a device, transfers of one axis in a row are a burst, until one of another axis starts.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
