"""Reads from a host plane what tells where its ops ran: the thread pool's marks, and the few other events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xlahouse.ingest import frames
from xlahouse.ingest.event_chunks import EventChunk, LineCounts, chunks
from xlahouse.ingest.host import marker_rows
from xlahouse.ingest.xspace import Plane

Integers = NDArray[np.int64]
RECORD, START, STOP = (
    f"ThreadpoolListener::{name}" for name in ("Record", "StartRegion", "StopRegion")
)
EXECUTE = r"^\w*(?:PjRt|Tfrt)\w*::Execute$"
EXECUTE_HELPER = r"^\w*(?:PjRt|Tfrt)\w*::ExecuteHelper$"
# A program's first closure waits here for the rest; nested executors leave no such event.
PROGRAM_WAIT = "ThunkExecutor::Execute (wait for completion)"
RENDEZVOUS = "Rendezvous"
END_PREFIX = "end: "
NO_CLOSURE = np.iinfo(np.int64).min
_ACTS = (
    pl.col("name").str.contains(EXECUTE)
    | pl.col("name").str.contains(EXECUTE_HELPER)
    | pl.col("name").is_in([PROGRAM_WAIT, RENDEZVOUS])
    | pl.col("name").str.starts_with(END_PREFIX)
)


@dataclass(frozen=True)
class Marks:
    """Marks of the thread pool, by line and start.

    event: number in the plane. closure: which one is announced or opened, NO_CLOSURE where it does not
    say. opens: whether a region starts.
    """

    event: Integers
    line: Integers
    start_ps: Integers
    closure: Integers
    opens: NDArray[np.bool_]

    @classmethod
    def joined(cls, parts: Sequence[Marks]) -> Marks:
        """Marks of lines that follow one another."""
        marks = cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in _MARK))
        step = np.diff(marks.line)
        if ((step > 0) | ((step == 0) & (np.diff(marks.start_ps) >= 0))).all():
            return marks
        return marks.at(np.lexsort((marks.event, marks.start_ps, marks.line)))

    def at(self, rows: Any) -> Marks:
        """Chosen marks."""
        return Marks(*(getattr(self, name)[rows] for name in _MARK))


_MARK = tuple(Marks.__annotations__)


@dataclass(frozen=True)
class CpuEvents:
    """Events of a plane whose threads ran virtual devices.

    records: where closures are announced. edges: where regions open and close. acts: executions, ops, their
    ends, and what else tells devices, by start: event, line, thread, name, start_ps, duration_ps, op,
    module, program_id, device_ordinal, _p, _c, meeting (what a rendezvous is called). markers: of steps.
    """

    records: Marks
    edges: Marks
    acts: pl.DataFrame
    markers: pl.DataFrame
    counts: LineCounts


def read_cpu_events(plane: Plane, host: str | None) -> CpuEvents:
    """What tells where the ops of a plane ran.

    Args:
        plane: the plane; at least one line.
        host: its host.

    Raises:
        DecodeError: a line is damaged.
    """
    counts = LineCounts.of(plane)
    records, edges, acts, markers = [], [], [], []
    for chunk in chunks(plane):
        counts.add(chunk)
        announced, opened = chunk.integers("_p"), chunk.integers("_c")
        records.append(_marks(chunk, [RECORD], announced))
        edges.append(_marks(chunk, [START, STOP], opened))
        acts.append(_acts(chunk, announced, opened))
        markers.append(marker_rows(chunk, host))
    return CpuEvents(
        records=Marks.joined(records),
        edges=Marks.joined(edges),
        acts=pl.concat(acts).sort("start_ps", "event"),
        markers=frames.stack(markers, frames.MARKERS),
        counts=counts,
    )


def _marks(chunk: EventChunk, names: list[str], closures: tuple[Integers, Integers]) -> Marks:
    """The marks of those names. closures: places of events and the closure that each has."""
    rows = np.flatnonzero(chunk.named(pl.col("name").is_in(names)))
    of_event = np.full(len(chunk.core.line), NO_CLOSURE)
    of_event[closures[0]] = closures[1]
    opens = chunk.named(pl.col("name") == START)
    return Marks(
        event=rows + chunk.first,
        line=chunk.core.line[rows],
        start_ps=chunk.core.start_ps[rows],
        closure=of_event[rows],
        opens=opens[rows],
    )


def _acts(
    chunk: EventChunk, announced: tuple[Integers, Integers], opened: tuple[Integers, Integers]
) -> pl.DataFrame:
    ops = chunk.texts("hlo_op").rename({"hlo_op": "op"})
    chosen = chunk.named(_ACTS)
    chosen[ops["owner"].to_numpy()] = True
    acts = chunk.frame(np.flatnonzero(chosen & chunk.in_time))
    links = (
        pl.DataFrame({"owner": owners, name: values})
        for name, (owners, values) in (("_p", announced), ("_c", opened))
    )
    for column in (
        ops,
        chunk.texts("hlo_module").rename({"hlo_module": "module"}),
        chunk.numbers("program_id", pl.UInt64),
        chunk.numbers("device_ordinal"),
        *links,
        chunk.texts("name").rename({"name": "meeting"}),
    ):
        acts = acts.join(column, on="owner", how="left", maintain_order="left")
    return acts.drop("owner")
