"""Reads the lines of a TPU plane that hold ops: an op's facts are derived once a kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xlahouse.ingest.events import frames
from xlahouse.ingest.events.issues import Issue
from xlahouse.ingest.events.op_events import OP_EVENTS, OP_KINDS, OpEvents, number_keys
from xlahouse.ingest.events.spans import filled, starts_of_runs
from xlahouse.ingest.events.tpu_lines import ASYNC_OPS_LINE, STEPS_LINE, TRACE_ME_LINE, WAITS
from xlahouse.ingest.xplane.core_events import SlimEvents, decode_by_line
from xlahouse.ingest.xplane.memory_access import hbm_bytes
from xlahouse.ingest.xplane.stats import Stats, of_owners
from xlahouse.ingest.xplane.xspace import Plane

_FLOATS = ("flops", "model_flops", "bytes_accessed")
_ON_ASYNC_LINE = pl.col("line") == ASYNC_OPS_LINE
_STEM = pl.col("name").str.extract(r"^%?([^\s=]+)")
_SHOWN = pl.when(pl.col("display_name").str.len_bytes() > 0).then("display_name")
# Facts in the line and names of a kind.
_NAMED = {
    # An async line's display_name is `async-copy`; its instruction text names the op.
    "op": pl.when(_ON_ASYNC_LINE).then(_STEM).otherwise(pl.coalesce(_SHOWN, _STEM)),
    "opcode_text": pl.col("name").str.extract(r"=\s.*?\s?([a-z][a-z0-9-]*)\("),
    "operand_text": pl.col("name").str.extract(r"-(?:done|update)\([^%]*%([^\s,)]+)"),
    "on_async_line": _ON_ASYNC_LINE,
    "traced_category": pl.when(pl.col("line") == TRACE_ME_LINE)
    .then(pl.lit("wait"))
    .when(pl.col("line") == STEPS_LINE)
    .then(pl.lit("control")),
}


@dataclass(frozen=True)
class OpLines:
    """Ops of a plane, the coverage of their lines, and findings."""

    op_events: OpEvents  # the ops, by kind
    coverage: pl.DataFrame  # COVERAGE
    issues: list[Issue]  # findings about them


def read_op_lines(plane: Plane, source: str, device_id: int) -> OpLines:
    """Ops of a plane.

    Args:
        plane: with its lines of ops, async ops, TraceMe and steps alone. Of TraceMe, only waits are ops.
        source: its file.
        device_id: its device.
    """
    core = decode_by_line(plane, _FLOATS)
    kinds, kind = _kinds(plane, core)
    shown = zip(kinds["line"].to_list(), kinds["name"].to_list(), strict=True)
    is_op = np.array([line != TRACE_ME_LINE or name in WAITS for line, name in shown], np.bool_)
    mine = is_op.take(kind)
    good = mine & _in_time(core.start_ps) & _in_time(core.duration_ps)
    start, duration = core.start_ps, core.duration_ps
    if not good.all():
        rows = np.flatnonzero(good)
        kind, start, duration = (each.take(rows) for each in (kind, start, duration))
    events = pl.DataFrame(
        {"kind": kind.astype(np.uint32), "start_ps": start, "duration_ps": duration}
    ).hstack([frames.same("device_id", device_id, pl.Int64, len(kind))])
    ops = OpEvents(
        frames.conform(_facts(plane, kinds), OP_KINDS), frames.conform(events, OP_EVENTS)
    )
    ops = _with_own_estimates(core.stats, ops, np.flatnonzero(good))
    refused = int(mine.sum() - good.sum())
    return OpLines(
        ops,
        _coverage(plane, core, source, good, mine & ~good),
        frames.bad_time_issues(refused, source),
    )


def _in_time(times: NDArray[np.int64]) -> NDArray[np.bool_]:
    return (times >= 0) & (times <= frames.LATEST_PS)


def _kinds(plane: Plane, core: SlimEvents) -> tuple[pl.DataFrame, NDArray[np.int64]]:
    """(line, and metadata_id, name and display_name, of each pair of line and event metadata that
    occurs; of each event its row there)."""
    metadata = plane.kinds
    place = _places(metadata["metadata_id"].to_numpy(), core.metadata_id)
    lines = plane.lines
    first = starts_of_runs(core.line)
    line = np.searchsorted(lines["line"].to_numpy(), core.line[first])
    width = metadata.height + 1
    place += np.repeat(line * width, np.diff(first, append=len(core.line)))
    distinct, kind = number_keys(place, max(lines.height, 1) * width)
    rows = pl.concat([metadata, frames.no_row(metadata)])[distinct % width]
    of_line = pl.Series((distinct // width).astype(np.uint32))
    lanes = frames.lanes(lines, ["name"])
    return rows.hstack([lines["name"][of_line].alias("line"), lanes[of_line]]), kind


def _places(ids: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Place of each wanted id among ids, which ascend; their count where it is not among them."""
    absent, least = len(ids), int(ids.min(initial=0))
    bound = int(ids.max(initial=0)) + 1 - least
    if bound <= 4 * len(ids) + (1 << 20):
        table = np.full(bound + 1, absent)
        table[ids - least] = np.arange(absent)
        near = (wanted >= least) & (wanted < least + bound)
        return table.take(wanted - least if near.all() else np.where(near, wanted - least, bound))
    place = np.searchsorted(ids, wanted)
    known = place < absent
    known[known] = ids[place[known]] == wanted[known]
    return np.where(known, place, absent)


