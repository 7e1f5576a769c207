"""Speed-up and efficiency with more devices along one mesh axis, beside the ideal."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from xlahouse.reports.charts.columns import (
    AXIS_COLUMN,
    count_column,
    factor_column,
    ratio_column,
    text_column,
)
from xlahouse.reports.charts.ends import Height, end_names
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.palette import axis_colours
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.theme import INK, colour, finish, legend_columns
from xlahouse.reports.charts.units import plural
from xlahouse.reports.panels.runs.setups import WORKLOAD, virtual_note

# A workload whose runs differ in more than the mesh is one for each of their settings, named by a run.
SQL = f"""
with named as (
    select
        scaling_v3.*,
        {WORKLOAD} as workload,
        coalesce(setup_besides_mesh, run_id) as setting,
        coalesce(name, run_id) as run_name
    from scaling_v3
    inner join (select run_id, name from runs) using (run_id)
    where list_contains($runs, run_id)
)
select
    workload || case when count(distinct setting) over (partition by workload) > 1
        then ' (settings of ' || min(run_name) over (partition by workload, setting) || ')'
        else '' end as subject,
    axis,
    coalesce(
        nullif(
            concat_ws(
                '.',
                nullif(other_axes, ''),
                case when microbatches > 1 then 'm' || cast(microbatches as varchar) end
            ),
            ''
        ),
        'none'
    ) as other_axes,
    size,
    devices,
    runs,
    base_size,
    size / nullif(base_size, 0) as times_devices,
    output_tokens_per_s,
    chip_tokens_per_s,
    speedup_ratio,
    efficiency_ratio,
    setup_besides_mesh is not null as known_settings
from named
order by subject, axis, other_axes, size
"""

COLUMNS = (
    text_column("subject", "Workload"),
    AXIS_COLUMN,
    text_column("other_axes", "Other axes, microbatches"),
    count_column("size", "Size"),
    count_column("devices", "Devices"),
    count_column("runs", "Runs"),
    factor_column("output_tokens_per_s", "Output tokens/s"),
    factor_column("chip_tokens_per_s", "Per chip"),
    factor_column("speedup_ratio", "Speed-up"),
    ratio_column("efficiency_ratio", "Efficiency"),
)

MAX_SCALING_WORKLOADS = 8
_KEYS = ["axis", "other_axes"]


def grown(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the series that have a rate at two sizes at least, with a name for each series."""
    known = rows.drop_nulls(["speedup_ratio", "times_devices"])
    several = pl.col("size").n_unique().over(["subject", *_KEYS]) > 1
    alone = pl.col("other_axes") == "none"
    series = pl.when(alone).then(pl.col("axis"))
    return known.filter(several).with_columns(
        series.otherwise(pl.format("{} beside {}", "axis", "other_axes")).alias("series")
    )


def speedup_chart(rows: pl.DataFrame) -> alt.Chart:
    """Speed-up against how many times the devices, both logarithmic, with the ideal dashed.

    Args:
        rows: rows of grown() of one subject.
    """
    top = float(max(rows["times_devices"].max(), 1))  # type: ignore[type-var, arg-type]
    ideal = pl.DataFrame({"times_devices": [1.0, top], "speedup_ratio": [1.0, top]})
    y = alt.Y(
        "speedup_ratio:Q", title="Speed-up (times)", scale=alt.Scale(type="log", base=2, nice=False)
    )
    height = Height("speedup_ratio", is_log=True, also=(1.0, top))
    return _chart(rows, ideal, y, height, "Speed-up by devices")


def efficiency_chart(rows: pl.DataFrame) -> alt.Chart:
    """Speed-up over how many times the devices, with the ideal 100 % dashed.

    Args:
        rows: rows of grown() of one subject.
    """
    top = float(max(rows["times_devices"].max(), 1))  # type: ignore[type-var, arg-type]
    ideal = pl.DataFrame({"times_devices": [1.0, top], "efficiency_ratio": [1.0, 1.0]})
    y = alt.Y(
        "efficiency_ratio:Q",
        title="Efficiency (%)",
        scale=alt.Scale(zero=True),
        axis=alt.Axis(format="%", tickCount=5),
    )
    return _chart(
        rows, ideal, y, Height("efficiency_ratio", also=(0.0, 1.0)), "Efficiency by devices"
    )


