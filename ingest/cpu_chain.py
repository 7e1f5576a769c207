"""Which execution, and which of its devices, an event of a CPU run belongs to.

Ops of virtual devices sit on pool threads that hop between devices. Where an op ran follows from the
causal chain that the thread pool records: a closure is announced by `ThreadpoolListener::Record` (stat
`_p`) on the thread that schedules it, and runs between `StartRegion` (stat `_c`, the same number) and
`StopRegion` on another. `Execute` schedules one `ExecuteHelper` a device, in device order; the helper
schedules the device's program, and everything that this schedules descends from it. With one device the
helper runs inline.

A program whose inputs are not ready is scheduled later, by whichever thread makes the last input ready.
Such a late start leads back to an earlier execution: it is given to the earliest execution that lacks
one, on the device it descends from where that is free, and otherwise on one that is left (ambiguous).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import polars as pl

RECORD, START, STOP = (
    f"ThreadpoolListener::{name}" for name in ("Record", "StartRegion", "StopRegion")
)
EXECUTE = r"^\w*(?:PjRt|Tfrt)\w*::Execute$"
EXECUTE_HELPER = r"^\w*(?:PjRt|Tfrt)\w*::ExecuteHelper$"
# A program's first closure waits here for the rest; nested executors leave no such event.
PROGRAM_WAIT = "ThunkExecutor::Execute (wait for completion)"
SLOT = ("execution", "ordinal")


@dataclass(frozen=True)
class Placement:
    """Events with `execution` (event number of the Execute), `ordinal` (place of the device in its
    device order) and `enqueue_ps`, all NULL where unknown; and how many late starts were ambiguous."""

    events: pl.DataFrame
    ambiguous: int


def place_events(events: pl.DataFrame) -> Placement:
    """Place the events of a host plane.

    Args:
        events: event, line, name, start_ps, duration_ps, _p, _c, op, program_id of one host plane.
    """
    executes = events.filter(pl.col("name").str.contains(EXECUTE))
    helpers = events.filter(pl.col("name").str.contains(EXECUTE_HELPER))
    events = _with_region(events)
    events = _with_enclosing(_with_enclosing(events, executes, "execute"), helpers, "helper")
    regions = _regions(events)
    helper_slots = _helper_slots(events, regions)
    region_slots, ambiguous = _region_slots(events, regions, helper_slots)
    placed = (
        events.join(helper_slots, on="helper", how="left", maintain_order="left")
        .join(region_slots, on="region", how="left", maintain_order="left", suffix="_of_region")
        .with_columns(pl.coalesce(name, f"{name}_of_region") for name in SLOT)
        .join(_enqueues(events, regions), on="execution", how="left", maintain_order="left")
    )
    extra = ["execute", "helper", "region", *(f"{name}_of_region" for name in SLOT)]
    return Placement(placed.drop(extra), ambiguous)


def _with_region(events: pl.DataFrame) -> pl.DataFrame:
    """Add `region`: event number of the StartRegion that is open on the event's line, else NULL."""
    marks = events.filter(pl.col("name").is_in([START, STOP])).sort("start_ps", "event")
    opened = pl.when(pl.col("name") == START).then("event").alias("region")
    return events.sort("start_ps", "event").join_asof(
        marks.select("line", "start_ps", opened),
        on="start_ps",
        by="line",
        check_sortedness=False,
    )


def _with_enclosing(events: pl.DataFrame, spans: pl.DataFrame, name: str) -> pl.DataFrame:
    """Add a column: event number of the latest span on the event's line that is open at its start."""
    end = pl.col("start_ps") + pl.col("duration_ps")
    opened = spans.sort("start_ps").select(
        "line", "start_ps", pl.col("event").alias(name), until=end
    )
    joined = events.join_asof(opened, on="start_ps", by="line", check_sortedness=False)
    still_open = pl.col("until") >= pl.col("start_ps")
    return joined.with_columns(pl.when(still_open).then(name).alias(name)).drop("until")


def _regions(events: pl.DataFrame) -> pl.DataFrame:
    """A row a region: region, start_ps, and of the Record that announced it: record_ps, and the
    execute, helper and region (`parent`) that the Record stands in."""
    records = events.filter(pl.col("name") == RECORD).drop_nulls("_p").unique("_p", keep="last")
    return (
        events.filter(pl.col("name") == START)
        .select("start_ps", "_c", region="event")
        .join(
            records.select("_p", "execute", "helper", record_ps="start_ps", parent="region"),
            left_on="_c",
            right_on="_p",
            how="left",
        )
        .sort("start_ps", "region")
    )


def _helper_slots(events: pl.DataFrame, regions: pl.DataFrame) -> pl.DataFrame:
    """helper, execution, ordinal: inline in its Execute, or by the order of the Execute's Records."""
    helpers = events.filter(pl.col("event") == pl.col("helper"))
    inline = helpers.filter(pl.col("execute").is_not_null()).select(
        "helper", execution="execute", ordinal=pl.lit(0, pl.Int64)
    )
    scheduled = (
        helpers.filter(pl.col("execute").is_null())
        .select("helper", "region")
        .join(regions.drop("helper"), on="region")
        .drop_nulls("execute")
        .select(
            "helper",
            execution="execute",
            ordinal=pl.col("record_ps").rank("ordinal").over("execute").cast(pl.Int64) - 1,
        )
    )
    return pl.concat([inline, scheduled]).unique("helper")