def _facts(plane: Plane, kinds: pl.DataFrame) -> pl.DataFrame:
    """OP_KINDS of each kind, from its metadata."""
    owners = filled(kinds["metadata_id"], np.iinfo(np.int64).min)
    stats = [
        plane.metadata_stats.numbers("program_id", pl.UInt64),
        plane.metadata_stats.texts("hlo_category"),
        *(plane.metadata_stats.numbers(name, pl.Float64) for name in _FLOATS),
        hbm_bytes(plane.metadata_stats.blobs("memory_access_breakdown")),
    ]
    return kinds.hstack([of_owners(stat, owners) for stat in stats]).with_columns(**_NAMED)


def _with_own_estimates(stats: Stats, ops: OpEvents, places: NDArray[np.int64]) -> OpEvents:
    """Newer files put FLOPs and bytes on the event; they win, so such events are kinds of their own.

    Args:
        stats: of the plane's events.
        ops: the ops among them.
        places: of each of the ops' events, its place in the plane.
    """
    if stats.rows.is_empty():
        return ops
    rows = pl.DataFrame({"owner": places, "kind": ops.events["kind"]})
    for name in _FLOATS:
        own = stats.numbers(name, pl.Float64)
        rows = rows.join(own, on="owner", how="left", maintain_order="left")
    key = ["kind", *_FLOATS]
    distinct = rows.select(key).unique(maintain_order=True).with_row_index("new")
    new = rows.join(distinct, on=key, how="left", nulls_equal=True, maintain_order="left")["new"]
    old = ops.kinds[distinct["kind"].cast(pl.Int64)]
    kinds = old.with_columns(distinct[name].fill_null(old[name]) for name in _FLOATS)
    return OpEvents(kinds, ops.events.with_columns(kind=new))


def _coverage(
    plane: Plane,
    core: SlimEvents,
    source: str,
    written: NDArray[np.bool_],
    refused: NDArray[np.bool_],
) -> pl.DataFrame:
    size = int(plane.lines["line"].max() or 0) + 1  # type: ignore[arg-type]
    counts = [
        np.bincount(core.line.take(np.flatnonzero(chosen)), minlength=size)
        for chosen in (written, refused)
    ]
    rows = []
    for line, name in plane.lines[["line", "name"]].rows():
        for table, count in zip(("ops", None), counts, strict=True):
            if count[line]:
                rows.append((name, table, int(count[line])))
    return frames.counted_coverage(source, plane.name, rows)
