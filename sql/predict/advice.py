"""Replays a run with one lever after the other, and ranks them by the time that each would win."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.replay.step_times import step_times
from xlahouse.ingest.schema import BY_NAME
from xlahouse.sql.predict.changes import EVERY_AXIS, Change, Rate
from xlahouse.sql.predict.comparing import phase_means, whole_ps
from xlahouse.sql.predict.costs import Facts, costs_of
from xlahouse.sql.predict.loading import Parent

NEXT_CHIP = {"v2": "v3", "v3": "v4", "v4": "v5p", "v5e": "v6e", "v5p": "7x", "v6e": "7x"}
_MEASURED = "the run's own times"
_SOURCES = {
    "fitted": "fitted transfers",
    "fitted_to_other_groups": "transfers fitted in groups of other sizes",
    "peaks": "peaks of the links",
    "unknown": _MEASURED,
}
_NO_AXIS = ("none", "mixed", "unclassified")


class Lever(NamedTuple):
    """One thing to change."""

    name: str  # as in the table advice
    change: Change  # that it is replayed with


def levers(facts: Facts) -> list[Lever]:
    """The levers of a run, in the order in which equal ones are ranked."""
    axes = facts.transfers["axis"].drop_nulls().unique().sort().to_list()
    found = [Lever("no exposed communication", Change(no_exposed=EVERY_AXIS))] if axes else []
    found += [
        Lever(f"no exposed communication on axis {axis}", Change(no_exposed=axis))
        for axis in axes
        if axis not in _NO_AXIS
    ]
    found += [
        Lever("no skew", Change(no_skew=True)),
        Lever("no host gaps", Change(host=0.0)),
        Lever("no masked work", Change(no_masked=True)),
        Lever("perfect overlap", Change(perfect_overlap=True)),
        Lever("twice the ICI bandwidth", Change(ici=Rate(times=2.0))),
        Lever("HBM at its peak", Change(hbm_at_peak=True)),
    ]
    following = NEXT_CHIP.get(facts.chip_name or "")
    if following:
        found.append(Lever(f"next chip ({following})", Change(chip=following)))
    return found


@dataclass(frozen=True)
class Advice:
    """Rows of the table advice, without run_id, the best lever first."""

    rows: pl.DataFrame  # one a lever


def advise(parent: Parent) -> Advice:
    """Replay every lever of a run."""
    facts = Facts(parent)
    measured = step_times(parent.schedule)
    rows = pl.concat([_of_lever(facts, lever, measured) for lever in levers(facts)])
    won = rows.with_columns(total=pl.col("won_ps") * pl.col("steps")).group_by(
        "lever", maintain_order=True
    )
    order = won.agg(pl.col("total").sum(), pl.col("reason").first()).sort(
        "reason",
        pl.col("total"),
        descending=[False, True],
        nulls_last=[False, True],
        maintain_order=True,
    )
    known = order.filter(pl.col("reason").is_null()).with_row_index("rank", offset=1)
    ranked = rows.drop("rank").join(
        known.select("lever", pl.col("rank").cast(pl.Int64)), on="lever", how="left"
    )
    columns = [name for name in BY_NAME["advice"].schema.names if name != "run_id"]
    return Advice(ranked.select(columns).sort("rank", "lever", "phase", nulls_last=True))


def _of_lever(facts: Facts, lever: Lever, measured: pl.DataFrame) -> pl.DataFrame:
    """The rows of a lever, one a phase."""
    schedule = facts.parent.schedule
    reason = None
    replayed = measured.with_columns(period_ps=pl.lit(None, pl.Int64))
    rests_on = None
    try:
        costs, used = costs_of(facts, lever.change)
    except WarehouseError as error:
        reason = str(error).removeprefix(f"{facts.parent.row['name']}: ")
    else:
        replayed = step_times(schedule, schedule.replay(costs))
        rests_on = _rests_on(lever, used)
    rows = whole_ps(phase_means(measured, replayed))
    won = pl.col("step_ps") - pl.col("replayed_step_ps")
    return rows.with_columns(
        lever=pl.lit(lever.name),
        rank=pl.lit(None, pl.Int64),
        won_ps=won,
        won_ratio=won / pl.col("step_ps").replace(0, None),
        rests_on=pl.lit(rests_on, pl.String),
        reason=pl.lit(reason, pl.String),
    )


def _rests_on(lever: Lever, used: pl.DataFrame) -> str:
    """What the changed times of a lever rest on."""
    if lever.change.chip is not None or lever.change.hbm_at_peak:
        return "peaks of the chips"
    sources = sorted(set(used["source"].to_list())) if used.height else []
    return ", ".join(_SOURCES[source] for source in sources) or _MEASURED