def _region_slots(
    events: pl.DataFrame, regions: pl.DataFrame, helper_slots: pl.DataFrame
) -> tuple[pl.DataFrame, int]:
    """region, execution, ordinal of every region that descends from a program's start."""
    starts = _program_starts(events)
    regions = regions.join(
        helper_slots, on="helper", how="left", maintain_order="left"
    ).with_columns(late=pl.col("region").is_in(starts.implode()) & pl.col("execution").is_null())
    anchored = (regions["execution"].is_not_null() | regions["late"]).to_numpy()
    parents = _rows_of(regions["parent"], regions["region"])
    owner = _owners(parents, anchored)
    execution = regions["execution"].fill_null(-1).to_numpy().astype(np.int64)
    ordinal = regions["ordinal"].fill_null(-1).to_numpy().astype(np.int64)
    ambiguous = 0
    missing = _missing_slots(helper_slots, regions, events)
    late = iter(np.flatnonzero(regions["late"].to_numpy()).tolist())
    for number, free in missing:
        rows = [row for _, row in zip(free, late, strict=False)]
        inherited = {row: int(ordinal[owner[parents[row]]]) for row in rows if parents[row] >= 0}
        ambiguous += _assign(rows, inherited, free, ordinal)
        execution[rows] = number
    known = owner >= 0
    slots = pl.DataFrame(
        {
            "region": regions["region"],
            "execution": np.where(known, execution[owner], -1),
            "ordinal": np.where(known, ordinal[owner], -1),
        }
    ).filter(pl.col("execution") >= 0)
    return slots.with_columns(pl.col("execution").cast(events.schema["event"])), ambiguous


def _program_starts(events: pl.DataFrame) -> pl.Series:
    """Regions that start a program on a device.

    The executor leaves an event where it has to wait for the program. Where it had not to, there are
    fewer of those than programs started; then regions that run the op that most programs of their
    kind start with count as well.
    """
    waits = events.filter(pl.col("name") == PROGRAM_WAIT).select("region").drop_nulls().unique()
    started = events.filter(pl.col("event") == pl.col("helper")).height
    if waits.height >= started:
        return waits["region"]
    ops = events.drop_nulls(["region", "op"])
    first = ops.join(waits, on="region", how="semi").group_by("region", maintain_order=True).first()
    usual = first.group_by("program_id").agg(pl.col("op").mode().first())
    alike = ops.join(usual, on=["program_id", "op"], how="semi").select("region")
    return pl.concat([waits, alike])["region"].unique()


def _missing_slots(
    helper_slots: pl.DataFrame, regions: pl.DataFrame, events: pl.DataFrame
) -> Iterator[tuple[int, list[int]]]:
    """(execution, ordinals) of the executions whose helpers announced no program, by time."""
    done = regions.drop_nulls("execution").select(*SLOT)
    lacking = (
        helper_slots.join(done, on=SLOT, how="anti")
        .join(events.select("event", "start_ps"), left_on="execution", right_on="event")
        .sort("start_ps")
    )
    for (number,), rows in lacking.group_by("execution", maintain_order=True):
        yield int(number), sorted(rows["ordinal"].to_list())


def _assign(
    rows: list[int], inherited: dict[int, int], free: list[int], ordinal: np.ndarray
) -> int:
    """Give each row one of the free ordinals, its inherited one if it can; how many could not."""
    left = list(free)
    waiting = []
    for row in rows:
        if inherited.get(row) in left:
            ordinal[row] = inherited[row]
            left.remove(inherited[row])
        else:
            waiting.append(row)
    for row, number in zip(waiting, left, strict=False):
        ordinal[row] = number
    return len(waiting)


def _rows_of(wanted: pl.Series, numbers: pl.Series) -> np.ndarray:
    """Where each wanted number stands among different ones; -1 where it is NULL or does not."""
    known = numbers.to_numpy().astype(np.int64)
    order = np.argsort(known)
    sought = wanted.fill_null(-1).cast(pl.Int64).to_numpy()
    place = order[np.minimum(np.searchsorted(known, sought, sorter=order), len(known) - 1)]
    return np.where(known[place] == sought, place, -1)


def _owners(above: np.ndarray, anchored: np.ndarray) -> np.ndarray:
    """Row of each region's nearest anchored ancestor, itself included; -1 where it has none.

    above: row of each region's parent, -1 for none.
    """
    own = np.arange(len(above))
    above = np.where(above < 0, own, above)
    owner = np.where(anchored, own, -1)
    while True:  # each round looks twice as far up
        found = np.where(owner >= 0, owner, owner[above])
        further = above[above]
        if (found == owner).all() and (further == above).all():
            return owner
        owner, above = found, further


def _enqueues(events: pl.DataFrame, regions: pl.DataFrame) -> pl.DataFrame:
    """execution, enqueue_ps: when the closure around the Execute was scheduled, else its own start."""
    executes = events.filter(pl.col("name").str.contains(EXECUTE))
    return executes.join(regions.select("region", "record_ps"), on="region", how="left").select(
        execution="event", enqueue_ps=pl.coalesce("record_ps", "start_ps")
    )
