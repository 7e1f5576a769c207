"""Saves the events of a damaged Chrome trace: decodes each again, mends or counts it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import product

import msgspec

from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.ingest.chrome.events import (
    AFTER_ARRAY,
    BETWEEN,
    BOUNDARY,
    Event,
    array_end,
    exact_events,
)
from xlahouse.ingest.chrome.mend import by_fields, clean, first_whole

_ARRAY_END = re.compile(rb"\}\s*,?\s*\]")
_PHASE = re.compile(rb'"ph"\s*:')
_PROCESS = re.compile(rb'"pid"\s*:')
_ANY_KEY = re.compile(rb'"(?:ph|ts|dur|pid|tid)"\s*:')
_SPACES = bytes.maketrans(b"\t\n\r", b"   ")
_MOST_PARTS = 8  # boundaries that may be inside one event's values
_GROUP = 512


@dataclass
class Salvage:
    """Events that were saved from damaged text."""

    events: list[Event] = field(default_factory=list)  # whole or mended
    repaired: int = 0  # how many of them lack a name or arguments, or have changed ones
    lost: int = 0  # events that are missing
    after: bytes | None = None  # text after the array's end; None where the array does not end
    is_open: bool = False  # the last piece was a damaged event, whose values may go on in the next


def salvage(chunk: bytes) -> Salvage:
    """Events of damaged text: decoded again from each place where one may begin.

    Args:
        chunk: comma-separated events, and perhaps the array's end and text after it.
    """
    found = Salvage()
    chunk = chunk.rstrip(BETWEEN)
    cleaned = clean(chunk)
    if cleaned != chunk:
        try:
            found.events = exact_events(b"[" + cleaned + b"]")
        except JSON_FAULTS:
            pass
        else:
            pieces = zip(BOUNDARY.split(chunk), BOUNDARY.split(cleaned), strict=True)
            found.repaired = sum(old.translate(_SPACES) != new for old, new in pieces) or 1
            return found
    bounds = [match.span() for match in BOUNDARY.finditer(chunk)]
    starts = [0, *(end for _, end in bounds)]
    ends = [*(start + 1 for start, _ in bounds), len(chunk)]
    at = 0
    while at < len(starts) and found.after is None:
        at = _group(chunk, starts, ends, at, min(at + _GROUP, len(starts)), found)
    return found


def _group(
    chunk: bytes, starts: list[int], ends: list[int], first: int, stop: int, found: Salvage
) -> int:
    """Take the pieces from first to stop; halve where they do not decode. Returns the next piece."""
    try:
        found.events += exact_events(b"[" + chunk[starts[first] : ends[stop - 1]] + b"]")
    except JSON_FAULTS:
        if stop - first == 1:
            return _piece(chunk, starts, ends, first, found)
    else:
        return stop
    middle = (first + stop) // 2
    at = _group(chunk, starts, ends, first, middle, found)
    while at < stop and found.after is None:
        at = _group(chunk, starts, ends, at, stop, found)
    return at


def _piece(chunk: bytes, starts: list[int], ends: list[int], at: int, found: Salvage) -> int:
    """Take one piece that does not decode by itself. Returns the next piece."""
    last = min(at + _MOST_PARTS, len(starts))
    for mended, stop in product((False, True), range(at + 1, last + 1)):
        piece = chunk[starts[at] : ends[stop - 1]]
        text = b"[" + (clean(piece) if mended else piece) + b"]"
        try:
            events = exact_events(text)
        except JSON_FAULTS as error:
            ended = array_end(error, text)
            if ended is None:
                continue
            events, found.after = ended[0], text[ended[1] + 1 : -1]
            stop = len(starts)
        found.events += events
        found.repaired += mended
        if mended:  # damage within a text may have joined two events, as if it were one
            found.lost += max(_events_in(piece) - len(events), 0)
        return stop
    _mend(chunk[starts[at] : ends[at]], found)
    return at + 1


def _mend(piece: bytes, found: Salvage) -> None:
    """Read as much as possible of one damaged event, or of several that damage has joined."""
    rest = piece
    while (next_one := first_whole(rest)) is not None:
        event, before, rest, mended = next_one
        found.is_open = False
        found.lost += _events_in(before)
        found.repaired += mended
        found.events.append(event)
    rest = rest.strip(BETWEEN)
    if rest.startswith(b"]") and AFTER_ARRAY.match(rest):
        found.after, rest = rest[1:], b""
    for match in _ARRAY_END.finditer(rest):
        if _ends_document(rest[match.end() :]):
            found.after, rest = rest[match.end() :], rest[: match.start() + 1]
            break
    if not rest or rest == b"{}":
        return
    guessed = by_fields(rest)
    if guessed is not None:
        found.events.append(guessed)
        found.repaired += 1
        found.lost += max(_events_in(rest) - 1, 0)  # damage has joined others to it
    elif not found.is_open or _ANY_KEY.search(rest):
        found.lost += _events_in(rest)
    found.is_open = True


def _events_in(damaged: bytes) -> int:
    """How many events were in damaged text: each has a phase and a process, of which one may be damaged."""
    found = (len(key.findall(damaged)) for key in (_PHASE, _PROCESS))
    return max(*found, bool(damaged.strip(BETWEEN)))


def _ends_document(text: bytes) -> bool:
    """Whether text may follow the array of events: the rest of an object, or nothing."""
    try:
        msgspec.json.decode(b'{"":0' + (text.strip() or b"}"), type=dict[str, msgspec.Raw])
    except JSON_FAULTS:
        return False
    return True
