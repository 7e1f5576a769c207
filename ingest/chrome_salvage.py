"""Events of a damaged Chrome trace: decoded again from each place where one may begin, mended or counted."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import product

import msgspec

from xlahouse.ingest.chrome_events import (
    AFTER_ARRAY,
    BETWEEN,
    BOUNDARY,
    FAILURES,
    NOTHING,
    AnyEvent,
    Event,
    any_decoder,
    array_end,
    exact_decoder,
)

_START = re.compile(rb'\{\s*"(?:ph|name|cat|pid|tid|ts|args|s|id|bp)"\s*:')
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_LAST = re.compile(rb"\}\s*,?\s*\]")
_COMMA = re.compile(rb",(?=\s*[}\]])")
_NOT_A_NUMBER = re.compile(rb"(?<=[:\[,])(\s*)([-+]?(?:nan|inf(?:inity)?))(?=\s*[,}\]])", re.I)
_CONTROL = bytes.maketrans(bytes(range(32)), b" " * 32)
_SPACES = bytes.maketrans(b"\t\n\r", b"   ")
_NUMBER = rb'\s*"?([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)"?\s*[,}]'
_KEYS = rb'"(?:ph|name|cat|pid|tid|ts|dur|id|args|s|bp|tts|tdur)"\s*:'
_ANY_KEY = re.compile(rb'"(?:ph|ts|dur|pid|tid)"\s*:')
_FIELDS = {
    name: re.compile(rb'"' + name.encode() + rb'"\s*:' + value)
    for name, value in {
        "ph": rb'\s*"([A-Za-z])"',
        "ts": _NUMBER,
        "dur": _NUMBER,
        "pid": rb'\s*(-?[0-9]+|"[^"]*")\s*[,}]',
        "tid": rb'\s*(-?[0-9]+|"[^"]*")\s*[,}]',
        "cat": rb'\s*"([^"]*)"\s*[,}]',
        # An unescaped quote does not end a name; a quote before the next key does.
        "name": rb'\s*"(.*?)"\s*(?:,\s*' + _KEYS + rb"|\}\s*$)",
    }.items()
}
_TIMED = {"X": ("ts", "dur")}
_MOST_PARTS = 8  # boundaries that may stand inside of one event's values
_GROUP = 512
_LONGEST = 1 << 17  # bytes of an event that is looked for in damaged text


@dataclass
class Salvage:
    """What could be had of damaged text.

    events: whole ones. repaired: how many of them lack a name or arguments, or have them changed. lost:
    events that are not there. after: what follows the array's end; None where the array does not end.
    """

    events: list[Event] = field(default_factory=list)
    repaired: int = 0
    lost: int = 0
    after: bytes | None = None
    is_open: bool = False  # the last piece was a damaged event, whose values may go on in the next


def salvage(chunk: bytes) -> Salvage:
    """Events of damaged text: decoded again from each place where one may begin.

    Args:
        chunk: comma-separated events, and perhaps the array's end and what follows it.
    """
    found = Salvage()
    chunk = chunk.rstrip(BETWEEN)
    cleaned = clean(chunk)
    if cleaned != chunk:
        try:
            found.events = exact_decoder.decode(b"[" + cleaned + b"]")
        except FAILURES:
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
        found.events += exact_decoder.decode(b"[" + chunk[starts[first] : ends[stop - 1]] + b"]")
    except FAILURES:
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
            events = exact_decoder.decode(text)
        except FAILURES as error:
            ended = array_end(error, text)
            if ended is None:
                continue
            events, found.after = ended[0], text[ended[1] + 1 : -1]
            stop = len(starts)
        found.events += events
        found.repaired += mended
        return stop
    _mend(chunk[starts[at] : ends[at]], found)
    return at + 1


def _mend(piece: bytes, found: Salvage) -> None:
    """Take what can be had of one damaged event, or of several that damage has run together."""
    rest = piece
    while (next_one := _first_whole(rest)) is not None:
        event, before, rest, mended = next_one
        found.is_open = False
        found.lost += bool(before.strip(BETWEEN))
        found.repaired += mended
        found.events.append(event)
    rest = rest.strip(BETWEEN)
    if rest.startswith(b"]") and AFTER_ARRAY.match(rest):
        found.after, rest = rest[1:], b""
    for match in _LAST.finditer(rest):
        if _ends_document(rest[match.end() :]):
            found.after, rest = rest[match.end() :], rest[: match.start() + 1]
            break
    if not rest or rest == b"{}":
        return
    guessed = _by_fields(rest)
    if guessed is not None:
        found.events.append(guessed)
        found.repaired += 1
    elif not found.is_open or _ANY_KEY.search(rest):
        found.lost += 1
    found.is_open = True


def _ends_document(text: bytes) -> bool:
    """Whether text is what may follow the array of events: the rest of an object, or nothing."""
    try:
        msgspec.json.decode(b'{"":0' + (text.strip() or b"}"), type=dict[str, msgspec.Raw])
    except FAILURES:
        return False
    return True


def _first_whole(text: bytes) -> tuple[Event, bytes, bytes, bool] | None:
    """(event, what stands before it, what follows, whether it had to be mended) of the first whole one."""
    for match in _START.finditer(text):
        tail = text[match.start() : match.start() + _LONGEST]
        for tried in (tail, cleaned := clean(tail), _COMMA.sub(b"", cleaned)):
            event, length = _prefix(tried)
            if event is not None and event.ph:
                after = tried[length:] + text[match.start() + _LONGEST :]
                return event, text[: match.start()], after, tried is not tail
    return None


def _prefix(text: bytes) -> tuple[Event | None, int]:
    """(event that text begins with, its length); (None, 0) where none does."""
    try:
        return _typed(any_decoder.decode(text)), len(text)
    except FAILURES as error:
        trailing = _TRAILING.search(str(error))
    if trailing is None:
        return None, 0
    length = text.rfind(b"}", 0, int(trailing[1]) - 1) + 1
    return _whole(text[:length]), length


def _whole(text: bytes) -> Event | None:
    try:
        return _typed(any_decoder.decode(text))
    except FAILURES:
        return None


def _typed(found: AnyEvent) -> Event:
    """An event of any types as one of the right types: what is no text becomes its JSON text."""
    words = {name: _word(getattr(found, name)) for name in ("ph", "name", "cat", "pid", "tid")}
    return Event(
        words["ph"] or "",
        words["name"] or "",
        words["cat"] or "",
        words["pid"],
        words["tid"],
        *(getattr(found, name).copy() for name in ("ts", "dur", "id", "args")),
    )


def _word(raw: msgspec.Raw) -> str | None:
    text = bytes(raw)
    if not text or text == b"null":
        return None
    try:
        value = msgspec.json.decode(text)
    except FAILURES:
        value = text.strip(b'"').decode("utf-8", "replace")
    return value if isinstance(value, str) else text.decode("utf-8", "replace")


def _by_fields(text: bytes) -> Event | None:
    """An event from the fields that can still be told; None where its times cannot be trusted."""
    before_args = text.partition(b'"args"')[0]
    read = {}
    for name, pattern in _FIELDS.items():
        matches = pattern.findall(before_args) or pattern.findall(text)
        if matches:
            read[name] = matches
    phase = read.get("ph", [b""])[0].decode("utf-8", "replace")
    needed = _TIMED.get(phase, ("ts",))
    if not phase or phase == "M" or any(len(read.get(name, ())) != 1 for name in needed):
        return None
    words = {
        name: _unquoted(read[name][0].translate(_CONTROL).removeprefix(b'"').removesuffix(b'"'))
        for name in ("name", "cat", "pid", "tid")
        if name in read
    }
    return Event(
        ph=phase,
        name=words.get("name", ""),
        cat=words.get("cat", ""),
        pid=words.get("pid"),
        tid=words.get("tid"),
        ts=msgspec.Raw(read["ts"][0]),
        dur=msgspec.Raw(read["dur"][0]) if "dur" in read else NOTHING,
    )


def _unquoted(text: bytes) -> str:
    """What stands between the quotes of a string, its escapes resolved where they can be."""
    try:
        return msgspec.json.decode(b'"' + text + b'"', type=str)
    except FAILURES:
        return text.decode("utf-8", "replace")


def clean(text: bytes) -> bytes:
    """Text without what no JSON holds: control bytes, invalid UTF-8, numbers that are none."""
    try:
        text.decode()
    except UnicodeDecodeError:
        text = text.decode("utf-8", "replace").encode()
    return _NOT_A_NUMBER.sub(rb'\1"\2"', text.translate(_CONTROL))
