"""The devices of a chart with a bar for each: all of a few; of many, those that stand for the rest."""

from __future__ import annotations

from collections.abc import Callable

import altair as alt
import polars as pl

from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.units import plural

# More bars are unreadable; the table and the SQL have every device.
FEW_DEVICES = 16
WORST_DEVICES = 3
MAX_GROUPS = 24


def chosen_devices(
    rows: pl.DataFrame, facts: PageFacts, measure: pl.Expr, show: Callable[[float | None], str]
) -> tuple[pl.DataFrame, str]:
    """Rows of all devices if they are few, and, after a space, a sentence on the devices left out.

    Of many: the worst three devices, then of each stage (without a pipeline: host) the device of median
    measure. They have a column `shown` with their names and, of a group, its least and most; the rows are
    in the order of the bars.

    Args:
        rows: several a device, of one phase.
        facts: of the run, with its stages and hosts.
        measure: what a device is judged by, over its rows; more is worse.
        show: the measure as text.
    """
    totals = rows.group_by("device_id").agg(measure.alias("whole")).drop_nulls("whole")
    if rows["device_id"].n_unique() <= FEW_DEVICES or totals.is_empty():
        return rows, ""
    groups = facts.groups()
    named = pl.col("device_id").replace_strict(
        groups, default="all devices", return_dtype=pl.String
    )
    ranked = totals.with_columns(named.alias("group")).sort("whole", "device_id")
    worst = ranked.reverse().head(WORST_DEVICES)
    names = {
        row["device_id"]: f"device {row['device_id']}, {row['group']}" for row in worst.to_dicts()
    }
    middles = _middles(ranked)
    for row in middles.to_dicts():
        ends = dict.fromkeys((show(row["least"]), show(row["most"])))
        span = " to ".join(ends)  # one, where the ends look alike
        name = f"{row['group']}: {span}"
        names[row["device_id"]] = (
            f"{names[row['device_id']]}; {name}" if row["device_id"] in names else name
        )
    order = {device: place for place, device in enumerate(names)}
    kept = rows.filter(pl.col("device_id").is_in(list(names))).with_columns(
        pl.col("device_id").replace_strict(names, return_dtype=pl.String).alias("shown")
    )
    left_out = ranked["group"].n_unique() - len(middles)
    note = (
        f" The {WORST_DEVICES} worst of {plural(len(totals), 'device')}; below them each group's median "
        "device, beside the group's range"
    )
    note += f" ({left_out:,} groups with less are left out)." if left_out > 0 else "."
    place = pl.col("device_id").replace_strict(order, return_dtype=pl.Int64)
    return kept.sort(place, maintain_order=True), note


def _middles(ranked: pl.DataFrame) -> pl.DataFrame:
    """Of each group its device of median measure (of two, the lesser), and its least and most.

    Args:
        ranked: device_id, group, whole; by whole.
    """
    whole = ranked.group_by("group").agg(
        pl.col("device_id").get((pl.len() - 1) // 2),
        pl.col("whole").get((pl.len() - 1) // 2).alias("middle"),
        pl.col("whole").min().alias("least"),
        pl.col("whole").max().alias("most"),
        pl.col("device_id").min().alias("first"),
    )
    kept = whole.sort("middle", "first", descending=[True, False]).head(MAX_GROUPS)
    return kept.sort("first")


def device_axis(rows: pl.DataFrame) -> alt.Y:
    """The channel of devices, named as chosen_devices does."""
    if "shown" not in rows.columns:
        return alt.Y("device_id:O", title="Device")
    order = rows["shown"].unique(maintain_order=True).to_list()
    return alt.Y("shown:N", title=None, sort=order)


def device_keys(rows: pl.DataFrame) -> list[str]:
    """The columns that name a device."""
    return [name for name in ("device_id", "shown") if name in rows.columns]
