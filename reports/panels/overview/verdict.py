"""Where the time of a mean step and of a mean prefill goes: one bar each, whose parts add up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import altair as alt
import polars as pl

from xlahouse.capture.words import NO_OPS
from xlahouse.reports.charts.bars import amount, stacked_bars
from xlahouse.reports.charts.columns import (
    count_column,
    dashed_column,
    ps_column,
    ratio_column,
    text_column,
)
from xlahouse.reports.charts.palette import (
    CAUSE_COLOURS,
    CIRCUIT_COLOUR,
    RESERVE_COLOURS,
    TIME_COLOURS,
)
from xlahouse.reports.charts.panel import Figure, Panel
from xlahouse.reports.charts.units import PICOSECONDS, plural, show_ps, show_ratio, suit

if TYPE_CHECKING:
    from xlahouse.sql.answers.split import Part, Split
    from xlahouse.sql.answers.summary import Summary

# Exposed communication has one hue, and a shade an axis, the largest first.
EXPOSED_SHADES = (TIME_COLOURS["exposed communication"], "#a8480c", "#ec9c55", "#843a0c", "#c98a5e")
CIRCUIT_WAIT = "circuit wait"
PART_NAMES = {
    "host": "host, until the first op",
    "compute": "compute",
    "exposed": "exposed communication",
    "unsplit": "compute and communication, not divided",
    "exposed_copy": "exposed copy",
    "sync_wait": "sync wait",
    "circuits": CIRCUIT_WAIT,
    "idle": NO_OPS["idle"],
    "between_steps": NO_OPS["between"],
    "outside": NO_OPS["outside"],
}
_COLOURS = {
    "host": CAUSE_COLOURS["between steps"],
    "compute": TIME_COLOURS["compute"],
    "unsplit": "#3fa9dd",
    "exposed_copy": TIME_COLOURS["exposed copy"],
    "sync_wait": TIME_COLOURS["sync wait"],
    "circuits": CIRCUIT_COLOUR,
    "idle": TIME_COLOURS["idle"],
    "between_steps": CAUSE_COLOURS["between steps"],
    "outside": RESERVE_COLOURS[4],
}
_OVER = {"step": "device step", "device": "device"}
COLUMNS = (
    text_column("bar", "Bar"),
    text_column("part", "Part"),
    dashed_column("axis", "Axis"),
    ps_column("mean_ps", "Mean"),
    ratio_column("share", "Share"),
    ps_column("time_ps", "Time, all devices"),
    count_column("device_steps", "Device steps"),
)


def verdict_panel(sql: str) -> Panel[Summary]:
    """The panel of a summary's splits.

    Args:
        sql: the queries behind them.
    """
    return Panel(
        key="verdict",
        title="Where the time goes",
        lede="Each instant of a device counts once: a compute op runs, else a collective is in flight "
        "(exposed communication), else a copy runs (exposed copy), else the device waits in a barrier "
        "(sync wait), else nothing runs. The parts of a bar add up to its length.",
        sql=sql,
        columns=COLUMNS,
        figures=figures,
        coverage=lambda rows, summary: f"{summary.coverage}.",
        why_empty=lambda summary: f"Not known: {summary.why_no_split}.",
        notes=notes,
    )


def split_rows(summary: Summary) -> pl.DataFrame:
    """One row a bar and part: bar, part, axis, mean_ps, share, time_ps, device_steps."""
    rows = [
        {
            "bar": _bar(split),
            "part": PART_NAMES[part.name],
            "axis": part.axis,
            "mean_ps": part.mean_ps,
            "share": part.share,
            "time_ps": part.time_ps,
            "device_steps": split.device_steps,
        }
        for split in (summary.split, summary.prefill)
        if split is not None
        for part in split.parts
    ]
    schema = {"bar": pl.String, "part": pl.String, "axis": pl.String, "mean_ps": pl.Float64}
    schema |= {"share": pl.Float64, "time_ps": pl.Int64, "device_steps": pl.Int64}
    return pl.DataFrame(rows, schema=schema)


def _bar(split: Split) -> str:
    if split.whole == "marker":
        return "prefill from its marker"
    if split.phase is None:
        return "time in the trace"
    if split.per == "device":
        return f"time in {split.programs} programs"
    return f"{'step' if split.phase == 'step' else f'{split.phase} step'}'s {split.whole}"


def figures(rows: pl.DataFrame, summary: Summary) -> list[Figure]:
    """A bar of the steps, and one of prefills where their markers are known."""
    return [
        Figure(f"Mean {_bar(split)}", split_chart(split), _over(split))
        for split in (summary.split, summary.prefill)
        if split is not None
    ]


def _over(split: Split) -> str:
    over = f"{show_ps(split.mean_ps)}, mean over {plural(split.count, _OVER[split.per])}"
    if split.phase is None:
        return f"{over}: from the first op to the last."
    if split.per == "device":
        since = " and the time since the one before" if split.whole == "period" else ""
        return f"{over}: each execution{since}, {split.device_steps:,} in all."
    if split.whole == "marker":
        return f"{over}: from the marker on the host to the device's last op of the prefill."
    if split.whole == "period":
        return f"{over}: the step, and the time since the device's previous step."
    return f"{over}: from the step's first op to its last."


def split_chart(split: Split) -> alt.Chart:
    """One stacked bar; the legend has each part's share and time."""
    unit = suit([split.mean_ps], PICOSECONDS)
    shown = [part for part in split.parts if part.time_ps]
    labels = [
        f"{_label(part)}: {show_ratio(part.share)}, {show_ps(part.mean_ps)}" for part in shown
    ]
    rows = pl.DataFrame(
        {
            "bar": [_bar(split)] * len(shown),
            "part": labels,
            "amount": [part.mean_ps / unit.factor for part in shown],
            "share": [part.share for part in shown],
            "mean_ps": [part.mean_ps for part in shown],
        }
    )
    title = f"Mean {_bar(split)} of a device"
    return stacked_bars(
        rows,
        alt.Y("bar:N", title=None, axis=None),
        amount("amount", f"{title} ({unit.symbol})"),
        "part",
        dict(zip(labels, _colours(shown), strict=True)),
        [
            alt.Tooltip("part:N", title="part"),
            alt.Tooltip("share:Q", title="share", format=".2%"),
            alt.Tooltip("mean_ps:Q", title="mean, ps", format=",.0f"),
        ],
        title,
    )


def _label(part: Part) -> str:
    if part.name != "exposed":
        return PART_NAMES[part.name]
    unknown = part.axis in (None, "unclassified")
    # As short as fits a legend with its share and time.
    return "exposed, axis not known" if unknown else f"exposed comm., {part.axis}"


def _colours(parts: list[Part]) -> list[str]:
    shades = iter(EXPOSED_SHADES)
    return [
        next(shades, EXPOSED_SHADES[-1]) if part.name == "exposed" else _COLOURS[part.name]
        for part in parts
    ]


def notes(rows: pl.DataFrame, summary: Summary) -> list[str]:
    """What the bars do not say, and why there is no bar of a prefill."""
    found = [f"{note[:1].upper()}{note[1:]}." for note in summary.notes]
    if summary.prefill is None and summary.why_no_prefill:
        found.append(f"A prefill from its marker is not known: {summary.why_no_prefill}.")
    return found
