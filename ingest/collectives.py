"""Logical transfers: start and done ops paired, placed in their groups, and gathered into instances."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from xlahouse.ingest.frames import Issue
from xlahouse.ingest.instances import by_first_start, number_instances
from xlahouse.ingest.tpu import WAITS

BARRIER = WAITS[0]
SAME_END_PS = 1_000_000  # METRICS, Terms: ends of an instance further apart cannot be compared
_PAIR = ["device_id", "launch", "program_id", "start_op", "turn"]


@dataclass(frozen=True)
class Collectives:
    """The collectives table without run_id, and what was found on the way."""

    rows: pl.DataFrame
    issues: list[Issue]


def find_collectives(
    ops: pl.DataFrame, groups: pl.DataFrame, pairs: pl.DataFrame, source: str
) -> Collectives:
    """Collectives of all devices.

    Args:
        ops: finished ops.
        groups: replica_groups rows, with device_id.
        pairs: permute_pairs rows.
        source: the run, for issues.
    """
    candidates = ops.filter((pl.col("category") == "collective") & ~pl.col("on_async_line"))
    paired, unpaired = _paired(candidates)
    grouped = _with_group(paired, groups)
    sized = _with_permute_payload(grouped, pairs)
    arrived = _with_arrival(sized, ops)
    placed = pl.col("group_index").is_not_null()
    inside = arrived.filter(placed)
    numbers = number_instances(inside, ["program_id", "op", "group_index"])
    numbered = by_first_start(inside.with_columns(instance=numbers), "instance")
    rows = pl.concat([numbered, arrived.filter(~placed)], how="diagonal").sort(
        "device_id", "start_ps"
    )
    return Collectives(rows, _issues(rows, unpaired, source))


def _paired(candidates: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(one row a transfer, ops left without their partner)."""
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
    return pl.concat([sync, both], how="diagonal"), pl.concat(alone).select("op")


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


def _with_arrival(rows: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """Arrival: the start of the barrier that no other op separates from this one, else its own start."""
    launch = pl.col("launch").fill_null(-1)  # profiling may start or end in mid-launch
    working = (
        ops.filter(~pl.col("on_async_line") & ~pl.col("category").is_in(["wait", "control"]))
        .select("device_id", launch, next_start="start_ps")
        .sort("next_start")
    )
    barriers = (
        ops.filter(pl.col("op") == BARRIER)
        .select("device_id", launch, barrier_ps="start_ps")
        .sort("barrier_ps")
        .join_asof(
            working,
            left_on="barrier_ps",
            right_on="next_start",
            by=["device_id", "launch"],
            strategy="forward",
            check_sortedness=False,
        )
        .group_by("device_id", "launch", start_ps="next_start")
        .agg(barrier_ps=pl.col("barrier_ps").max())
    )
    joined = rows.with_columns(launch_or_none=launch).join(
        barriers.rename({"launch": "launch_or_none"}),
        on=["device_id", "launch_or_none", "start_ps"],
        how="left",
        maintain_order="left",
    )
    return joined.with_columns(arrival_ps=pl.coalesce("barrier_ps", "start_ps"))


def _issues(rows: pl.DataFrame, unpaired: pl.DataFrame, source: str) -> list[Issue]:
    outside = rows.filter(pl.col("group_index").is_null() & pl.col("paired").is_null())
    found = (
        (
            unpaired.height,
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
