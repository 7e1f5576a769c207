"""Logical transfers: start and done ops paired, placed in their groups, and gathered into instances."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from xlahouse.ingest.frames import Issue
from xlahouse.ingest.instances import by_first_start, number_instances
from xlahouse.ingest.tpu_ops import WAITS

BARRIER = WAITS[0]
SAME_END_PS = 1_000_000  # METRICS, Terms: ends of an instance further apart cannot be compared
_PAIR = ["device_id", "launch", "program_id", "start_op", "turn"]


@dataclass(frozen=True)
class Transfers:
    """Collectives of some devices: rows without their groups, and ops left without their partner."""

    rows: pl.DataFrame
    unpaired: int


@dataclass(frozen=True)
class Collectives:
    """The collectives table without run_id, and what was found on the way."""

    rows: pl.DataFrame
    issues: list[Issue]


def find_transfers(
    candidates: pl.DataFrame, working: pl.DataFrame, barriers: pl.DataFrame
) -> Transfers:
    """Pair the starts and dones of some devices' collectives, and find when each device arrived.

    Args:
        candidates: finished ops of category collective that are on no async line.
        working: device_id, launch, start_ps of every op that is on no async line, no wait and no control.
        barriers: the same of every BARRIER.
    """
    paired, unpaired = _paired(candidates)
    return Transfers(_with_arrival(paired, working, barriers), unpaired)


def find_collectives(
    transfers: Transfers, groups: pl.DataFrame, pairs: pl.DataFrame, source: str
) -> Collectives:
    """Collectives of all devices of a world.

    Args:
        transfers: of all its devices.
        groups: replica_groups rows, with device_id.
        pairs: permute_pairs rows.
        source: the run, for issues.
    """
    arrived = _with_permute_payload(_with_group(transfers.rows, groups), pairs)
    placed = pl.col("group_index").is_not_null()
    inside = arrived.filter(placed)
    numbers = number_instances(inside, ["program_id", "op", "group_index"])
    numbered = by_first_start(inside.with_columns(instance=numbers), "instance")
    rows = pl.concat([numbered, arrived.filter(~placed)], how="diagonal").sort(
        "device_id", "start_ps"
    )
    return Collectives(rows, _issues(rows, transfers.unpaired, source))


def _paired(candidates: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """(one row a transfer, how many ops are left without their partner)."""
    role = pl.col("role").fill_null("sync")
    named = pl.when(role == "start").then("op").otherwise("start_op")
    counted = _with_turn(
        candidates.filter(role.is_in(["start", "done"])).with_columns(start_op=named)
    )
    starts = counted.filter(pl.col("role") == "start")
    dones = counted.filter(pl.col("role") == "done")
    ends = dones.select(
        *_PAIR,
        wait_ps="duration_ps",
        done_end=pl.col("start_ps") + pl.col("duration_ps"),
    ).drop_nulls(["start_op", "turn"])
    both = starts.join(ends, on=_PAIR, how="inner", nulls_equal=True).with_columns(
        is_async=pl.lit(True),
        issue_ps="duration_ps",
        duration_ps=pl.col("done_end") - pl.col("start_ps"),
    )
    alone = [
        starts.join(ends, on=_PAIR, how="anti", nulls_equal=True),
        dones.join(both, on=_PAIR, how="anti", nulls_equal=True),
    ]
    sync = candidates.filter(role == "sync").with_columns(is_async=pl.lit(False))
    return pl.concat([sync, both], how="diagonal"), sum(left.height for left in alone)


def _with_turn(pairs: pl.DataFrame) -> pl.DataFrame:
    """Add `turn`: which start of its name in the launch an op is, or ends; NULL on a done without one.

    A done takes the earliest start that is open. Profiling that starts in mid-launch leaves dones whose
    start was missed: there have then been more dones than starts, and each new excess is one of those.
    """
    key = _PAIR[:-1]
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


def _with_group(rows: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
    sizes = groups.with_columns(
        group_size=pl.len().over("program_id", "op", "group_index").cast(pl.Int64)
    )
    member = sizes.select("program_id", "op", "device_id", "group_index", "group_size")
    member = member.unique(["program_id", "op", "device_id"], keep="first")
    return rows.join(member, on=["program_id", "op", "device_id"], how="left")


def _with_permute_payload(rows: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """A permute's or send's payload is its operand on a source of another device, and 0 elsewhere.

    Adds `paired`: whether the instruction's pairs are known.
    """
    op = ["program_id", "op"]
    other = pl.col("source_device_id") != pl.col("target_device_id")
    source = pl.col("source_device_id").alias("device_id")
    senders = pairs.filter(other).select(*op, source).unique().with_columns(sends=pl.lit(True))
    known = pairs.select(op).unique().with_columns(paired=pl.lit(True))
    joined = rows.join(senders, on=[*op, "device_id"], how="left").join(known, on=op, how="left")
    silent = pl.col("paired").is_not_null() & pl.col("sends").is_null()
    payload = pl.when(silent).then(pl.lit(0, pl.Int64)).otherwise("payload_bytes")
    return joined.with_columns(payload_bytes=payload).drop("sends")


def _with_arrival(
    rows: pl.DataFrame, working: pl.DataFrame, barriers: pl.DataFrame
) -> pl.DataFrame:
    """Arrival: the start of the barrier that no other op separates from this one, else its own start."""
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


def _next_start(barriers: pl.DataFrame, working: pl.DataFrame) -> pl.DataFrame:
    """Add `next_start`: start of the op that follows each barrier in its launch."""
    opened = working.select("device_id", "launch", next_start="start_ps").sort("next_start")

    def following(rows: pl.DataFrame, others: pl.DataFrame, by: list[str]) -> pl.DataFrame:
        return rows.sort("start_ps").join_asof(
            others,
            left_on="start_ps",
            right_on="next_start",
            by=by,
            strategy="forward",
            check_sortedness=False,
        )

    # Launches hardly overlap on a device: mostly what follows there is of the same launch.
    near = following(barriers, opened, ["device_id"])
    same = (pl.col("launch") == pl.col("launch_right")).fill_null(False)
    far = near.filter(~same).select(barriers.columns)
    rest = opened.join(far.select("launch").unique(), on="launch", how="semi")
    columns = [*barriers.columns, "next_start"]
    return pl.concat(
        [
            near.filter(same).select(columns),
            following(far, rest, ["device_id", "launch"]).select(columns),
        ]
    )


def _issues(rows: pl.DataFrame, unpaired: int, source: str) -> list[Issue]:
    outside = rows.filter(pl.col("group_index").is_null() & pl.col("paired").is_null())
    found = (
        (
            unpaired,
            "async_unpaired",
            "start or done ops of collectives without their partner are left out "
            "(profiling starts and ends in mid-flight)",
        ),
        (
            outside.height,
            "collective_without_group",
            "collectives whose replica group is unknown: no axis, wire or instance",
        ),
        (
            rows["payload_bytes"].null_count(),
            "collective_without_payload",
            "collectives of unknown size: without the program's HLO no payload can be had",
        ),
    )
    return [
        Issue("warning", code, message, source, count) for count, code, message in found if count
    ]


def uneven_ends(rows: pl.DataFrame) -> int:
    """Synchronous instances whose ends lie more than SAME_END_PS apart: their clocks disagree."""
    end = pl.col("start_ps") + pl.col("duration_ps")
    spread = (
        rows.filter(~pl.col("is_async"))
        .drop_nulls("instance")
        .group_by("instance")
        .agg(spread=end.max() - end.min())
    )
    return spread.filter(pl.col("spread") > SAME_END_PS).height
