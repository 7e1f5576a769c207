"""What ops and their launch wait for where a device has several lines: its launches stand on one of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers, Mask
from xlahouse.ingest.replay.lines import NOWHERE, Lines
from xlahouse.ingest.replay.measured import Measured
from xlahouse.ingest.replay.points import Points

_LAUNCH = ["device_id", "launch"]


class Launched(NamedTuple):
    """Waits between a launch and its ops on other lines: columns of one length."""

    source: Integers  # point where the launch starts, or an op ends
    target: Integers  # point where an op begins, or the launch ends
    wait_ps: Integers  # least time from one to the other
    alone: Mask  # whether the point waits for nothing else on its own line


def find_launched(run: Measured, lines: Lines, points: Points, decided: Integers) -> Launched:
    """The waits of a run; none on devices with one line.

    An op of a launch begins after it, and it ends after them. On a line that was idle since before the launch
    started, its first op there waits for that start; a launch that ends after its line's last op waits for
    the ops of the other lines.

    Args:
        run: the run.
        lines: of its devices.
        points: on the lines.
        decided: points that are known to wait for another op.
    """
    device, count = np.unique(lines.device, return_counts=True)
    several = device[count > 1]
    if not len(several):
        none = np.zeros(0, np.int64)
        return Launched(none, none, none, np.zeros(0, np.bool_))
    firsts, lasts = _edges_of_launches(run, lines, several)
    starts = _waits(points, *_places(points, firsts))
    starts.alone[np.isin(starts.target, decided)] = False
    starts.wait_ps[~starts.alone] = 0
    ends = _waits(points, *_places(points, lasts))
    return Launched(*(np.concatenate(pair) for pair in zip(starts, ends, strict=True)))


def _edges_of_launches(
    run: Measured, lines: Lines, devices: Integers
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(first, last op of each launch on each other line of its device): from_line, from_ps, line, at_ps.

    Args:
        run: the run.
        lines: of its devices.
        devices: those with several lines.
    """
    ops = run.ops.select(*_LAUNCH, "start_ps", "duration_ps", "category").with_columns(
        line=pl.Series(lines.of_op), ended_ps=pl.col("start_ps") + pl.col("duration_ps")
    )
    ops = ops.filter(
        (pl.col("category") != "control")
        & (pl.col("line") != NOWHERE)
        & pl.col("device_id").is_in(devices.tolist())
    )
    launches = run.launches.select(
        *_LAUNCH, opens_ps="start_ps", closes_ps=pl.col("start_ps") + pl.col("duration_ps")
    ).with_columns(own=pl.Series(lines.of_launch))
    launches = launches.filter(pl.col("own") != NOWHERE).unique(_LAUNCH, keep="none")
    both = ops.join(launches, on=_LAUNCH).filter(pl.col("line") != pl.col("own"))
    both = both.group_by(*_LAUNCH, "line", "own", "opens_ps", "closes_ps").agg(
        pl.col("start_ps").min(), pl.col("ended_ps").max()
    )
    both = both.sort(*_LAUNCH, "line")
    # A launch that starts with an op is a span of its ops: nothing that they wait for.
    firsts = both.filter(pl.col("opens_ps") < pl.col("start_ps")).select(
        from_line="own", from_ps="opens_ps", line="line", at_ps="start_ps"
    )
    lasts = both.filter(pl.col("ended_ps") <= pl.col("closes_ps")).select(
        from_line="line", from_ps="ended_ps", line="own", at_ps="closes_ps"
    )
    return firsts, lasts


def _places(points: Points, edges: pl.DataFrame) -> tuple[Integers, Integers]:
    """(source, target) of the edges between points."""
    line, at, from_line, from_ps = (
        edges[name].to_numpy().astype(np.int64)
        for name in ("line", "at_ps", "from_line", "from_ps")
    )
    source, target = points.place(from_line, from_ps), points.place(line, at)
    known = (source != NOWHERE) & (target != NOWHERE)
    return source[known], target[known]


def _waits(points: Points, source: Integers, target: Integers) -> Launched:
    """The waits of a point for several: it waits alone if its own line was idle from the last of these on."""
    at = points.at_ps
    latest = np.full(points.count, np.iinfo(np.int64).min)
    np.maximum.at(latest, target, at.take(source))
    before = np.where(points.head, np.iinfo(np.int64).min, np.roll(at, 1))
    alone = latest.take(target) >= before.take(target)
    wait = np.where(alone, at.take(target) - latest.take(target), 0)
    return Launched(source, target, wait, alone)
