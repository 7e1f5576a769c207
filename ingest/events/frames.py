"""The frames that every plane's reader returns, whatever the hardware."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
import polars as pl
from polars.datatypes import DataTypeClass

from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.codes_of_files import BAD_TIME
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.events.time_move import TimeMove

if TYPE_CHECKING:
    import pyarrow as pa

    from xlahouse.ingest.events.op_events import OpEvents

Dtype: TypeAlias = pl.DataType | DataTypeClass
ColumnTypes: TypeAlias = dict[str, Dtype]
STEP_MARKERS = ("prefill", "decode", "mixed", "warmup")  # phases that are steps
SERVER_STEP = "server"  # phase of a server's step until ingest/serving knows which it is
DEVICE_NUMBER = r"(\d{1,9})"  # in names of planes; a longer number is damage, no device
FEW = 1 << 10  # rows for which a query takes longer to start than to run
LATEST_PS = 1 << 57  # 40 hours; sums of sixty such times, and percents of half of one, still fit
# Bytes or FLOPs of an op, value of a counter: no hardware has more, and sums still fit.
LARGEST = 2.0**53
OPS: ColumnTypes = {
    "device_id": pl.Int64,
    "program_id": pl.UInt64,
    "module": pl.String,
    "op": pl.String,
    "opcode_text": pl.String,  # opcode in the event's instruction text; HLO wins over it
    "operand_text": pl.String,  # first operand of a done in the instruction text
    "hlo_category": pl.String,
    "line": pl.String,
    "on_async_line": pl.Boolean,
    "traced_category": pl.String,  # wait and control where the line decides, else NULL
    "start_ps": pl.Int64,
    "duration_ps": pl.Int64,
    "flops": pl.Float64,
    "model_flops": pl.Float64,
    "bytes_accessed": pl.Float64,
    "hbm_bytes": pl.Float64,
    "traced_bytes": pl.Int64,  # payload of a collective whose devices differ in it
    "sequence": pl.Int64,  # number of a collective in its process group, equal on all members
    "lane": pl.Int64,  # distinguishes lines of one name on a device; NULL where the name is unique
    "launch_key": pl.Int64,  # where the reader knows the launch; NULL: by containment
    "scope": pl.String,  # path in the model, where the event states it; HLO wins over it
    "kernel": pl.String,  # on a GPU: what ran; an op whose HLO is a start is then the whole transfer
}
LAUNCHES: ColumnTypes = {
    "device_id": pl.Int64,
    "program_id": pl.UInt64,
    "module": pl.String,
    "start_ps": pl.Int64,
    "duration_ps": pl.Int64,
    "enqueue_ps": pl.Int64,
    "enqueue_thread": pl.String,  # as host_events name it; NULL where the reader does not know it
    # consumer context and id (_ct, _c) that the enqueuing host event's (_pt, _p) equal, within a file
    "link_type": pl.Int64,
    "link": pl.Int64,
    "launch_key": pl.Int64,
    "instance_key": pl.Int64,  # where the reader knows the launch instance
}
HOST_EVENTS: ColumnTypes = {
    "host": pl.String,
    "thread": pl.String,
    "name": pl.String,
    "start_ps": pl.Int64,
    "duration_ps": pl.Int64,
    "args": pl.String,
}
COUNTERS: ColumnTypes = {
    "device_id": pl.Int64,
    "name": pl.String,
    "start_ps": pl.Int64,
    "value": pl.Float64,
}
MARKERS: ColumnTypes = {
    "host": pl.String,
    "thread": pl.String,  # as host_events name it; NULL where the reader places launches in steps itself
    "phase": pl.String,
    "request": pl.Int64,
    "step": pl.Int64,
    "start_ps": pl.Int64,
    "duration_ps": pl.Int64,
    # of a server's step:
    "kind": pl.String,  # prefill, decode or mixed, where its name states it
    "requests": pl.Int64,  # how many it serves
    "tokens": pl.Int64,  # of all of them
    "ids": pl.List(pl.String),  # of those that it names
    "id_tokens": pl.List(pl.Int64),  # tokens of each
    "id_prompt_tokens": pl.List(pl.Int64),  # of these, the ones of its prompt
}
KV_TRANSFERS: ColumnTypes = {
    "host": pl.String,
    "thread": pl.String,
    "name": pl.String,
    "start_ps": pl.Int64,
    "duration_ps": pl.Int64,
    "request_id": pl.String,
    "uuid": pl.String,
    "bytes": pl.Int64,
    "dimensions": pl.String,
    "source": pl.String,
}
PRODUCERS: ColumnTypes = {
    "link_type": pl.Int64,
    "link": pl.Int64,
    "enqueue_ps": pl.Int64,
    "enqueue_thread": pl.String,
}
COVERAGE: ColumnTypes = {
    "source": pl.String,
    "plane": pl.String,
    "line": pl.String,
    "table_name": pl.String,
    "events_read": pl.Int64,
    "rows_written": pl.Int64,
    "events_rejected": pl.Int64,
}


@cache
def _empty(columns: tuple[tuple[str, Dtype], ...]) -> pl.DataFrame:
    return pl.DataFrame(schema=dict(columns))


def empty(columns: ColumnTypes) -> pl.DataFrame:
    """A frame of these columns without rows."""
    return _empty(tuple(columns.items())).clone()


def conform(frame: pl.DataFrame, columns: ColumnTypes) -> pl.DataFrame:
    """Exactly these columns, typed; missing ones NULL."""
    found = frame.schema
    if list(found.items()) == list(columns.items()):
        return frame
    if frame.is_empty():
        return empty(columns)
    if columns.keys() <= found.keys():  # quicker than a query
        return pl.DataFrame([frame[name].cast(dtype) for name, dtype in columns.items()])
    if frame.height <= FEW:
        return pl.DataFrame(
            [
                frame[name].cast(dtype) if name in found else same(name, None, dtype, frame.height)
                for name, dtype in columns.items()
            ]
        )
    return frame.select(
        (pl.col(name) if name in found else pl.lit(None)).cast(dtype).alias(name)
        for name, dtype in columns.items()
    )


def stack(frames: list[pl.DataFrame], columns: ColumnTypes) -> pl.DataFrame:
    """One frame of these columns from many."""
    rows = [conform(frame, columns) for frame in frames if not frame.is_empty()]
    return pl.concat(rows) if len(rows) > 1 else rows[0] if rows else empty(columns)


def distinct(rows: pl.DataFrame) -> tuple[pl.DataFrame, Integers]:
    """(distinct rows in the order in which they come, of each row its place among them)."""
    if rows.height <= FEW:
        place_of: dict[tuple[Any, ...], int] = {}
        places = [place_of.setdefault(row, len(place_of)) for row in rows.rows()]
        firsts = np.unique(places, return_index=True)[1]
        return rows[firsts], np.array(places, np.int64)
    found = rows.unique(maintain_order=True)
    place = rows.join(
        found.with_row_index("place"),
        on=rows.columns,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )["place"]
    return found, place.to_numpy().astype(np.int64)


def no_row(frame: pl.DataFrame) -> pl.DataFrame:
    """One row of NULLs, with the columns of a frame."""
    return pl.DataFrame([same(name, None, kind, 1) for name, kind in frame.schema.items()])


def distinct_rows(rows: pl.DataFrame) -> Iterable[tuple[Any, ...]]:
    """The distinct rows in the order in which they come."""
    if rows.height > FEW:
        return rows.unique(maintain_order=True).iter_rows()
    return dict.fromkeys(rows.rows())


def same(name: str, value: object, dtype: Dtype, count: int) -> pl.Series:
    """A column of one value; quicker than a query with a literal."""
    return pl.Series(name, [value], dtype).new_from_index(0, count)


def lanes(lines: pl.DataFrame, names: list[str]) -> pl.Series:
    """Number of each line that shares its name with another line; NULL for all other lines.

    Args:
        lines: of a plane, or of many; the number is a row's place.
        names: the columns in which lines of one name agree.
    """
    if lines.height <= FEW:
        found = lines[names].rows()
        count = Counter(found)
        shared = [at if count[name] > 1 else None for at, name in enumerate(found)]
        return pl.Series("lane", shared, pl.Int64)
    places = pl.int_range(pl.len()).alias("lane")
    return lines.select(pl.when(pl.struct(names).is_duplicated()).then(places).alias("lane"))[
        "lane"
    ]


def by_start(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows by device and start; rows that are in order already, as is usual, are not copied."""
    device, start = (np.diff(rows[name].to_numpy()) for name in ("device_id", "start_ps"))
    if ((device > 0) | ((device == 0) & (start >= 0))).all():
        return rows
    return rows.sort("device_id", "start_ps")


