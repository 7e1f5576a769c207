"""How long each step of a run takes, as measured and as replayed, without writing the replay."""

from __future__ import annotations

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.replay.lines import NOWHERE
from xlahouse.ingest.replay.schedule import Schedule, Times
from xlahouse.ingest.replay.warp import Warp

_STEP = ["request", "step"]


def step_times(schedule: Schedule, times: Times | None = None) -> pl.DataFrame:
    """phase, request, step, period_ps: how much later each step ends than the request's step before.

    A step ends with its slowest device, so periods add up. The first step of each request counts from its
    first enqueue, else from its first op: before may be no request.

    Args:
        schedule: of the run.
        times: its replay; None: as measured.
    """
    steps = schedule.run.device_steps.filter(pl.col("step").is_not_null())
    start = steps["start_ps"].to_numpy()
    end = start + steps["duration_ps"].to_numpy()
    if times is not None:
        first, last = _lines(schedule, steps, "start"), _lines(schedule, steps, "end")
        start, end = _moved(times.warps, first, start), _moved(times.warps, last, end)
    placed = steps.select("phase", *_STEP).with_columns(
        start_ps=pl.Series(start), end_ps=pl.Series(end)
    )
    same = pl.col("phase").n_unique() == 1
    whole = placed.group_by(_STEP).agg(
        pl.col("start_ps").min(),
        pl.col("end_ps").max(),
        pl.when(same).then(pl.col("phase").first()).first(),
    )
    enqueues = _first_enqueues(schedule, times)
    whole = whole.join(enqueues, on=_STEP, how="left", nulls_equal=True).sort("end_ps", *_STEP)
    before = pl.col("end_ps").shift(1).over("request")
    return whole.select(
        "phase",
        *_STEP,
        period_ps=pl.col("end_ps") - pl.coalesce(before, "enqueue_ps", "start_ps"),
    ).sort(_STEP)


def _first_enqueues(schedule: Schedule, times: Times | None) -> pl.DataFrame:
    """request, step, enqueue_ps: the first of each step, where it is known."""
    launches = schedule.run.launches.select(*_STEP, "enqueue_ps").filter(
        pl.Series(schedule.host.of_launch != NOWHERE)
    )
    if times is not None:
        known = times.enqueue_ps[schedule.host.of_launch != NOWHERE]
        launches = launches.with_columns(enqueue_ps=pl.Series(known))
    return launches.group_by(_STEP).agg(pl.col("enqueue_ps").min())


def _moved(warps: list[Warp], line: Integers, at_ps: Integers) -> Integers:
    moved = at_ps.copy()
    for number, warp in enumerate(warps):
        rows = np.flatnonzero(line == number)
        moved[rows] = warp.at(at_ps.take(rows))
    return moved


def _lines(schedule: Schedule, steps: pl.DataFrame, side: str) -> Integers:
    """The line of each step's first or last op; the device's main line where several have one then."""
    main = schedule.lines.main
    of_device = steps["device_id"].replace_strict(main, default=NOWHERE, return_dtype=pl.Int64)
    if len(main) == schedule.lines.count:
        return of_device.to_numpy().astype(np.int64)
    at = {"start": pl.col("start_ps"), "end": pl.col("start_ps") + pl.col("duration_ps")}[side]
    ops = schedule.run.ops.select("device_id", at_ps=at).with_columns(
        line=pl.Series(schedule.lines.of_op)
    )
    ops = ops.filter(schedule.run.ops["category"] != "control").unique(
        ["device_id", "at_ps"], keep="first", maintain_order=True
    )
    found = steps.select("device_id", at_ps=at).join(
        ops, on=["device_id", "at_ps"], how="left", maintain_order="left"
    )["line"]
    line = pl.DataFrame({"own": found, "main": of_device}).select(pl.coalesce("own", "main"))
    return line.to_series().to_numpy().astype(np.int64)
