"""Which execution, and which of its devices, an event of a CPU run belongs to.

Ops of virtual devices sit on pool threads that hop between devices. Where an op ran follows from the
causal chain that the thread pool records: a closure is announced by `ThreadpoolListener::Record` (stat
`_p`) on the thread that schedules it, and runs between `StartRegion` (stat `_c`, the same number) and
`StopRegion` on another. `Execute` schedules one `ExecuteHelper` a device, in device order; the helper
schedules the device's program, and everything that this schedules descends from it. With one device the
helper runs inline.

A program whose inputs are not ready starts late, and its chain leads back to an earlier execution:
late.py finds which one lacks it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from xlahouse.ingest.xplane.cpu.events import (
    EXECUTE,
    EXECUTE_HELPER,
    PROGRAM_WAIT,
    RENDEZVOUS,
    CpuEvents,
    rendezvous_members,
)
from xlahouse.ingest.xplane.cpu.late import Lacking, LateStarts, deal
from xlahouse.ingest.xplane.cpu.regions import Regions, open_regions, open_spans

SLOT = ("execution", "ordinal")


@dataclass(frozen=True)
class Placement:
    """Acts with `execution` (event number of the Execute), `ordinal` (place of the device in its device
    order) and `enqueue_ps`, all NULL where unknown; and how many late starts were ambiguous."""

    acts: pl.DataFrame  # with the columns above
    ambiguous: int  # late starts


def place_acts(events: CpuEvents, by_place: bool) -> Placement:
    """Place the acts of a host plane.

    Args:
        events: of the plane.
        by_place: groups of collectives number devices by their place in an execution, so that they are
            evidence of it.
    """
    acts = events.acts
    executes = acts.filter(pl.col("name").str.contains(EXECUTE))
    helpers = acts.filter(pl.col("name").str.contains(EXECUTE_HELPER))
    acts = acts.with_columns(
        region=open_regions(events.edges, acts),
        execute=open_spans(executes, acts),
        helper=open_spans(helpers, acts),
    )
    regions = Regions.of(events, executes, helpers)
    helper_slots = _helper_slots(acts, regions)
    region_slots, ambiguous = _region_slots(acts, regions, helper_slots, by_place)
    placed = (
        acts.join(helper_slots, on="helper", how="left", maintain_order="left")
        .with_columns(pl.coalesce(name, region_slots[name]) for name in SLOT)
        .join(_enqueues(acts, regions), on="execution", how="left", maintain_order="left")
    )
    return Placement(placed.drop("execute", "helper", "region"), ambiguous)


def _helper_slots(acts: pl.DataFrame, regions: Regions) -> pl.DataFrame:
    """helper, execution, ordinal: inline in its Execute, or by the order of the Execute's Records.

    All Records count, whether their helper is in the trace or not, unless an Execute has more of them
    than any has helpers: then some are not of helpers, and only Records of helpers count.
    """
    helpers = acts.filter(pl.col("event") == pl.col("helper"))
    inline = helpers.filter(pl.col("execute").is_not_null()).select(
        "helper", execution="execute", ordinal=pl.lit(0, pl.Int64)
    )
    outside = helpers.filter(pl.col("execute").is_null()).select("helper", "region")
    scheduled = (
        pl.concat([outside, regions.announced(outside["region"])], how="horizontal")
        .drop_nulls("execute")
        .join(regions.records_of_executes().drop("execute"), on="record", how="left")
    )
    seen = pl.len().over("execute").cast(pl.Int64)
    among_seen = pl.col("record_ps").rank("ordinal").over("execute").cast(pl.Int64) - 1
    scheduled = scheduled.select(
        "helper",
        execution="execute",
        ordinal=pl.when(pl.col("of") <= seen.max()).then("place").otherwise(among_seen),
    )
    return pl.concat([inline, scheduled]).unique("helper")


def _region_slots(
    acts: pl.DataFrame, regions: Regions, helper_slots: pl.DataFrame, by_place: bool
) -> tuple[pl.DataFrame, int]:
    """execution and ordinal of each act whose region descends from a program's start, else NULL."""
    execution, ordinal = _announced_slots(regions, helper_slots)
    late = np.zeros(len(regions.event), bool)
    late[regions.rows(_program_starts(acts))] = True
    late &= execution < 0
    anchored = (execution >= 0) | late
    owner = _owners(regions.parent, anchored)
    rows_late = np.flatnonzero(late)
    in_time = np.lexsort((regions.event[rows_late], regions.start_ps[rows_late]))
    starts = LateStarts(
        rows=rows_late[in_time].tolist(),
        start_ps=regions.start_ps,
        origin=np.append(owner, -1)[regions.parent],
        meetings=_meetings(acts, regions, owner, helper_slots) if by_place else {},
    )
    ambiguous = deal(
        starts, _missing_slots(helper_slots, execution, ordinal, acts), execution, ordinal
    )
    of_acts = np.append(owner, -1)[regions.places(acts["region"])]
    execution, ordinal = (np.append(values, -1)[of_acts] for values in (execution, ordinal))
    slots = pl.DataFrame({"execution": execution, "ordinal": ordinal})
    return slots.select(pl.when(pl.col("execution") >= 0).then(pl.all())), ambiguous