def owned(frame: pl.DataFrame) -> pl.DataFrame:
    """A copy: unchanged columns of a decoder keep everything decoded with them in memory."""
    if frame.is_empty():
        return frame.clear()
    return frame.select(pl.all().gather(pl.int_range(frame.height)))


@dataclass(frozen=True)
class Device:
    """A device that the trace has events of."""

    device_id: int  # number in its world
    plane: str  # name of its plane
    kind: str  # such as TPU v6 Lite or cpu
    core: str  # tensorcore, sparsecore, gpu or cpu
    local_ordinal: int | None = None  # number within the host
    chip_id: int | None = None  # global number of its chip
    host: str | None = None  # name of its host; None where the trace lacks it
    peak_flops: float | None = None  # FLOP/s, as the trace states it
    peak_hbm_bytes_per_s: float | None = None  # as the trace states it
    inferred: bool = False  # identity was deduced


class HostRows(Protocol):
    """Rows of host_events that are read piece by piece (ingest/xplane/host_pieces.py)."""

    def moved(self, move: TimeMove) -> HostRows:
        """The same rows at other times."""

    def forget_decoded(self) -> None:
        """Free what was decoded ahead of its use; it is decoded again."""

    def tables(self) -> Iterator[pa.Table]:
        """The rows, some at a time."""


