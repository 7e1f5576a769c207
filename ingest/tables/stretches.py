"""Says when a device was busy and idle in a step, once, so that peers' idle times need fewer sorts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from xlahouse.ingest.events.spans import Integers, filled, merge_spans, starts_of_runs

STEP = ["device_id", "request", "step"]
Merged = tuple[Integers, Integers, Integers]  # number of the window, start, length
_NULL = -(1 << 63)  # for a step that is unknown, where steps are compared
# What a point in a window is; of those at one time, in this order.
_START, _BUSY, _END, _EDGE = range(4)


class Inside(NamedTuple):
    """What of intervals is in the window of their step.

    number: of the step. start_ps, duration_ps: of what is inside, at least 1 ps long. of: its interval.
    """

    number: Integers
    start_ps: Integers
    duration_ps: Integers
    of: Integers


def inside_windows(steps: pl.DataFrame, intervals: pl.DataFrame) -> Inside:
    """The intervals that reach into the window of their step, in their order.

    Args:
        steps: number, device_id, request, step, start_ps, end_ps.
        intervals: device_id, request, step, start_ps, duration_ps.
    """
    # Intervals come in order, so that those of a step mostly stand together: steps are looked up once a run.
    first = starts_of_runs(*(filled(intervals[name], _NULL) for name in STEP))
    window = steps.select(*STEP, "number", from_ps="start_ps", to_ps="end_ps")
    runs = intervals.select(STEP)[first].join(
        window, on=STEP, how="left", nulls_equal=True, maintain_order="left"
    )
    number, opens, closes = (
        filled(runs[name].cast(pl.Int64), 0) for name in ("number", "from_ps", "to_ps")
    )
    run = np.repeat(np.arange(len(first)), np.diff(first, append=intervals.height))
    start, duration = (intervals[name].to_numpy() for name in ("start_ps", "duration_ps"))
    end = np.minimum(
        start + duration, closes.take(run)
    )  # of a step without a window, before it starts
    start = np.maximum(start, opens.take(run))
    inside = end > start
    if not inside.all():
        of = np.flatnonzero(inside)
        start, end, run = (each.take(of) for each in (start, end, run))
    else:
        of = np.arange(len(start))
    return Inside(number.take(run), start, end - start, of)


def busy_stretches(steps: pl.DataFrame, busy: Merged, launches: pl.DataFrame) -> pl.DataFrame:
    """The busy_stretches table without run_id, by device and start.

    Args:
        steps: number, device_id, request, step, start_ps, end_ps, in the order of their numbers.
        busy: merged intervals within the windows, by number and start.
        launches: device_id, request, step, start_ps, duration_ps, of these devices.
    """
    number, at, length, what, opened = _points(steps, busy, launches)
    place = np.arange(len(number))
    base = np.maximum.accumulate(np.where(what <= _BUSY, place, 0))  # a stretch, or the start
    gap_start = (at + length).take(base)
    # Of a busy row, and of a start, it is the row before that the idle time is measured from.
    before = np.concatenate(([0], gap_start[:-1]))
    gap_start = np.where(what <= _BUSY, before, gap_start)
    idle = at - np.maximum(gap_start, np.concatenate(([0], at[:-1])))
    idle[(what == _START) | (idle < 0)] = 0
    ends = np.where((what == _BUSY) | (what == _END), place, len(place) - 1)
    gap_end = at.take(np.minimum.accumulate(ends[::-1])[::-1])
    followed = np.concatenate(((what[1:] == _BUSY) & (at[1:] == at[:-1]), [False]))
    kept = np.flatnonzero((idle > 0) | (what == _BUSY) | ((what == _START) & ~followed))
    open_launches = np.cumsum(opened) - opened
    return _rows(
        steps,
        *(
            each.take(kept)
            for each in (number, at, length, idle, gap_start, gap_end, open_launches)
        ),
    )


def _rows(
    steps: pl.DataFrame,
    number: Integers,
    at: Integers,
    length: Integers,
    idle: Integers,
    gap_start: Integers,
    gap_end: Integers,
    open_launches: Integers,
) -> pl.DataFrame:
    """The table of what is kept: busy stretches, ends of idle times, starts of windows."""
    is_idle = idle > 0
    before = np.where(is_idle, at - idle - gap_start, 0)
    after = np.where(is_idle, gap_end - at, 0)
    # A window's first row has no idle time before it, so that nothing is taken from another window.
    following = np.zeros_like(idle)
    following[:-1] = (idle + before + after)[1:]
    in_launch = pl.DataFrame({"idle": is_idle, "open": open_launches > 0}).select(
        pl.when("idle").then("open")
    )
    rows = pl.DataFrame(
        {
            "start_ps": at,
            "duration_ps": length,
            "idle_ps": idle,
            "gap_before_ps": before,
            "gap_after_ps": after,
            "in_launch": in_launch["open"],
            "next_gap_ps": following,
            "next_in_launch": in_launch["open"].shift(-1),
        }
    )
    key: pl.DataFrame = steps.select(STEP)[number]
    return pl.concat([key, rows], how="horizontal")


def _points(
    steps: pl.DataFrame, busy: Merged, launches: pl.DataFrame
) -> tuple[Integers, Integers, Integers, Integers, Integers]:
    """number, time, length, what it is, launches opened: by number and time, kinds in their order."""
    windows = steps["number"].to_numpy().astype(np.int64)
    opened = merge_spans(*inside_windows(steps, launches)[:3])
    begins, ends = (steps[name].to_numpy() for name in ("start_ps", "end_ps"))
    numbers = [windows, busy[0], windows, opened[0], opened[0]]
    times = [begins, busy[1], ends, opened[1], opened[1] + opened[2]]
    counts = [len(part) for part in numbers]
    number, at = np.concatenate(numbers), np.concatenate(times)
    length = np.zeros_like(at)
    length[len(windows) : len(windows) + len(busy[0])] = busy[2]
    what = np.repeat([_START, _BUSY, _END, _EDGE, _EDGE], counts)
    opens = np.repeat([0, 0, 0, 1, -1], counts)
    order = np.lexsort((what, at, number))
    parts = (each.take(order) for each in (number, at, length, what, opens))
    number, at, length, what, opens = parts
    return number, at, length, what, opens