def _chart(
    rows: pl.DataFrame, ideal: pl.DataFrame, y: alt.Y, height: Height, title: str
) -> alt.Chart:
    x = alt.X(
        "times_devices:Q",
        title="Devices along the axis (times the smallest)",
        scale=alt.Scale(type="log", base=2, nice=False),
        axis=alt.Axis(values=sorted(set(rows["times_devices"])), format="~g"),
    )
    hue = colour("axis", axis_colours(rows["axis"]), title="Axis that grows", column_width=90)
    lines = alt.Chart(inline(rows)).mark_line(point=alt.OverlayMarkDef(size=70, filled=True))
    lines = lines.encode(
        x=x, y=y, color=hue, strokeDash=_dash(rows), detail="series:N", tooltip=_tooltip()
    )
    line = alt.Chart(inline(ideal)).mark_line(color=INK, opacity=0.5, strokeDash=[2, 4])
    names = end_names(rows, "series", x, y, "times_devices", height)
    return finish(alt.layer(line.encode(x=x, y=y), lines, *names), title, 300)


def _dash(rows: pl.DataFrame) -> alt.StrokeDash:
    """The channel of a line's dash: the axes beside the one that grows."""
    legend = alt.Legend(
        title="Other axes, microbatches",
        orient="bottom",
        columns=legend_columns(90),
        symbolType="stroke",
        symbolStrokeWidth=2,
    )
    order = sorted(set(rows["other_axes"]), key=lambda name: (name != "none", name))
    return alt.StrokeDash("other_axes:N", sort=order, legend=legend)


def _tooltip() -> list[alt.Tooltip]:
    return [
        alt.Tooltip("series:N", title="axis"),
        alt.Tooltip("size:Q", title="size", format=","),
        alt.Tooltip("devices:Q", title="devices", format=","),
        alt.Tooltip("speedup_ratio:Q", title="speed-up", format=",.4~g"),
        alt.Tooltip("efficiency_ratio:Q", title="efficiency", format=".2%"),
        alt.Tooltip("output_tokens_per_s:Q", title="output tokens/s", format=",.9~g"),
        alt.Tooltip("runs:Q", title="runs", format=","),
    ]


def figures(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[Figure]:
    """Two charts a workload."""
    known, found = grown(rows), []
    for subject in known["subject"].unique(maintain_order=True).head(MAX_SCALING_WORKLOADS):
        part = known.filter(pl.col("subject") == subject)
        note = "Dotted: the ideal, a rate that grows with the devices."
        found.append(Figure(f"Speed-up: {subject}", speedup_chart(part), note))
        found.append(Figure(f"Efficiency: {subject}", efficiency_chart(part), "Dotted: the ideal."))
    return found


def coverage(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> str:
    """How many of the series have a rate at two sizes."""
    series = rows.select("subject", *_KEYS).n_unique()
    drawn = grown(rows).select("subject", *_KEYS).n_unique()
    return f"{drawn:,} of {series:,} series with a rate at two sizes; {plural(len(runs), 'run')}."


def notes(rows: pl.DataFrame, runs: Sequence[PageFacts]) -> list[str]:
    """How far times are valid, and why series or columns are missing."""
    found = virtual_note(runs)
    known = grown(rows)
    if known.is_empty():
        found.append("Not drawn: no axis has a rate at two sizes with all else the same.")
    unknown = rows.filter(~pl.col("known_settings")).height
    if unknown:
        found.append(
            f"Not compared: {plural(unknown, 'size')} of runs that an older xlahouse ingested, whose "
            "settings besides the mesh are not known; `xlahouse ingest TRACES` again states them."
        )
    if rows["chip_tokens_per_s"].is_null().all():
        found.append("A chip's rate is not known: the number of devices per chip is not recorded.")
    if known["subject"].n_unique() > MAX_SCALING_WORKLOADS:
        count = known["subject"].n_unique()
        found.append(
            f"The first {MAX_SCALING_WORKLOADS} of {plural(count, 'workload')}; the CSV has all."
        )
    if not known.is_empty() and known["runs"].min() == 1:
        found.append("Some sizes have one run, so their spread over runs is not known.")
    return found


PANEL: Panel[Sequence[PageFacts]] = Panel(
    key="scaling",
    title="Speed-up and efficiency",
    lede="One mesh axis grows and all other settings stay the same, the batch too (strong scaling). "
    "Speed-up: output tokens/s relative to the smallest of two sizes or more with a known rate. "
    "Efficiency: speed-up over the growth in devices. Rates are medians over the runs "
    "of a size. m4: 4 microbatches; a run without a pipeline is size 1 for each number "
    "of microbatches.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=lambda runs: "No runs of a known model differ in the size of one mesh axis alone.",
    notes=notes,
)
