"""Cuts an XSpace at its top level, on the wire: planes, names and times, without decoding them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from xlahouse.capture.errors import LimitError, TraceFormatError
from xlahouse.capture.limits import exceeded, most
from xlahouse.ingest.events.misread import text_codec
from xlahouse.ingest.events.trace_bytes import TraceBytes, blocks, contents, joined

PLANES_FIELD, HOSTNAMES_FIELD = 1, 4
SPACE_FIELDS = range(1, 5)
LENGTH_DELIMITED = 2
_EVENT = 4 << 3 | LENGTH_DELIMITED  # the tag of an event in its line
# Line timestamps from here on are UNIX time, not time since the profile's start.
ABSOLUTE_NS = 10**15
LATEST_UNIX_NS = 1 << 62  # the year 2116
_HEADER = 20  # bytes of a field's tag and length at most
_WINDOW = 1 << 14  # bytes that are read at once to walk over fields


@dataclass(frozen=True)
class SpaceBytes:
    """A file cut at its top level."""

    planes: list[TraceBytes]  # serialized
    hostnames: list[str]  # in file order
    damaged_at: int | None  # byte from which on it cannot be parsed
    unknown: int = 0  # fields whose numbers XSpace lacks


def split_space(raw: TraceBytes, path: str) -> SpaceBytes:
    """Cut an XSpace into its planes without decoding them.

    Raises:
        TraceFormatError: no whole plane can be read from the file.
    """
    if not raw:
        raise TraceFormatError(path, "the file is empty: the profiler wrote nothing; capture again")
    planes: list[TraceBytes] = []
    hostnames, unknown, position = [], 0, 0
    for number, value, after in _places(raw):
        if isinstance(value, int):
            break
        position = after
        if number == PLANES_FIELD:
            planes.append(value)
            if len(planes) > most("planes"):
                raise LimitError(path, exceeded("planes"))
        elif number == HOSTNAMES_FIELD:
            hostnames.append(bytes(value).decode("utf-8", "replace"))
        elif number not in SPACE_FIELDS:
            unknown += 1
    damaged_at = None if position == len(raw) else position
    if damaged_at is not None or not planes:
        _refuse_mangled(raw, path)
        if not planes:
            raise TraceFormatError(
                path, "not an XSpace protobuf; give an xplane or a Chrome trace", damaged_at
            )
    return SpaceBytes(planes, hostnames, damaged_at, unknown)


def _refuse_mangled(raw: TraceBytes, path: str) -> None:
    codec = text_codec(raw)
    if codec is not None:
        raise TraceFormatError(path, codec)


def _varint(view: memoryview, position: int) -> tuple[int, int]:
    """(value, next position); value -1 where it is cut off or longer than 10 bytes."""
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(view) or position < 0:
            return -1, -1
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    return -1, -1


def plane_name(payload: TraceBytes) -> str:
    """A serialized plane's name, without decoding the plane."""
    for number, value, _ in _places(payload):
        if number == 2 and not isinstance(value, int):
            return bytes(value).decode("utf-8", "replace")
    return ""


def has_events(line: TraceBytes) -> bool:
    """Whether a serialized line holds an event, without decoding it."""
    return any(number == 4 for number, _, _ in _places(line))


def split_plane(payload: TraceBytes) -> tuple[list[TraceBytes], bytes]:
    """(serialized lines, the plane without them); from damage on, everything is in the latter.

    Raises:
        LimitError: it has too many lines or events.
    """
    lines: list[TraceBytes] = []
    rest: list[TraceBytes] = []
    kept = position = 0  # all before `kept` is in one of the two
    for number, value, after in _places(payload):
        if number == 3 and not isinstance(value, int):
            rest.append(payload[kept:position])
            lines.append(value)
            kept = after
            if len(lines) > most("lines"):
                raise LimitError("", exceeded("lines"))
        position = after
    rest.append(payload[kept:])
    _check_events(lines)
    return lines, bytes(joined([part for part in rest if len(part)]))


def _check_events(lines: list[TraceBytes]) -> None:
    """Refuse lines with too many events: each has two bytes at least, of which the first is its tag."""
    if sum(map(len, lines)) < 2 * most("events"):
        return
    tags = sum(
        int(np.count_nonzero(np.frombuffer(block, np.uint8) == _EVENT))
        for line in lines
        for block in blocks(line)
    )
    if tags > most("events"):
        raise LimitError("", exceeded("events"))


def earliest_unix_ns(space: SpaceBytes) -> int | None:
    """The earliest line's time where lines carry UNIX time; None where they count from the start."""
    stamps = [stamp for payload in space.planes for stamp in _line_timestamps(payload)]
    return min((stamp for stamp in stamps if ABSOLUTE_NS <= stamp < LATEST_UNIX_NS), default=None)


def _line_timestamps(payload: TraceBytes) -> Iterator[int]:
    """timestamp_ns of each line of a serialized plane, without decoding its events."""
    for number, line, _ in _places(payload):
        if number == 3 and not isinstance(line, int):
            for inner, value, _ in _places(line):
                if inner == 3 and isinstance(value, int):
                    yield value
                if inner >= 3:  # the timestamp is before the events
                    break


def _places(payload: TraceBytes) -> Iterator[tuple[int, int | TraceBytes, int]]:
    """(number, value, where it ends) of the varint and length-delimited fields, up to the first that is
    neither, or is not whole."""
    if isinstance(payload, bytes):
        payload = memoryview(payload)  # whose slices are not copies
    size, position = len(payload), 0
    held, first = memoryview(b""), 0  # the bytes around `position`, and where they begin
    while position < size:
        if position + _HEADER > first + len(held) < size:
            held, first = contents(payload[position : position + _WINDOW]), position
        tag, after = _varint(held, position - first)
        number, after = _varint(held, after)  # the value, or its length
        if tag < 0 or number < 0:
            return
        if tag & 7 == 0:
            position = first + after
            yield tag >> 3, number, position
            continue
        begin = first + after
        position = begin + number
        if tag & 7 != LENGTH_DELIMITED or position > size:
            return
        yield tag >> 3, payload[begin:position], position