@dataclass(frozen=True)
class PlaneEvents:
    """Everything that a reader made of one plane."""

    devices: list[Device] = field(default_factory=list)  # whose events the plane holds
    ops: pl.DataFrame = field(default_factory=lambda: empty(OPS))  # executions of instructions
    # executions of programs
    launches: pl.DataFrame = field(default_factory=lambda: empty(LAUNCHES))
    # events of the host's threads
    host_events: pl.DataFrame = field(default_factory=lambda: empty(HOST_EVENTS))
    counters: pl.DataFrame = field(default_factory=lambda: empty(COUNTERS))  # samples
    markers: pl.DataFrame = field(default_factory=lambda: empty(MARKERS))  # of steps
    # of keys and values
    kv_transfers: pl.DataFrame = field(default_factory=lambda: empty(KV_TRANSFERS))
    # calls that enqueued launches
    producers: pl.DataFrame = field(default_factory=lambda: empty(PRODUCERS))
    # how many events of each line became rows
    coverage: pl.DataFrame = field(default_factory=lambda: empty(COVERAGE))
    issues: list[Issue] = field(default_factory=list)  # findings about the plane
    op_events: OpEvents | None = None  # more of the plane's ops, which the reader has by kind
    host_pieces: HostRows | None = None  # more of the host events, read piece by piece
    # reads ops, host_events and counters that were put off, so that a run's ops are never in memory at once
    rest: Callable[[], PlaneEvents] | None = None
    file: int = 0  # number of its file in its world
    bytes: int = 0  # about how large the events are, put off or not


def coverage_rows(
    source: str, plane: str, events: pl.DataFrame, rejected: pl.DataFrame
) -> pl.DataFrame:
    """Coverage of a plane, one row per line and table.

    Args:
        source: file.
        plane: plane.
        events: (thread, table_name), one row for each event that became a row or part of one.
        rejected: (thread), one row for each event that was refused.
    """
    kept = _counts(events, ["thread", "table_name"])
    lost = _counts(rejected, ["thread"])
    return counted_coverage(source, plane, [*kept, *((thread, None, n) for thread, n in lost)])


def _counts(rows: pl.DataFrame, names: list[str]) -> list[tuple[Any, ...]]:
    """(values of these columns, how many rows have them)."""
    if rows.height > FEW:
        return rows.group_by(names).len().rows()
    return [(*values, count) for values, count in Counter(rows[names].rows()).items()]


def counted_coverage(
    source: str, plane: str, counts: list[tuple[str, str | None, int]]
) -> pl.DataFrame:
    """Coverage of a plane from (line, table, events); without a table, the events were refused."""
    rows = [
        (source, plane, line, table, n, *((n, 0) if table else (0, n))) for line, table, n in counts
    ]
    return pl.DataFrame(rows, schema=COVERAGE, orient="row")


def split_bad_times(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """(kept, refused): refused events start before the profile, have a negative duration, or are later
    or longer than LATEST_PS."""
    times = (events["start_ps"], events["duration_ps"])
    if not any(
        each.null_count() or (each < 0).any() or (each > LATEST_PS).any() for each in times
    ):  # as mostly
        return events, events.clear()
    good = pl.col("start_ps").is_between(0, LATEST_PS) & pl.col("duration_ps").is_between(
        0, LATEST_PS
    )
    good = good.fill_null(False)  # a time that is too large for a number
    return events.filter(good), events.filter(~good)


def time_issues(refused: pl.DataFrame, source: str) -> list[Issue]:
    """The finding about events that split_bad_times refused."""
    return bad_time_issues(refused.height, source)


def bad_time_issues(refused: int, source: str) -> list[Issue]:
    """The finding about events with impossible times."""
    return issues_found(source, (BAD_TIME, refused))
