"""Counts the fields of a plane whose numbers the format lacks: decoders ignore them."""

from __future__ import annotations

from collections.abc import Iterable

from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet

from xlahouse.capture.errors import LimitError
from xlahouse.ingest.events.proto import MESSAGES
from xlahouse.ingest.events.protobuf import Messages
from xlahouse.ingest.events.trace_bytes import TraceBytes
from xlahouse.ingest.xplane.wire import split_plane

_LINE = """
    1 id int64*
    2 name bytes*
    3 timestamp_ns int64*
    4 events {}*
    9 duration_ps int64*
    10 display_id int64*
    11 display_name bytes*
"""
_SHELLS = Messages(
    {
        "XPlane": """
            1 id int64*
            2 name bytes*
            4 event_metadata bytes*
            5 stat_metadata bytes*
            6 stats bytes*
        """,
        "XLine": _LINE.format("bytes"),
        "XLineWhole": _LINE.format("XEvent"),
        "XEvent": MESSAGES["XEvent"],
        "XStat": MESSAGES["XStat"],
    },
    "xlahouse.shells",
)
# Fields that occur once; declared as repeated, so that repetitions can be counted.
_PLANE_ONCE = ("id", "name")
_LINE_ONCE = ("id", "name", "timestamp_ns", "duration_ps", "display_id", "display_name")
# Longer lines are not examined: 4 MB take 15 ms, and in a long file damage shows elsewhere too.
_LONGEST_LINE = 4_000_000
# Bytes of a file's lines whose events are examined: 20 ms.
_MOST_EVENTS = 1_000_000


def unknown_fields(planes: Iterable[TraceBytes]) -> int:
    """Number of fields of serialized XPlanes and their lines that the format lacks, or that repeat.

    All such fields in a line's events count as one. A plane or line that cannot be decoded counts 0:
    its damage is reported elsewhere.
    """
    found, left = 0, _MOST_EVENTS
    for payload in planes:
        try:
            lines, rest = split_plane(payload)
            found += _odd(_SHELLS.message("XPlane").FromString(rest), _PLANE_ONCE)
            for line in lines:
                if len(line) <= _LONGEST_LINE:
                    found += _of_line(bytes(line), deep=len(line) <= left)
                    left -= len(line)
        except (DecodeError, LimitError):
            continue
    return found


def _of_line(line: bytes, deep: bool) -> int:
    shell = _odd(_SHELLS.message("XLine").FromString(line), _LINE_ONCE)
    return shell or int(deep and _lost_within(line))


def _lost_within(line: bytes) -> bool:
    """Whether events hold bytes that a decoder drops: an event of damaged length swallows later ones."""
    whole = _SHELLS.message("XLineWhole").FromString(line)
    whole.DiscardUnknownFields()
    kept = whole.ByteSize()
    if kept == len(line):
        return False
    # Numbers may also be written longer than they need be.
    return bool(kept < _SHELLS.message("XLineWhole").FromString(line).ByteSize())


def _odd(message: Message, once: tuple[str, ...]) -> int:
    """Unknown fields, and repetitions of fields that occur once: decoders keep the last."""
    again = sum(max(len(getattr(message, name)) - 1, 0) for name in once)
    return len(UnknownFieldSet(message)) + again
