"""Cuts an XSpace at its top level, on the wire: planes, names and times, without decoding them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xlahouse.capture.errors import TraceFormatError
from xlahouse.ingest.events.misread import text_codec
from xlahouse.ingest.events.trace_bytes import TraceBytes

PLANES_FIELD, HOSTNAMES_FIELD = 1, 4
SPACE_FIELDS = range(1, 5)
LENGTH_DELIMITED = 2
# Line timestamps from here on are UNIX time, not time since the profile's start.
ABSOLUTE_NS = 10**15
LATEST_UNIX_NS = 1 << 62  # the year 2116


@dataclass(frozen=True)
class SpaceBytes:
    """A file cut at its top level."""

    planes: list[memoryview]  # serialized
    hostnames: list[str]
    damaged_at: int | None  # byte from which on it cannot be parsed
    unknown: int = 0  # fields whose numbers XSpace lacks


def split_space(raw: TraceBytes, path: str) -> SpaceBytes:
    """Cut an XSpace into its planes without decoding them.

    Raises:
        TraceFormatError: no whole plane can be read from the file.
    """
    if not raw:
        raise TraceFormatError(path, "the file is empty: the profiler wrote nothing; capture again")
    planes, hostnames, unknown = [], [], 0
    damaged_at = None
    view = memoryview(raw)
    position = 0
    while position < len(raw):
        field = _next_field(view, position)
        if field is None:
            damaged_at = position
            break
        number, payload, position = field
        if number == PLANES_FIELD:
            planes.append(payload)
        elif number == HOSTNAMES_FIELD:
            hostnames.append(bytes(payload).decode("utf-8", "replace"))
        elif number not in SPACE_FIELDS:
            unknown += 1
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


def _next_field(view: memoryview, position: int) -> tuple[int, memoryview, int] | None:
    """(field number, payload, next position), or None where no whole field starts here."""
    tag, position = _varint(view, position)
    length, position = _varint(view, position)
    if tag < 0 or length < 0 or tag & 7 != LENGTH_DELIMITED or position + length > len(view):
        return None
    return tag >> 3, view[position : position + length], position + length


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


def plane_name(payload: memoryview) -> str:
    """A serialized plane's name, without decoding the plane."""
    for number, value in _fields(payload):
        if number == 2 and isinstance(value, memoryview):
            return bytes(value).decode("utf-8", "replace")
    return ""


def has_events(line: memoryview) -> bool:
    """Whether a serialized line holds an event, without decoding it."""
    return any(number == 4 for number, _ in _fields(line))


def split_plane(payload: memoryview) -> tuple[list[memoryview], bytes]:
    """(serialized lines, the plane without them); from damage on, everything is in the latter."""
    lines: list[memoryview] = []
    rest = bytearray()
    kept = position = 0  # all before `kept` is in one of the two
    for number, value, after in _places(payload):
        if number == 3 and isinstance(value, memoryview):
            rest += payload[kept:position]
            lines.append(value)
            kept = after
        position = after
    rest += payload[kept:]
    return lines, bytes(rest)


def earliest_unix_ns(space: SpaceBytes) -> int | None:
    """The earliest line's time where lines carry UNIX time; None where they count from the start."""
    stamps = [stamp for payload in space.planes for stamp in _line_timestamps(payload)]
    return min((stamp for stamp in stamps if ABSOLUTE_NS <= stamp < LATEST_UNIX_NS), default=None)


def _line_timestamps(payload: memoryview) -> Iterator[int]:
    """timestamp_ns of each line of a serialized plane, without decoding its events."""
    for number, line in _fields(payload):
        if number == 3 and isinstance(line, memoryview):
            for inner, value in _fields(line):
                if inner == 3 and isinstance(value, int):
                    yield value
                if inner >= 3:  # the timestamp is before the events
                    break


def _fields(payload: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """(number, value) of the varint and length-delimited fields, up to the first that is neither."""
    return ((number, value) for number, value, _ in _places(payload))


def _places(payload: memoryview) -> Iterator[tuple[int, int | memoryview, int]]:
    """The same, with where each field ends."""
    position = 0
    while position < len(payload):
        tag, after = _varint(payload, position)
        if tag & 7 == 0:
            value, position = _varint(payload, after)
            yield tag >> 3, value, position
            continue
        field = _next_field(payload, position)
        if field is None:
            return
        number, content, position = field
        yield number, content, position
