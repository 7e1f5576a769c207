"""Pairs the start and done ops of collectives into transfers, and finds when each device arrived."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.spans import in_order
from xlahouse.ingest.events.tpu_lines import WAITS

BARRIER = WAITS[0]
_PAIR_KEY = ["device_id", "launch", "program_id", "start_op", "turn"]


def find_transfers(
    candidates: pl.DataFrame, working: pl.DataFrame, barriers: pl.DataFrame
) -> tuple[pl.DataFrame, int]:
    """Pair the starts and dones of some devices' collectives, and find when each device arrived.

    Args:
        candidates: finished ops of category collective that are on no async line, with `row`, their
            places among all ops.
        working: device_id, launch, start_ps of every op that is on no async line, no wait, no control, and
            lasts, or is a collective.
        barriers: the same of every BARRIER.

    Returns:
        one row a transfer, with `done_row` of a pair; and how many ops are without a partner.
    """
    if candidates.is_empty():
        return candidates, 0
    paired, unpaired = _paired(candidates)
    return _with_arrival(paired, working, barriers), unpaired


def _paired(candidates: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """(one row a transfer, how many ops are without a partner)."""
    if {*candidates["role"].unique()} <= {None, "sync"}:
        return candidates.with_columns(is_async=pl.lit(False)), 0
    role = pl.col("role").fill_null("sync")
    # One done in a loop ends the start before the loop, then the start inside it.
    named = pl.when(role == "start").then(pl.coalesce("start_op", "op")).otherwise("start_op")
    counted = _with_turn(
        candidates.filter(role.is_in(["start", "done"])).with_columns(start_op=named)
    )
    starts = counted.filter(pl.col("role") == "start")
    dones = counted.filter(pl.col("role") == "done")
    ends = dones.select(
        *_PAIR_KEY,
        done_row="row",
        wait_ps="duration_ps",
        done_end=pl.col("start_ps") + pl.col("duration_ps"),
    ).drop_nulls(["start_op", "turn"])
    both = starts.join(ends, on=_PAIR_KEY, how="inner", nulls_equal=True).with_columns(
        is_async=pl.lit(True),
        issue_ps="duration_ps",
        duration_ps=pl.col("done_end") - pl.col("start_ps"),
    )
    alone = [
        starts.join(ends, on=_PAIR_KEY, how="anti", nulls_equal=True),
        dones.join(both, on=_PAIR_KEY, how="anti", nulls_equal=True),
    ]
    sync = candidates.filter(role == "sync").with_columns(is_async=pl.lit(False))
    return pl.concat([sync, both], how="diagonal"), sum(left.height for left in alone)


def _with_turn(pairs: pl.DataFrame) -> pl.DataFrame:
    """Add `turn`: which start of its name in the launch an op is, or ends; NULL on a done without one.

    A done takes the earliest start that is open. Profiling that starts in mid-launch leaves dones whose
    start was missed: dones then outnumber starts, and each new excess is such a done.
    """
    key = _PAIR_KEY[:-1]
    ends = pl.col("role") == "done"
    counted = pairs.sort(*key, "start_ps", ends).with_columns(
        starts=(~ends).cast(pl.Int64).cum_sum().over(key),
        dones=ends.cast(pl.Int64).cum_sum().over(key),
    )
    excess = (pl.col("dones") - pl.col("starts")).cum_max().clip(0).over(key)
    counted = counted.with_columns(missed=excess)
    is_missed = ends & (pl.col("missed") > pl.col("missed").shift(1).over(key).fill_null(0))
    turn = pl.when(~ends).then("starts").when(~is_missed).then(pl.col("dones") - pl.col("missed"))
    return counted.with_columns(turn=turn)


def _with_arrival(
    rows: pl.DataFrame, working: pl.DataFrame, barriers: pl.DataFrame
) -> pl.DataFrame:
    """Add arrival: the start of the barrier right before the op, else the op's own start."""
    if barriers.is_empty():
        return rows.with_columns(arrival_ps="start_ps")
    launch = pl.col("launch").fill_null(-1)  # profiling may start or end in mid-launch
    entered = _next_start(barriers.with_columns(launch=launch), working.with_columns(launch=launch))
    latest = entered.group_by("device_id", "launch", "next_start").agg(
        barrier_ps=pl.col("start_ps").max()
    )
    joined = rows.with_columns(launch_or_none=launch).join(
        latest.rename({"launch": "launch_or_none", "next_start": "start_ps"}),
        on=["device_id", "launch_or_none", "start_ps"],
        how="left",
        maintain_order="left",
    )
    return joined.with_columns(arrival_ps=pl.coalesce("barrier_ps", "start_ps"))


class _Places(NamedTuple):
    """Where ops are, by device and start: columns of one length."""

    device_id: Integers  # number of the device
    launch: Integers  # row of launches
    start_ps: Integers  # on the run's clock

    @classmethod
    def of(cls, ops: pl.DataFrame) -> _Places:
        """In the order of the rows."""
        return cls(*(ops[name].to_numpy() for name in cls._fields))


def _next_start(barriers: pl.DataFrame, working: pl.DataFrame) -> pl.DataFrame:
    """Add `next_start`: start of the op that follows each barrier in its launch."""
    ops, places = _Places(*in_order(*_Places.of(working))), _Places.of(barriers)
    following = _following(places, ops)
    # Launches hardly overlap on a device: the op that follows is mostly in the same launch.
    near = following < len(ops.start_ps)
    near[near] = ops.launch[following[near]] == places.launch[near]
    far = barriers.filter(~near)
    of_far = np.isin(ops.launch, far["launch"].to_numpy())
    others = pl.DataFrame({name: column[of_far] for name, column in ops._asdict().items()})
    next_start = pl.Series(ops.start_ps[following[near]])
    return pl.concat(
        [barriers.filter(near).with_columns(next_start=next_start), _next_of_launch(far, others)]
    )


def _following(barriers: _Places, ops: _Places) -> Integers:
    """Place of the first op of its device that starts with each barrier or later; the count for none."""
    following = np.full(len(barriers.start_ps), len(ops.start_ps))
    for number in np.unique(barriers.device_id):
        mine = barriers.device_id == number
        first, last = (np.searchsorted(ops.device_id, number, side) for side in ("left", "right"))
        found = first + np.searchsorted(ops.start_ps[first:last], barriers.start_ps[mine])
        following[mine] = np.where(found < last, found, len(ops.start_ps))
    return following


def _next_of_launch(barriers: pl.DataFrame, working: pl.DataFrame) -> pl.DataFrame:
    """As _next_start, with a search in each launch."""
    return barriers.sort("start_ps").join_asof(
        working.rename({"start_ps": "next_start"}).sort("next_start"),
        left_on="start_ps",
        right_on="next_start",
        by=["device_id", "launch"],
        strategy="forward",
        check_sortedness=False,
    )
