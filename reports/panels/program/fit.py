"""What the compiled programs of a run need of a device's memory, by what it is for."""

from __future__ import annotations

import altair as alt
import polars as pl

from xlahouse.reports.charts.bars import amount, stacked_bars
from xlahouse.reports.charts.columns import PHASE_COLUMN, bytes_column, ratio_column, text_column
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.palette import KIND_COLOURS, UNKNOWN_COLOUR
from xlahouse.reports.charts.panel import Figure, Panel
from xlahouse.reports.charts.units import BYTES, plural, show_bytes, show_ratio, suit

# Column of the view -> name, in the order of the bars.
PARTS = {
    "weight_bytes": "weights",
    "cache_bytes": "KV cache",
    "temporary_bytes": "temporary values",
    "code_bytes": "program code",
    "other_bytes": "inputs, results, constants",
}
COLOURS = dict(
    zip(
        PARTS.values(),
        (
            KIND_COLOURS["all-reduce"],
            KIND_COLOURS["all-gather"],
            KIND_COLOURS["reduce-scatter"],
            KIND_COLOURS["all-to-all"],
            UNKNOWN_COLOUR,
        ),
        strict=True,
    )
)

SQL = """
select
    phase,
    weight_bytes,
    cache_bytes,
    temporary_bytes,
    code_bytes,
    input_bytes + output_bytes + constant_bytes as other_bytes,
    needed_bytes,
    device_bytes,
    used_ratio,
    fits,
    case when fits then 'yes' when not fits then 'no' else 'not known' end as verdict
from program_fit_v1
where run_id = $run
order by phase desc
"""

COLUMNS = (
    PHASE_COLUMN,
    bytes_column("weight_bytes", "Weights"),
    bytes_column("cache_bytes", "KV cache"),
    bytes_column("temporary_bytes", "Temporary values"),
    bytes_column("code_bytes", "Program code"),
    bytes_column("other_bytes", "Inputs, results, constants"),
    bytes_column("needed_bytes", "All of these"),
    bytes_column("device_bytes", "HBM of a device"),
    ratio_column("used_ratio", "Share"),
    text_column("verdict", "Fits"),
)


def figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """A bar for each program, by what its memory is for."""
    unit = suit(rows["needed_bytes"], BYTES)
    long = rows.unpivot(list(PARTS), index=["phase"], variable_name="part", value_name="bytes")
    data = long.drop_nulls("bytes").with_columns(
        pl.col("part").replace_strict(PARTS, return_dtype=pl.String),
        (pl.col("bytes") / unit.factor).alias("amount"),
    )
    chart = stacked_bars(
        data,
        alt.Y("phase:N", title=None, sort=None),
        amount("amount", f"HBM of a device ({unit.symbol})"),
        "part",
        COLOURS,
        [
            alt.Tooltip("phase:N", title="program"),
            alt.Tooltip("part:N", title="for"),
            alt.Tooltip("bytes:Q", title="bytes", format=","),
        ],
        "Memory of a device, by use",
    )
    return [Figure("Memory of a device, by use", chart, shape="wide")]


def coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """How many programs are shown."""
    return f"{plural(len(rows), 'program')} by the compiler's own assignment."


def notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Whether the programs fit, and what both of them share."""
    largest = rows.sort("needed_bytes", descending=True).row(0, named=True)
    shared = "Both programs share weights and cache."
    if largest["fits"] is None:
        return ["Whether it fits is not known: the table of chips lacks this kind.", shared]
    needs = (
        f"The {largest['phase']} needs {show_bytes(largest['needed_bytes'])} of the "
        f"{show_bytes(largest['device_bytes'])} of a device, {show_ratio(largest['used_ratio'])}"
    )
    if largest["fits"]:
        return [f"{needs}: it fits.", shared]
    return [f"{needs}: it does not fit. Lower the batch, or take a larger slice.", shared]


def why_empty(facts: PageFacts) -> str:
    """Only a compiled run's arguments are known by what they are for."""
    if facts.compiled:
        return "The compiler's assignment of memory is not in the programs; compile again."
    return (
        "The programs of a trace do not state the use of their arguments; "
        "`xlahouse compile` of the same plan does."
    )


PANEL: Panel[PageFacts] = Panel(
    key="fit",
    title="Memory of a device",
    lede="What a compiled program needs of a device's HBM: weights, KV cache, temporary values by the "
    "compiler's assignment, and the program's code.",
    sql=SQL,
    columns=COLUMNS,
    figures=figures,
    coverage=coverage,
    why_empty=why_empty,
    notes=notes,
)
