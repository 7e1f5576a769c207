"""Counts what stands in a plane under field numbers that the format lacks: decoders pass over it."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet

from xlahouse.ingest.protobuf import Messages
from xlahouse.ingest.wire import split_plane

_SHELLS = Messages(
    {
        "XPlane": """
            1 id int64*
            2 name bytes*
            4 event_metadata bytes*
            5 stat_metadata bytes*
            6 stats bytes*
        """,
        "XLine": """
            1 id int64*
            2 name bytes*
            3 timestamp_ns int64*
            4 events bytes*
            9 duration_ps int64*
            10 display_id int64*
            11 display_name bytes*
        """,
    },
    "xlahouse.shells",
)
# Fields that stand once; declared as repeated, so that repetitions can be counted.
_PLANE_ONCE = ("id", "name")
_LINE_ONCE = ("id", "name", "timestamp_ns", "duration_ps", "display_id", "display_name")
# Longer lines are not looked through: 4 MB take 15 ms, and in a long file damage shows elsewhere too.
_LONGEST_LINE = 4_000_000


def unknown_fields(payload: memoryview) -> int:
    """Fields of a serialized XPlane and of its lines that the format does not number so, or not twice.

    A plane or line that cannot be decoded has none: it is damaged, and found to be so elsewhere.
    """
    try:
        lines, rest = split_plane(payload)
        plane = _SHELLS.message("XPlane").FromString(rest)
        short = (bytes(line) for line in lines if len(line) <= _LONGEST_LINE)
        shells = [_SHELLS.message("XLine").FromString(line) for line in short]
    except DecodeError:
        return 0
    return _odd(plane, _PLANE_ONCE) + sum(_odd(line, _LINE_ONCE) for line in shells)


def _odd(message: Any, once: tuple[str, ...]) -> int:
    """Unknown fields, and repetitions of those that stand once: decoders keep the last."""
    again = sum(max(len(getattr(message, name)) - 1, 0) for name in once)
    return len(UnknownFieldSet(message)) + again
