"""Time that ops have for themselves: each instant of a line goes to the innermost op open on it."""

from __future__ import annotations

import polars as pl

_LINE = ["device_id", "line"]


def with_self_time(ops: pl.DataFrame) -> pl.DataFrame:
    """Add self_ps; over a line the self times add up to the time that the line is busy.

    Args:
        ops: device_id, line, start_ps, duration_ps; row order is kept.
    """
    end = pl.col("start_ps") + pl.col("duration_ps")
    spans = (
        ops.with_row_index("row")
        .select("row", *_LINE, "start_ps", end_ps=end)
        .filter(pl.col("end_ps") > pl.col("start_ps"))
        .sort(*_LINE, "start_ps", -pl.col("end_ps"), "row")
    )
    bounds = _bounds(spans)
    crossing = bounds.filter("crosses").select(_LINE).unique()
    nested = bounds.join(crossing, on=_LINE, how="anti", nulls_equal=True, maintain_order="left")
    crossed = spans.join(crossing, on=_LINE, how="semi", nulls_equal=True, maintain_order="left")
    lines = crossed.group_by(_LINE, maintain_order=True)
    own = pl.concat([_nested(nested), *(_crossed(line) for _, line in lines)])
    rows = ops.with_row_index("row").join(own, on="row", how="left", maintain_order="left")
    return rows.with_columns(pl.col("self_ps").fill_null(0)).drop("row")


def _bounds(spans: pl.DataFrame) -> pl.DataFrame:
    """Opening and closing of every span by time, with the depth that each reaches.

    `crosses` marks a closing whose span is not the last one that was opened at its depth.
    """
    length = pl.col("end_ps") - pl.col("start_ps")
    opened = spans.select("row", *_LINE, at="start_ps", change=1, order=-length)
    closed = spans.select("row", *_LINE, at="end_ps", change=-1, order=length - (1 << 62))
    opens = pl.col("change") > 0
    by_time = (
        pl.concat([opened, closed])
        .sort(*_LINE, "at", "order", pl.col("row") * pl.col("change"))
        .with_columns(depth=pl.col("change").cast(pl.Int64).cum_sum().over(_LINE))
        .with_columns(own_depth=pl.when(opens).then("depth").otherwise(pl.col("depth") + 1))
    )
    last = pl.col("row").shift(1).over(*_LINE, "own_depth")
    return by_time.with_columns(crosses=(~opens & (last != pl.col("row"))).fill_null(True))


def _nested(bounds: pl.DataFrame) -> pl.DataFrame:
    """row, self_ps where spans nest: the innermost open op is the last one opened at that depth."""
    lasting = (
        bounds.with_columns(
            length=pl.col("at").shift(-1).over(_LINE) - pl.col("at"),
            opener=pl.when(pl.col("change") > 0).then("row"),
        )
        .with_columns(pl.col("opener").forward_fill().over(*_LINE, "depth"))
        .filter((pl.col("depth") > 0) & (pl.col("length") > 0))
    )
    return lasting.group_by(row="opener").agg(self_ps=pl.col("length").sum())


def _crossed(spans: pl.DataFrame) -> pl.DataFrame:
    """row, self_ps of one line whose spans cross: the op that started last and is open has the time."""
    rows = spans["row"].to_list()
    starts, ends = spans["start_ps"].to_list(), spans["end_ps"].to_list()
    own = dict.fromkeys(rows, 0)
    open_ops: list[int] = []  # by start; closed ones are dropped when they come to the top
    now = 0

    def spend(until: int) -> None:
        nonlocal now
        while open_ops and now < until:
            top = open_ops[-1]
            stop = min(until, ends[top])
            if stop > now:
                own[rows[top]] += stop - now
                now = stop
            if ends[top] <= now:
                open_ops.pop()

    for index, start in enumerate(starts):
        spend(start)
        now = start
        open_ops.append(index)
    spend(max(ends))
    return pl.DataFrame({"row": list(own), "self_ps": list(own.values())}).with_columns(
        pl.col("row").cast(spans.schema["row"])
    )
