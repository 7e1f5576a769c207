"""Which devices come late, and how evenly the work lies on them."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import amount, bars_height, percent
from xlahouse.reports.charts.columns import (
    DEVICE_COLUMN,
    PHASE_COLUMN,
    count_column,
    ps_column,
    ratio_column,
    text_column,
)
from xlahouse.reports.charts.devices import FEW_DEVICES, device_axis
from xlahouse.reports.charts.facts import PageFacts, why_no_rows
from xlahouse.reports.charts.palette import LOAD_COLOURS, SERIES_COLOUR, present_colours
from xlahouse.reports.charts.panel import Figure, Panel, inline
from xlahouse.reports.charts.phases import MEASURED, PHASE, phase_order
from xlahouse.reports.charts.sums import total
from xlahouse.reports.charts.theme import BAR_STEP, colour, finish, rows_height
from xlahouse.reports.charts.units import (
    PICOSECONDS,
    plural,
    suit,
)

STRAGGLER_SQL = """
select
    device_id,
    host,
    instances,
    last_count,
    last_ratio,
    mean_lag_ps,
    max_lag_ps,
    mean_wait_ps
from straggler_v2
where run_id = $run
order by last_ratio desc nulls last, device_id
"""

STRAGGLER_COLUMNS = (
    DEVICE_COLUMN,
    text_column("host", "Host"),
    count_column("instances", "Shared collectives"),
    count_column("last_count", "Entered last"),
    ratio_column("last_ratio", "Share last"),
    ps_column("mean_lag_ps", "Mean lag"),
    ps_column("max_lag_ps", "Longest lag"),
    ps_column("mean_wait_ps", "Mean wait"),
)

# The median of an even number is the mean of two, percentile p the value of row ceil(p n), as in the views.
BALANCE_SQL = f"""
with steps as (
    select {PHASE} as phase, 'busy time' as measure, imbalance_ratio as ratio, devices
    from load_balance_v1
    where run_id = $run and {MEASURED}
    union all
    select {PHASE}, 'compute time', compute_imbalance_ratio, devices
    from load_balance_v1
    where run_id = $run and {MEASURED}
)
select
    phase,
    measure,
    count(*) as steps,
    count(ratio) as measured,
    max(devices) as devices,
    median(ratio) as p50_ratio,
    quantile_disc(ratio, 0.95) as p95_ratio,
    max(ratio) as max_ratio
from steps
group by phase, measure
order by {phase_order()}, measure
"""

BALANCE_COLUMNS = (
    PHASE_COLUMN,
    text_column("measure", "Of"),
    count_column("devices", "Devices"),
    count_column("measured", "Steps"),
    ratio_column("p50_ratio", "p50"),
    ratio_column("p95_ratio", "p95"),
    ratio_column("max_ratio", "Most"),
)


def last_chart(rows: pl.DataFrame) -> alt.Chart:
    """Share of its collectives that each device enters last."""
    return _device_bars(
        rows,
        percent("last_ratio", "Share of collectives entered last (%)"),
        "Devices that arrive last",
    )


def lag_chart(rows: pl.DataFrame) -> alt.Chart:
    """Mean time that each device arrives after the first of its group."""
    unit = suit(rows["mean_lag_ps"], PICOSECONDS)
    data = rows.with_columns((pl.col("mean_lag_ps") / unit.factor).alias("amount"))
    x = amount("amount", f"Mean lag behind the first to arrive ({unit.symbol})")
    return _device_bars(data, x, "Mean lag of each device")


def straggler_figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """Share and lag where they are known; no chart where no device is ever late."""
    known = rows.drop_nulls("last_ratio")
    if known.is_empty() or _all_together(known):
        return []
    note = ""
    drawn = known
    if len(known) > FEW_DEVICES:
        late = known.filter((pl.col("last_ratio") > 0) | (pl.col("max_lag_ps") > 0))
        drawn = late.head(FEW_DEVICES)
        whole = plural(len(known), "device")
        note = f"The {len(drawn)} of {whole} that arrive last most often."
        if len(late) <= FEW_DEVICES:
            note = f"The {len(late)} of {whole} that ever arrive late."
        groups = {device: f"device {device}, {group}" for device, group in facts.groups().items()}
        name = pl.col("device_id").replace_strict(groups, default=None, return_dtype=pl.String)
        other = pl.format("device {}", "device_id")
        drawn = drawn.with_columns(pl.coalesce(name, other).alias("shown"))
    else:
        drawn = drawn.sort("device_id")
    return [
        Figure("How often a device arrives last", last_chart(drawn), note),
        Figure("How late a device arrives", lag_chart(drawn), note),
    ]


def straggler_coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many devices are compared, over how many instances."""
    known = len(rows.drop_nulls("last_ratio"))
    entries = plural(total(rows, "instances"), "arrival")
    return f"{known:,} of {plural(len(rows), 'device')}, {entries}."


