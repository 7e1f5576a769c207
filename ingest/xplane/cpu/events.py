"""Reads the events of a host plane that show where its ops ran: mostly marks of the thread pool."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xlahouse.ingest.events import frames
from xlahouse.ingest.events.ahead import made_ahead
from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.frames import ColumnTypes
from xlahouse.ingest.xplane.chosen_events import ChosenEvents, Found
from xlahouse.ingest.xplane.decoded_lines import DecodedLines
from xlahouse.ingest.xplane.event_chunks import EventChunk, Mask, chunks, kinds_where
from xlahouse.ingest.xplane.host import MARKER, marker_rows, unnumbered_steps
from xlahouse.ingest.xplane.line_counts import LineCounts
from xlahouse.ingest.xplane.xspace import Plane

RECORD, START, STOP = (
    f"ThreadpoolListener::{name}" for name in ("Record", "StartRegion", "StopRegion")
)
# Since JAX 0.9 the names end in the program's, and `[k]` before one says on which local device it is.
EXECUTE = r"^\w*(?:PjRt|Tfrt)\w*::Execute(?: \(.*\))?$"
ON_DEVICE = r"^\[(\d+)\] "
EXECUTE_HELPER = (
    rf"^\w*(?:PjRt|Tfrt)\w*::ExecuteHelper(?: \(.*\))?$|{ON_DEVICE}\w*(?:PjRt|Tfrt)\w*::Execute\b"
)
# A program's first closure waits here for the rest; nested executors leave no such event.
PROGRAM_WAIT = "ThunkExecutor::Execute (wait for completion)"
RENDEZVOUS = "Rendezvous"
END_PREFIX = "end: "
NO_CLOSURE = np.iinfo(np.int64).min
_OTHER, _RECORD, _START, _STOP, _ACT = range(5)
# Columns of acts that come from stats: texts whose stat has another name, and numbers.
_TEXT_STATS = {"module": "hlo_module", "meeting": "name"}
_NUMBER_STATS = {
    "program_id": pl.UInt64,
    "device_ordinal": pl.Int64,  # within the process
    "global_device_id": pl.Int64,
    "run_id": pl.Int64,  # of one execution on all devices of a process
}
_ACT_STATS: ColumnTypes = {
    "op": pl.String,
    "module": pl.String,
    **_NUMBER_STATS,
    "_p": pl.Int64,
    "_c": pl.Int64,
    "meeting": pl.String,
}
ACTS = (
    pl.col("name").str.contains(EXECUTE)
    | pl.col("name").str.contains(EXECUTE_HELPER)
    | pl.col("name").is_in([PROGRAM_WAIT, RENDEZVOUS])
    | pl.col("name").str.starts_with(END_PREFIX)
)


def rendezvous_members(meeting: str) -> pl.Expr:
    """The devices of a rendezvous by its name, a list of integers; NULL where it names none.

    Args:
        meeting: the column of names.
    """
    listed = pl.col(meeting).str.extract(r"global_devices=\[([0-9,\s]+)\]")
    return listed.str.extract_all(r"[0-9]+").cast(pl.List(pl.Int64), strict=False)


@dataclass(frozen=True)
class Marks:
    """Marks of the thread pool, by line and start."""

    event: Integers  # number in the plane
    line: Integers  # position in Plane.lines
    start_ps: Integers  # since the profile's start
    closure: Integers  # the one that is announced or opened; NO_CLOSURE where the mark states none
    opens: NDArray[np.bool_]  # a region starts here

    @classmethod
    def joined(cls, parts: list[Marks]) -> Marks:
        """Marks of lines that follow one another; the parts are freed, as they take as much memory again."""
        marks = cls(
            *(np.concatenate([getattr(part, name) for part in parts]) for name in _MARK_FIELDS)
        )
        parts.clear()
        step = np.diff(marks.line)
        if ((step > 0) | ((step == 0) & (np.diff(marks.start_ps) >= 0))).all():
            return marks
        return marks.at(np.lexsort((marks.event, marks.start_ps, marks.line)))

    def at(self, rows: Integers) -> Marks:
        """Chosen marks."""
        return Marks(*(getattr(self, name)[rows] for name in _MARK_FIELDS))


_MARK_FIELDS = tuple(Marks.__annotations__)


@dataclass(frozen=True)
class CpuEvents:
    """Events of a plane whose threads ran virtual devices."""

    records: Marks  # where closures are announced
    edges: Marks  # where regions open and close
    # executions, ops, their ends and other evidence of devices, by start: event, line, thread, name,
    # start_ps, duration_ps, op, module, program_id, device_ordinal, global_device_id, run_id, _p, _c,
    # meeting (name of a rendezvous)
    acts: pl.DataFrame
    markers: pl.DataFrame  # of steps
    unnumbered: int  # roots of a trace that may be steps
    counts: LineCounts  # events of each line


def read_cpu_events(
    plane: Plane, host: str | None, keep: DecodedLines | None = None
) -> CpuEvents | None:
    """The events that show where the ops of a plane ran; None where no event names an op.

    Args:
        plane: the plane; at least one line.
        host: its host.
        keep: receives large lines once they are decoded; None: keep none.

    Raises:
        DecodeError: a line is damaged.
    """
    if "hlo_op" not in plane.stat_names["name"]:
        return None
    counts, acts = LineCounts.of(plane), ChosenEvents(plane, _ACT_STATS)
    look = partial(_look_through, _kinds(plane), kinds_where(plane, MARKER), host)
    records, edges, markers, unnumbered = [], [], [], 0
    for found in made_ahead(look, chunks(plane, keep)):
        counts.add(found.chunk)
        acts.add(found.chunk, found.chosen, found.stats)
        records.append(found.records)
        edges.append(found.edges)
        markers.append(found.markers)
        unnumbered += found.unnumbered
    if "op" not in acts.values:
        return None
    return CpuEvents(
        records=Marks.joined(records),
        edges=Marks.joined(edges),
        acts=acts.frame().sort("start_ps", "event"),
        markers=frames.stack(markers, frames.MARKERS),
        unnumbered=unnumbered,
        counts=counts,
    )


@dataclass(frozen=True)
class _FoundInChunk:
    """Events of a chunk that show where ops ran."""

    chunk: EventChunk  # the decoded events
    records: Marks  # where closures are announced
    edges: Marks  # where regions open and close
    chosen: Mask  # events that are acts
    stats: dict[str, Found]  # of all events, as ChosenEvents takes them
    markers: pl.DataFrame  # of steps
    unnumbered: int  # roots of a trace that may be steps


def _look_through(
    kinds: NDArray[np.int8], is_marker: Mask, host: str | None, chunk: EventChunk
) -> _FoundInChunk:
    kind = np.where(chunk.in_time, kinds[chunk.place], _OTHER)
    announced, opened, ops = chunk.links("_p"), chunk.links("_c"), chunk.texts("hlo_op")
    chosen = kind == _ACT
    chosen[ops[0]] = True
    chosen[chunk.integers("run_id")[0]] = True
    stats: dict[str, Found] = {"op": ops, "_p": announced, "_c": opened}
    stats |= {column: chunk.texts(stat) for column, stat in _TEXT_STATS.items()}
    stats |= {column: chunk.integers(column, dtype) for column, dtype in _NUMBER_STATS.items()}
    return _FoundInChunk(
        chunk=chunk,
        records=_marks(chunk, kind, kind == _RECORD, announced),
        edges=_marks(chunk, kind, (kind == _START) | (kind == _STOP), opened),
        chosen=chosen & chunk.in_time,
        stats=stats,
        markers=marker_rows(chunk, is_marker, host),
        unnumbered=unnumbered_steps(chunk, is_marker),
    )


def _kinds(plane: Plane) -> NDArray[np.int8]:
    """Which mark or act each kind of events is, in the order of their ids; one more for unknown kinds."""
    kinds = np.full(plane.metadata.height + 1, _OTHER, np.int8)
    for kind, chosen in (
        (_RECORD, pl.col("name") == RECORD),
        (_START, pl.col("name") == START),
        (_STOP, pl.col("name") == STOP),
        (_ACT, ACTS),
    ):
        kinds[kinds_where(plane, chosen)] = kind
    return kinds


def _marks(
    chunk: EventChunk,
    kind: NDArray[np.int8],
    chosen: NDArray[np.bool_],
    closures: tuple[Integers, Integers],
) -> Marks:
    """Chosen marks. closures: places of events and the closure that each has."""
    rows = np.flatnonzero(chosen)
    of_event = np.full(len(chosen), NO_CLOSURE)
    of_event[closures[0]] = closures[1]
    return Marks(
        event=rows + chunk.first,
        line=chunk.core.line[rows],
        start_ps=chunk.core.start_ps[rows],
        closure=of_event[rows],
        opens=kind[rows] == _START,
    )
