"""Links launches of a Chrome trace to the host's calls that enqueued them, by arrows between slices.

Arrows are drawn in two ways: by events of their own (`s`, `t`, `f`, bound to a slice by their time), or by a
`bind_id` that both slices have, with `flow_out` where the arrow leaves and `flow_in` where it ends.
"""

from __future__ import annotations

from typing import Literal

import polars as pl

from xlahouse.ingest.chrome.spans import COMPLETE

_KEY = ["cat", "name", "id"]  # equal on all events of an arrow
_SLICES = (COMPLETE, "B")
_LINKS = {"event": pl.UInt32, "enqueue_ps": pl.Int64, "enqueue_thread": pl.String}
_EARLIEST = pl.col("enqueue_thread").sort_by("enqueue_ps").first()


def with_enqueue(rows: pl.DataFrame, on_host: list[str]) -> pl.DataFrame:
    """Add `enqueue_ps` and `enqueue_thread`: start and thread of the host's slice whose arrow ends at the
    row; NULL without an arrow.

    Args:
        rows: ChromeSpans.rows with pid and thread.
        on_host: pids of host processes; arrows that leave from elsewhere enqueue nothing.
    """
    hosts = pl.col("pid").is_in(on_host)
    links = pl.concat([_bound(rows, hosts), _drawn(rows, hosts)])
    if links.is_empty():
        return rows.with_columns(
            pl.lit(None, kind).alias(name) for name, kind in _LINKS.items() if name != "event"
        )
    first = links.group_by("event").agg(pl.col("enqueue_ps").min(), _EARLIEST)
    return rows.join(first, on="event", how="left", maintain_order="left")


def _bound(rows: pl.DataFrame, hosts: pl.Expr) -> pl.DataFrame:
    """Links by bind_id."""
    bound = rows.filter(pl.col("bind_id").is_not_null())
    leaving = bound.filter(hosts & pl.col("flow_out")).rename({"thread": "enqueue_thread"})
    starts = (
        leaving.with_columns(enqueue_ps="start_ps")
        .group_by("cat", "bind_id")
        .agg(pl.col("enqueue_ps").min(), _EARLIEST)
    )
    ends = bound.filter(~hosts & pl.col("flow_in")).join(starts, on=["cat", "bind_id"])
    return _later(ends)


def _drawn(rows: pl.DataFrame, hosts: pl.Expr) -> pl.DataFrame:
    """Links by events of their own.

    An arrow leaves from the slice around its start, and ends at the slice around its end where `bp` is `e`,
    else at the next one of the line.
    """
    arrows = rows.filter(pl.col("ph").is_in(["s", "t", "f"]) & pl.col("id").is_not_null())
    if arrows.is_empty():
        return pl.DataFrame(schema=_LINKS)
    slices = rows.filter(pl.col("ph").is_in(_SLICES)).select(
        "line", at="start_ps", slice="event", slice_end=pl.col("start_ps") + pl.col("duration_ps")
    )
    slices = slices.sort("at")
    leaving = arrows.filter(hosts & (pl.col("ph") == "s"))
    opened = _beside(leaving, slices, "backward")
    inside = pl.col("slice_end") >= pl.col("start_ps")
    begun = opened.with_columns(enqueue_ps=pl.when(inside).then("at").otherwise("start_ps"))
    named = begun.rename({"thread": "enqueue_thread"})
    starts = named.group_by(_KEY).agg(pl.col("enqueue_ps").min(), _EARLIEST)
    ends = arrows.filter(~hosts & (pl.col("ph") != "s")).join(starts, on=_KEY)
    around = (pl.col("bp") == "e").fill_null(False)
    before = _beside(ends.filter(around), slices, "backward").filter(inside)
    after = _beside(ends.filter(~around), slices, "forward").drop_nulls("slice")
    whole = pl.concat([before, after])
    return _later(whole.drop("event", "start_ps").rename({"slice": "event", "at": "start_ps"}))


def _beside(
    arrows: pl.DataFrame, slices: pl.DataFrame, way: Literal["backward", "forward"]
) -> pl.DataFrame:
    """Arrows with the last slice of their line that begins before them, or the first after them."""
    return arrows.sort("start_ps").join_asof(
        slices, left_on="start_ps", right_on="at", by="line", strategy=way, check_sortedness=False
    )


def _later(ends: pl.DataFrame) -> pl.DataFrame:
    """Links whose ends do not precede their starts: nothing runs before it is enqueued."""
    good = ends.filter(pl.col("enqueue_ps") <= pl.col("start_ps"))
    return good.select(pl.col(name).cast(kind) for name, kind in _LINKS.items())
