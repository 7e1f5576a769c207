"""Transitions from one axis to another as lines: their names, colours and dashes."""

from __future__ import annotations

import polars as pl

from xlahouse.reports.charts.distribution import DASHES, Look
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.palette import axis_colours

# The most frequent transitions; more lines are unreadable.
MAX_TRANSITIONS = 12
Transition = tuple[str, str]  # axis before, axis after


def transition_looks(rows: pl.DataFrame) -> dict[Transition, Look]:
    """(from, to) of the most frequent transitions -> the colour of `to` and a dash for `from`.

    Args:
        rows: from_axis, to_axis, total (windows of the transition, repeated on its rows).
    """
    axes = {*rows["from_axis"], *rows["to_axis"]}
    colours = axis_colours(axes)
    place = {axis: number for number, axis in enumerate(colours)}
    sums = rows.group_by("from_axis", "to_axis").agg(pl.col("total").max())
    pairs = sums.sort("total", "from_axis", "to_axis", descending=[True, False, False])
    kept = pairs.head(MAX_TRANSITIONS).select("from_axis", "to_axis").rows()
    ordered = sorted(kept, key=lambda pair: (place[pair[1]], place[pair[0]]))
    looks: dict[Transition, Look] = {}
    for before, after in ordered:
        # Each has a dash of its own: lines that coincide show both colours.
        looks[before, after] = (colours[after], DASHES[len(looks) % len(DASHES)])
    return looks


def transition_notes(rows: pl.DataFrame, facts: PageFacts) -> list[str]:
    """Transitions that are not drawn."""
    found = []
    left_out = rows.select("from_axis", "to_axis").n_unique() - MAX_TRANSITIONS
    if left_out > 0:
        found.append(
            f"Drawn: the {MAX_TRANSITIONS} transitions with the most windows; the table has "
            f"{left_out:,} more."
        )
    return found


def arrow(before: str, after: str) -> str:
    """`tp → pp`."""
    return f"{before} → {after}"


def named(rows: pl.DataFrame, names: dict[Transition, str]) -> pl.DataFrame:
    """Rows of the transitions in `names`, with their name as `series`."""
    table = pl.DataFrame(
        [(*pair, name) for pair, name in names.items()],
        schema=["from_axis", "to_axis", "series"],
        orient="row",
    )
    return rows.join(table, on=["from_axis", "to_axis"], maintain_order="left")
