"""Says when a device was busy and idle in a step, once, so that peers' idle times need fewer sorts."""

from __future__ import annotations

import numpy as np
import polars as pl

from xlahouse.ingest.spans import Integers, merge_spans, starts_of_runs

STEP = ["device_id", "request", "step"]
Merged = tuple[Integers, Integers, Integers]  # number of the window, start, length
_NULL = -(1 << 63)  # for a step that is unknown, where steps are compared
# What a point in a window is; of those at one time, in this order.
_START, _BUSY, _END, _EDGE = range(4)


def inside_windows(steps: pl.DataFrame, intervals: pl.DataFrame) -> pl.DataFrame:
    """number (of the step), category, start_ps, duration_ps: what of each interval is in its window."""
    # Intervals come in order, so that those of a step mostly stand together: steps are looked up once a run.
    first = starts_of_runs(*(intervals[name].fill_null(_NULL).to_numpy() for name in STEP))
    window = steps.select(*STEP, "number", from_ps="start_ps", to_ps="end_ps")
    runs = intervals.select(STEP)[first].join(
        window, on=STEP, how="left", nulls_equal=True, maintain_order="left"
    )
    run = np.repeat(np.arange(len(first)), np.diff(first, append=intervals.height))
    start = pl.max_horizontal("start_ps", "from_ps")
    end = pl.min_horizontal(pl.col("start_ps") + pl.col("duration_ps"), "to_ps")
    return (
        pl.concat(
            [
                intervals.select("category", "start_ps", "duration_ps"),
                runs.select(pl.col("number").cast(pl.Int64), "from_ps", "to_ps")[run],
            ],
            how="horizontal",
        )
        .select("number", "category", start_ps=start, duration_ps=end - start)
        .filter(pl.col("number").is_not_null() & (pl.col("duration_ps") > 0))
    )


def busy_stretches(steps: pl.DataFrame, busy: Merged, launches: pl.DataFrame) -> pl.DataFrame:
    """The busy_stretches table without run_id, by device and start.

    Args:
        steps: number, device_id, request, step, start_ps, end_ps, in the order of their numbers.
        busy: merged intervals within the windows, by number and start.
        launches: device_id, request, step, start_ps, duration_ps.
    """
    number, at, length, what, opened = _points(steps, busy, launches)
    place = np.arange(len(number))
    base = np.maximum.accumulate(np.where(what <= _BUSY, place, 0))  # a stretch, or the start
    gap_start = at[base] + length[base]
    # Of a busy row, and of a start, it is the row before that the idle time is measured from.
    before = np.concatenate(([0], gap_start[:-1]))
    gap_start = np.where(what <= _BUSY, before, gap_start)
    idle = at - np.maximum(gap_start, np.concatenate(([0], at[:-1])))
    idle[(what == _START) | (idle < 0)] = 0
    ends = np.where((what == _BUSY) | (what == _END), place, len(place) - 1)
    gap_end = at[np.minimum.accumulate(ends[::-1])[::-1]]
    followed = np.concatenate(((what[1:] == _BUSY) & (at[1:] == at[:-1]), [False]))
    kept = (idle > 0) | (what == _BUSY) | ((what == _START) & ~followed)
    rows = (
        pl.DataFrame(
            {
                "start_ps": at,
                "duration_ps": length,
                "idle_ps": idle,
                "gap_before_ps": np.where(idle > 0, at - idle - gap_start, 0),
                "gap_after_ps": np.where(idle > 0, gap_end - at, 0),
                "in_launch": (np.cumsum(opened) - opened) > 0,
            }
        )
        .filter(kept)
        .with_columns(in_launch=pl.when(pl.col("idle_ps") > 0).then("in_launch"))
    )
    key: pl.DataFrame = steps.select(STEP)[number[kept]]
    return pl.concat([key, rows, _next_gaps(rows)], how="horizontal")


def _next_gaps(rows: pl.DataFrame) -> pl.DataFrame:
    """next_gap_ps, next_in_launch: the gap that follows each row within its window."""
    idle = pl.col("idle_ps")
    gap = pl.when(idle > 0).then(idle + pl.col("gap_before_ps") + pl.col("gap_after_ps"))
    # A window's first row has no idle time before it, so that nothing is taken from another window.
    return rows.select(
        next_gap_ps=gap.otherwise(0).shift(-1, fill_value=0),
        next_in_launch=pl.col("in_launch").shift(-1),
    )


def _points(
    steps: pl.DataFrame, busy: Merged, launches: pl.DataFrame
) -> tuple[Integers, Integers, Integers, Integers, Integers]:
    """number, time, length, what it is, launches opened: by number and time, kinds in their order."""
    windows = steps["number"].to_numpy().astype(np.int64)
    devices = steps["device_id"].unique()
    launches = launches.filter(pl.col("device_id").is_in(devices.implode()))
    inside = inside_windows(steps, launches.with_columns(category=pl.lit("launch")))
    opened = merge_spans(
        *(inside[name].to_numpy() for name in ("number", "start_ps", "duration_ps"))
    )
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
    return number[order], at[order], length[order], what[order], opens[order]
