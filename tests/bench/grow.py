"""Grows a trace: repeats every line's events, each time later, as in a longer capture."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.ingest.build import varint
from xlahouse.ingest.events.proto import message_class
from xlahouse.ingest.xplane.wire import plane_name, split_space

LINKS = (b"_p", b"_c")  # ids that are unique in a process: each repetition has its own
_NEXT_IDS = 1 << 40


def write_grown(
    raw: bytes, path: Path, times: int, grown: str = "^/device:", planes: int = 1
) -> None:
    """Write a trace whose planes with a name that matches `grown` repeat their events `times` times.

    Args:
        raw: the trace.
        path: the file to write, piece by piece.
        times: how often each event is repeated.
        grown: regular expression; other planes are copied unchanged.
        planes: how often each grown TPU plane is repeated, each time as another device.
    """
    space = split_space(raw, str(path))
    parsed = [
        (message_class("XPlane").FromString(bytes(payload)), payload)
        for payload in space.planes
        if re.search(grown, plane_name(payload))
    ]
    period = max(_latest(plane) for plane, _ in parsed) + 1_000_000
    with path.open("wb") as file:
        for payload in space.planes:
            if not re.search(grown, plane_name(payload)):
                file.write(_delimited(1, bytes(payload)))
        for copy in range(planes):
            for plane, _ in parsed:
                pieces = list(_pieces(_renumbered(plane, copy, len(parsed)), times, period))
                file.write(b"\x0a" + varint(sum(map(len, pieces))))
                file.writelines(pieces)
        for name in space.hostnames:
            file.write(_delimited(4, name.encode()))


def _latest(plane: Any) -> int:
    """End of the last event, in ps since its line's timestamp."""
    return max(
        (event.offset_ps + event.duration_ps for line in plane.lines for event in line.events),
        default=0,
    )


def _renumbered(plane: Any, copy: int, step: int) -> Any:
    """The plane, renumbered as another device; copy 0 is the plane itself."""
    if not copy:
        return plane
    renumbered = type(plane)()
    renumbered.CopyFrom(plane)
    number = int(plane.name.rpartition(b":")[2]) + copy * step
    renumbered.name = b"/device:TPU:%d" % number
    names = {entry.key: entry.value.name for entry in plane.stat_metadata}
    for stat in renumbered.stats:
        if names[stat.metadata_id] == b"core_details":
            kind = stat.WhichOneof("value")
            details = message_class("CoreDetails").FromString(getattr(stat, kind))
            details.global_core_id += 4096 * copy  # beyond the trace's own numbers
            setattr(stat, kind, details.SerializeToString())
    return renumbered


def _pieces(plane: Any, times: int, period_ps: int) -> Iterator[bytes]:
    """The serialized plane, a line at a time."""
    links = {entry.key for entry in plane.stat_metadata if entry.value.name in LINKS}
    rest = type(plane)()
    rest.CopyFrom(plane)
    del rest.lines[:]
    head, tail = type(plane)(name=plane.name), rest
    tail.ClearField("name")
    yield head.SerializeToString()
    for line in plane.lines:
        pieces = list(_line_pieces(line, times, period_ps, links))
        yield b"\x1a" + varint(sum(map(len, pieces)))
        yield from pieces
    yield tail.SerializeToString()


def _line_pieces(line: Any, times: int, period_ps: int, links: set[int]) -> Iterator[bytes]:
    """The serialized line: its own fields first, then its events `times` times."""
    head, events = type(line)(), type(line)()
    head.CopyFrom(line)
    del head.events[:]
    events.events.extend(line.events)
    yield head.SerializeToString()
    for _ in range(times):
        yield events.SerializeToString()
        for event in events.events:
            event.offset_ps += period_ps
            for stat in event.stats:
                if stat.metadata_id in links:
                    kind = stat.WhichOneof("value")
                    setattr(stat, kind, getattr(stat, kind) + _NEXT_IDS)


def _delimited(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload
