"""Reads one event from damaged text: whole, mended, or rebuilt from the fields that are left."""

from __future__ import annotations

import re

import msgspec

from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.ingest.chrome.events import NOTHING, AnyEvent, Event, any_decoder

_START = re.compile(rb'\{\s*"(?:ph|name|cat|pid|tid|ts|args|s|id|bp)"\s*:')
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")
_COMMA = re.compile(rb",(?=\s*[}\]])")
_NOT_A_NUMBER = re.compile(rb"(?<=[:\[,])(\s*)([-+]?(?:nan|inf(?:inity)?))(?=\s*[,}\]])", re.I)
_CONTROL = bytes.maketrans(bytes(range(32)), b" " * 32)
_NUMBER_VALUE = rb'\s*"?([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)"?\s*[,}]'
_EVENT_KEYS = rb'"(?:ph|name|cat|pid|tid|ts|dur|id|args|s|bp|tts|tdur)"\s*:'
_FIELD_PATTERNS = {
    name: re.compile(rb'"' + name.encode() + rb'"\s*:' + value)
    for name, value in {
        "ph": rb'\s*"([A-Za-z])"',
        "ts": _NUMBER_VALUE,
        "dur": _NUMBER_VALUE,
        "pid": rb'\s*(-?[0-9]+|"[^"]*")\s*[,}]',
        "tid": rb'\s*(-?[0-9]+|"[^"]*")\s*[,}]',
        "cat": rb'\s*"([^"]*)"\s*[,}]',
        # An unescaped quote does not end a name; a quote before the next key does.
        "name": rb'\s*"(.*?)"\s*(?:,\s*' + _EVENT_KEYS + rb"|\}\s*$)",
    }.items()
}
_TIMED = {"X": ("ts", "dur")}
_RAW = ("ts", "dur", "id", "args", "bp", "bind_id", "flow_in", "flow_out")
_LONGEST_EVENT = 1 << 17  # bytes of an event that is searched in damaged text


def first_whole(text: bytes) -> tuple[Event, bytes, bytes, bool] | None:
    """(event, text before it, text after it, whether it had to be mended) of the first whole one."""
    for match in _START.finditer(text):
        tail = text[match.start() : match.start() + _LONGEST_EVENT]
        for tried in (tail, cleaned := clean(tail), _COMMA.sub(b"", cleaned)):
            event, length = _prefix(tried)
            if event is not None and event.ph:
                after = tried[length:] + text[match.start() + _LONGEST_EVENT :]
                return event, text[: match.start()], after, tried is not tail
    return None


def _prefix(text: bytes) -> tuple[Event | None, int]:
    """(event that text begins with, its length); (None, 0) where none does."""
    try:
        any_decoder.decode(text)
    except JSON_FAULTS as error:
        trailing = _TRAILING.search(str(error))
        if trailing is None:
            return None, 0
        text = text[: text.rfind(b"}", 0, int(trailing[1]) - 1) + 1]
    return _whole(text), len(text)


def _whole(text: bytes) -> Event | None:
    try:
        text.decode()
        return _typed(any_decoder.decode(text))
    except JSON_FAULTS:
        return None


def _typed(found: AnyEvent) -> Event:
    """An event with fields of the right types: a value that is not text becomes its JSON text."""
    words = {name: _word(getattr(found, name)) for name in ("ph", "name", "cat", "pid", "tid")}
    return Event(
        ph=words["ph"] or "",
        name=words["name"] or "",
        cat=words["cat"] or "",
        pid=words["pid"],
        tid=words["tid"],
        **{name: getattr(found, name).copy() for name in _RAW},
    )


def _word(raw: msgspec.Raw) -> str | None:
    text = bytes(raw)
    if not text or text == b"null":
        return None
    try:
        value = msgspec.json.decode(text)
    except JSON_FAULTS:
        value = text.strip(b'"').decode("utf-8", "replace")
    return value if isinstance(value, str) else text.decode("utf-8", "replace")


def by_fields(text: bytes) -> Event | None:
    """An event from the fields that can still be read; None where its times cannot be trusted."""
    before_args = text.partition(b'"args"')[0]
    read = {}
    for name, pattern in _FIELD_PATTERNS.items():
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
    """The text between the quotes of a string, with its escapes resolved where possible."""
    try:
        return msgspec.json.decode(b'"' + text + b'"', type=str)
    except JSON_FAULTS:
        return text.decode("utf-8", "replace")


def clean(text: bytes) -> bytes:
    """Text without bytes that JSON forbids: control bytes, invalid UTF-8, numbers such as nan."""
    try:
        text.decode()
    except UnicodeDecodeError:
        text = text.decode("utf-8", "replace").encode()
    return _NOT_A_NUMBER.sub(rb'\1"\2"', text.translate(_CONTROL))