def _announced_slots(regions: Regions, helper_slots: pl.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """(execution, ordinal) of the helper in which each region was announced, -1 for none."""
    slots = helper_slots.sort("helper")
    helper, *slot = (slots[name].to_numpy() for name in ("helper", *SLOT))
    execution, ordinal = (np.full(len(regions.event), -1) for _ in SLOT)
    found = np.flatnonzero(regions.helper >= 0)
    place = np.searchsorted(helper, regions.helper[found])
    known = place < len(helper)
    known[known] = helper[place[known]] == regions.helper[found[known]]
    for values, of_helper in zip((execution, ordinal), slot, strict=True):
        values[found[known]] = of_helper[place[known]]
    return execution, ordinal


def _program_starts(acts: pl.DataFrame) -> pl.Series:
    """Regions that start a program on a device.

    The executor leaves an event where it has to wait for the program. Where it did not wait, there are
    fewer such events than programs started; then regions that run the op that most programs of their
    kind start with count as well.
    """
    waits = acts.filter(pl.col("name") == PROGRAM_WAIT).select("region").drop_nulls().unique()
    started = acts.filter(pl.col("event") == pl.col("helper")).height
    if waits.height >= started:
        return waits["region"]
    ops = acts.drop_nulls(["region", "op"])
    first = ops.join(waits, on="region", how="semi").group_by("region", maintain_order=True).first()
    usual = first.group_by("program_id").agg(pl.col("op").mode().first())
    alike = ops.join(usual, on=["program_id", "op"], how="semi").select("region")
    return pl.concat([waits, alike])["region"].unique()


def _missing_slots(
    helper_slots: pl.DataFrame, execution: np.ndarray, ordinal: np.ndarray, acts: pl.DataFrame
) -> list[Lacking]:
    """The executions whose helpers announced no program, by time."""
    known = execution >= 0
    done = pl.DataFrame({"execution": execution[known], "ordinal": ordinal[known]})
    lacking = (
        helper_slots.join(done, on=SLOT, how="anti")
        .join(acts.select("event", "start_ps"), left_on="execution", right_on="event")
        .sort("start_ps", "execution", "ordinal")
        .group_by("execution", maintain_order=True)
        .agg(pl.col("start_ps").first(), "ordinal")
    )
    return [Lacking(*row) for row in lacking.iter_rows()]


def _meetings(
    acts: pl.DataFrame, regions: Regions, owner: np.ndarray, helper_slots: pl.DataFrame
) -> dict[int, set[int]]:
    """Row of a program's start -> the places that all its rendezvous have in common.

    A rendezvous with a device beyond the places here numbers devices otherwise, and is not evidence.
    """
    here = helper_slots.select(pl.col("ordinal").max().fill_null(-1)).item()
    met = acts.filter(pl.col("name") == RENDEZVOUS).drop_nulls(["region", "meeting"])
    rows = pl.Series(owner[regions.rows(met["region"])])
    found = met.select(row=rows, members=rendezvous_members("meeting")).drop_nulls().unique()
    found = found.filter(pl.col("row") >= 0, pl.col("members").list.max() <= here)
    places: dict[int, set[int]] = {}
    for row, members in found.iter_rows():
        places[row] = places.get(row, set(members)) & set(members)
    return places


def _owners(above: np.ndarray, anchored: np.ndarray) -> np.ndarray:
    """Row of each region's nearest anchored ancestor, itself included; -1 where it has none.

    above: row of each region's parent, -1 for none.
    """
    owner = np.where(anchored, np.arange(len(above)), -1)
    above = above.copy()
    rest = np.flatnonzero(~anchored & (above >= 0))
    for _ in range(
        len(above).bit_length()
    ):  # each round looks twice as far up; the bound ends circles
        up = above[rest]
        owner[rest] = owner[up]
        above[rest] = above[up]
        rest = rest[(owner[rest] < 0) & (above[rest] >= 0)]
        if not len(rest):
            break
    return owner


def _enqueues(acts: pl.DataFrame, regions: Regions) -> pl.DataFrame:
    """execution, enqueue_ps: when the closure around the Execute was scheduled, else its own start."""
    executes = acts.filter(pl.col("name").str.contains(EXECUTE))
    announced = regions.announced(executes["region"])
    return executes.select(
        execution="event", enqueue_ps=pl.coalesce(announced["record_ps"], "start_ps")
    )