def straggler_notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Why lags are not known."""
    if not rows["last_ratio"].has_nulls():
        together = "Not drawn: in every collective all devices arrived at the same instant."
        return [together] if _all_together(rows) else []
    if facts.inferred:
        return [
            "Which device arrives last is not known: the identities of virtual devices were "
            "deduced, and their times are not an accelerator's."
        ]
    if not total(rows, "instances"):
        return [
            "Which device arrives last is not known: the trace has no collective with "
            "arrivals of several devices that can be compared."
        ]
    return [
        "The lag of some devices is not known: they share no collective with another traced device."
    ]


def _all_together(known: pl.DataFrame) -> bool:
    return not (known["last_ratio"].sum() or known["max_lag_ps"].sum())


def no_stragglers(facts: PageFacts) -> str:
    """Why no device is compared."""
    return "The trace has no device events, so late devices are not known."


def balance_chart(rows: pl.DataFrame) -> alt.Chart:
    """Busiest device over the mean, less 1: median, and a line to the 95th percentile."""
    shown = present_colours(LOAD_COLOURS, rows["measure"])
    base = alt.Chart(inline(rows)).encode(
        y=alt.Y("phase:N", title=None, sort=None),
        yOffset=alt.YOffset("measure:N", sort=list(shown)),
        color=colour("measure", shown, column_width=140),
        tooltip=[
            alt.Tooltip("phase:N", title="phase"),
            alt.Tooltip("measure:N", title="of"),
            alt.Tooltip("p50_ratio:Q", title="p50", format=".3%"),
            alt.Tooltip("p95_ratio:Q", title="p95", format=".3%"),
            alt.Tooltip("max_ratio:Q", title="most", format=".3%"),
            alt.Tooltip("measured:Q", title="steps", format=","),
        ],
    )
    line = base.mark_rule(strokeWidth=2).encode(
        x=percent("p50_ratio", "Busiest device above the mean (%)"), x2="p95_ratio"
    )
    point = base.mark_point(filled=True, size=80, opacity=1).encode(
        x=percent("p50_ratio", "Busiest device above the mean (%)")
    )
    height = rows_height(rows["phase"].n_unique(), 2 * BAR_STEP)
    return finish(alt.layer(line, point), "How far the busiest device is above the mean", height)


def balance_figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """One chart over phases, where several devices share the work."""
    known = rows.filter((pl.col("devices") > 1) & pl.col("p50_ratio").is_not_null())
    if known.is_empty() or facts.inferred:
        return []
    note = "Point: median over steps; line: to the 95th percentile. 0 % is an even load."
    return [Figure("Load of the busiest device", balance_chart(known), note, shape="wide")]


def balance_coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many steps are measured."""
    part = rows.filter(pl.col("measure") == "busy time")
    measured = f"{total(part, 'measured'):,} of {plural(total(part, 'steps'), 'step')}"
    return f"{measured} outside warm-up."


def balance_notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Why there is no chart, and what busy time hides."""
    if facts.inferred:
        return [
            "Not drawn: virtual devices share the cores of one machine, so their load shows "
            "the machine's scheduling."
        ]
    if rows["devices"].max() == 1:
        return ["Not drawn: one device was traced, so there is no other device to compare with."]
    return [
        "Busy time includes waiting for a slower device within a collective, which hides an "
        "uneven load; compute time does not."
    ]


no_balance = why_no_rows(
    "the load of devices is not known",
    "No step outside warm-up has an op, so there is no load to compare.",
)


def _device_bars(rows: pl.DataFrame, x: alt.X, title: str) -> alt.Chart:
    chart = (
        alt.Chart(inline(rows))
        .mark_bar(cornerRadius=1, color=SERIES_COLOUR)
        .encode(
            y=device_axis(rows),
            x=x,
            tooltip=[
                alt.Tooltip("device_id:O", title="device"),
                alt.Tooltip("last_ratio:Q", title="entered last", format=".3%"),
                alt.Tooltip("instances:Q", title="of collectives", format=","),
                alt.Tooltip("mean_lag_ps:Q", title="mean lag, ps", format=",.0f"),
                alt.Tooltip("max_lag_ps:Q", title="longest lag, ps", format=","),
            ],
        )
    )
    return finish(chart, title, bars_height(len(rows)))


STRAGGLERS: Panel[PageFacts] = Panel(
    key="stragglers",
    title="Stragglers",
    lede="How often a device arrives last at a collective, and how long after the first "
    "device; over collectives with several traced devices.",
    sql=STRAGGLER_SQL,
    columns=STRAGGLER_COLUMNS,
    figures=straggler_figures,
    coverage=straggler_coverage,
    why_empty=no_stragglers,
    notes=straggler_notes,
)
BALANCE: Panel[PageFacts] = Panel(
    key="balance",
    title="Load balance",
    lede="How much longer than the mean device the busiest device works in a step.",
    sql=BALANCE_SQL,
    columns=BALANCE_COLUMNS,
    figures=balance_figures,
    coverage=balance_coverage,
    why_empty=no_balance,
    notes=balance_notes,
)
