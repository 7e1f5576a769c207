"""Walks a Chrome trace from block to block: whole events go to the decoder, never the whole text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.capture.limits import exceeded, most
from xlahouse.ingest.chrome.events import (
    BOUNDARY,
    Event,
    LateDecoder,
    LateEvent,
    QuickEvent,
    WholeEvent,
    array_end,
    exact_events,
    late_decoders,
    quick_decoder,
)
from xlahouse.ingest.chrome.salvage import salvage
from xlahouse.ingest.chrome.times import EXACT_US

Events: TypeAlias = Sequence[QuickEvent | WholeEvent | LateEvent | Event]
_EVENT_ARRAY = re.compile(rb'"traceEvents"\s*:\s*\[')
_CLOSE = re.compile(rb"\}\s*\]")
_PHASE = re.compile(rb'"ph"\s*:')
_EVENT_KEY = re.compile(rb'"(?:ph|pid|tid|ts|dur)"\s*:')
_FIRST_EVENT = re.compile(rb'\{\s*"(?:ph|name|cat|pid|tid|ts|args)"\s*:')
_BOM = b"\xef\xbb\xbf"
_SEARCHED = 1 << 16  # bytes before a block's end that are searched for the last whole event
_NEAR = 16  # the last places are tried one by one, earlier ones in growing strides
_CUTS = 64  # with fewer places, all of the text is searched


@dataclass
class Document:
    """A Chrome trace's text."""

    blocks: Iterable[bytes]  # the text, in order
    # JSON text around the events, by name; known after the last batch
    header: dict[str, msgspec.Raw] = field(default_factory=dict)
    repaired: int = 0  # events with a damaged name or argument
    lost: int = 0  # events that are damaged beyond use
    ends_early: bool = False  # the array of events has no end
    starts_late: bool = False  # the text begins in the middle of the events
    header_damaged: bool = False  # only a part of the header can be read
    oversized: int = 0  # events or headers that are too long, and left out
    count: int = 0  # events so far
    capped: bool = False  # there are more events than the limit; the rest is not read
    _exact: bool = False  # times are too large for doubles
    # decoders of late times that may still fit the file
    _late: tuple[LateDecoder, ...] = late_decoders

    def batches(self) -> Iterator[Events]:
        """Events in file order.

        Raises:
            ValueError: the text holds no events.
        """
        blocks = iter(self.blocks)
        head, rest = self._head(blocks)
        after: bytes | None = None
        for block in blocks:
            if after is not None:
                if len(after) > most("json_bytes"):
                    self.oversized += 1
                    break
                after += block
                continue
            events, rest, after = self._take(rest + block)
            self.count += len(events)
            yield events
            if self.count > most("events"):
                self.capped = True
                return
            if len(rest) > most("json_bytes"):
                self.oversized += 1
                events, rest = self._before_end(rest), b""
                if events:
                    yield events
                    after = b""
                    break
        if after is None:
            events, after = self._decode(rest)
            yield events
        self.ends_early = after is None
        self.header, self.header_damaged = _header(head, after or b"")

    def _head(self, blocks: Iterator[bytes]) -> tuple[bytes, bytes]:
        """(text before the array's bracket, text after it)."""
        text = b""
        for block in blocks:
            text += block.removeprefix(_BOM) if not text else block
            if text.lstrip().startswith(b"["):
                return b"", text.lstrip()[1:]
            if found := _EVENT_ARRAY.search(text):
                return text[: found.end() - 1], text[found.end() :]
            if len(text) > most("json_bytes"):
                self.oversized += 1
                break
        first = _FIRST_EVENT.search(text)
        if first is None or not _PHASE.search(text):
            where = f" before a limit: {exceeded('json_bytes')}" if self.oversized else ""
            raise ValueError(f"not a Chrome trace: it has no traceEvents{where}")
        self.starts_late = True
        # An event that is damaged where the array begins is not found as the first one: it is lost.
        before = text[: first.start()]
        self.lost += max(len(_PHASE.findall(before)), bool(_EVENT_KEY.search(before)))
        return b"", text[first.start() :]

    def _take(self, text: bytes) -> tuple[Events, bytes, bytes | None]:
        """(whole events, the beginning of the next one, text after the array's end or None)."""
        cuts = list(_cuts(text))
        for end, start in cuts:
            try:
                return self._plain(memoryview(text)[:end]), text[start:], None
            except JSON_FAULTS as error:
                if "truncated" not in str(error):
                    break  # the cut is not to blame
        if not cuts:
            return [], text, None
        end, start = cuts[0]
        events, after = self._decode(text[:end])
        return events, text[start:], None if after is None else after + text[end:]

    def _before_end(self, text: bytes) -> Events:
        """The events before the array's end, where text begins with them; none in an endless event."""
        end = _CLOSE.search(text)
        try:
            return self._plain(text[: end.start() + 1]) if end else []
        except JSON_FAULTS:
            return []

    def _decode(self, chunk: bytes) -> tuple[Events, bytes | None]:
        """(events, text after the array's end or None where it goes on), whatever the damage."""
        try:
            return self._plain(chunk), None
        except JSON_FAULTS as error:
            text = b"[" + chunk + b"]"
            ended = array_end(error, text)
        if ended is not None:
            return ended[0], text[ended[1] + 1 : -1]
        found = salvage(chunk)
        self.repaired += found.repaired
        self.lost += found.lost
        return found.events, found.after

    def _plain(self, chunk: bytes | memoryview) -> Events:
        """Events of well-formed text. Raises: JSON_FAULTS."""
        text = b"".join((b"[", chunk, b"]"))
        if not text.isascii():
            text.decode()
        if not self._exact:
            try:
                quick = quick_decoder.decode(text)
            except msgspec.ValidationError:
                return exact_events(text)
            self._exact = max((event.ts for event in quick if event.ts), default=0.0) >= EXACT_US
            if not self._exact:
                return quick
        while self._late:
            try:
                return self._late[0].decode(text)
            except msgspec.ValidationError:
                self._late = self._late[1:]  # the rest of the file has such times too
        return exact_events(text)


def _cuts(text: bytes) -> Iterator[tuple[int, int]]:
    """(end of an event, start of the next), from the text's end back in growing strides: a place may
    be inside a value, but an event ends at one of them."""
    window = max(0, len(text) - _SEARCHED)
    found = [match.span() for match in BOUNDARY.finditer(text, window)]
    if len(found) < _CUTS:
        found = [match.span() for match in BOUNDARY.finditer(text)]
    stride = 1
    while stride <= len(found):
        begin, start = found[-stride]
        yield begin + 1, start
        stride += 1 + stride // _NEAR


def _header(head: bytes, tail: bytes) -> tuple[dict[str, msgspec.Raw], bool]:
    """(members of the object around the events, whether it is damaged: then the readable ones)."""
    if not head:
        return {}, False
    whole = head + b"[]" + (tail.strip() or b"}")
    try:
        return msgspec.json.decode(whole, type=dict[str, msgspec.Raw]), False
    except JSON_FAULTS:
        pairs = re.findall(rb'"(\w+)"\s*:\s*(-?\d+|"[^"]*")\s*[,}]', head + b"[]" + tail)
        return {name.decode(): msgspec.Raw(value) for name, value in pairs}, True
