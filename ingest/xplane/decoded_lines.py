"""Decodes the lines of a plane some at a time, and keeps large ones for the next reader.

The decoder takes most of the time of reading, and no other thread runs meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from xlahouse.ingest.events.ahead import made_ahead
from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.arrow_arrays import native_buffer
from xlahouse.ingest.xplane.core_events import CoreEvents, decode_core
from xlahouse.ingest.xplane.xspace import Plane

DecodedLines: TypeAlias = dict[tuple[int, ...], list[CoreEvents]]  # by the numbers of lines
CHUNK_EVENTS = 1 << 17
CHUNK_BYTES = 4 << 20  # small lines are decoded together, and lines of one name
_WIDE = 1 << 31  # numbers below it fit 32 bits


def decoded_lines(
    plane: Plane, keep: DecodedLines | None = None, known: DecodedLines | None = None
) -> Iterator[tuple[Plane, list[CoreEvents]]]:
    """(the plane with some of its lines; their events) of all lines, in their order, made ahead.

    Args:
        plane: the plane.
        keep: receives large lines once they are decoded; None: keep none.
        known: decoded lines; each is removed as it is returned.

    Raises:
        DecodeError: a line is damaged.
    """
    decoded = partial(_decoded, {} if known is None else known, keep)
    return made_ahead(
        decoded, list(_parts(plane)), at_once=1
    )  # the decoder runs one call at a time


def _parts(plane: Plane) -> Iterator[Plane]:
    """The plane some lines at a time: lines of one name together, and with other small ones."""
    start = end = held = 0
    for _, alike in groupby(plane.lines["name"]):
        begin, end = end, end + len(list(alike))
        size = sum(map(len, plane.payloads[begin:end]))
        if held and held + size >= CHUNK_BYTES:
            yield _between(plane, start, begin)
            start, held = begin, 0
        held += size
    if end > start:
        yield _between(plane, start, end)


def _between(plane: Plane, start: int, end: int) -> Plane:
    return replace(plane, lines=plane.lines[start:end], payloads=plane.payloads[start:end])


def _decoded(
    known: DecodedLines, keep: DecodedLines | None, part: Plane
) -> tuple[Plane, list[CoreEvents]]:
    lines = tuple(part.lines["line"])
    cores = known.pop(lines, None)
    if cores is None:
        cores = list(_cut(decode_core(part)))
        if keep is not None and sum(map(len, part.payloads)) >= CHUNK_BYTES:
            cores = [_owned(core) for core in cores]
            keep[lines] = cores
    return part, cores


def _owned(core: CoreEvents) -> CoreEvents:
    """A copy in few bytes: the decoder's own stay in memory as long as any of them is used."""
    stats = core.stats
    _, ends, data = stats.buffers()
    kind = np.int64 if pa.types.is_large_binary(stats.type) else np.int32
    bounds = np.frombuffer(ends, kind)[stats.offset : stats.offset + len(stats) + 1]
    owned, raw = native_buffer(np.uint8, int(bounds[-1] - bounds[0]))
    raw[:] = np.frombuffer(data or b"", np.uint8)[bounds[0] : bounds[-1]]
    owned_ends, numbers = native_buffer(kind, len(bounds))
    numbers[:] = bounds - bounds[0]
    return CoreEvents(
        line=_narrow(core.line),
        metadata_id=_narrow(core.metadata_id),
        start_ps=core.start_ps.copy(),
        duration_ps=core.duration_ps.copy(),
        stats=pa.Array.from_buffers(stats.type, len(stats), [None, owned_ends, owned]),
        stat_ends=_narrow(core.stat_ends),
    )


def _narrow(numbers: Integers) -> Integers:
    small = not len(numbers) or -_WIDE <= numbers.min() <= numbers.max() < _WIDE
    narrow: Integers = numbers.astype(np.int32 if small else np.int64)
    return narrow


def _cut(core: CoreEvents) -> Iterator[CoreEvents]:
    """Few events at a time, so that their columns fit the caches; all where they are not in order."""
    size = len(core.line)
    step = np.diff(core.line)
    if size <= CHUNK_EVENTS or ((step == 0) & (np.diff(core.start_ps) < 0)).any():
        yield core
        return
    for begin in range(0, size, CHUNK_EVENTS):
        part = slice(begin, begin + CHUNK_EVENTS)
        first, last = (
            core.stat_ends[n - 1] if n else 0 for n in (begin, min(begin + CHUNK_EVENTS, size))
        )
        yield CoreEvents(
            line=core.line[part],
            metadata_id=core.metadata_id[part],
            start_ps=core.start_ps[part],
            duration_ps=core.duration_ps[part],
            stats=core.stats[first:last],
            stat_ends=core.stat_ends[part] - first,
        )
