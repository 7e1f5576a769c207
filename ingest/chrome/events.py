"""One entry of a Chrome trace, decoded from unchanged JSON text."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

import msgspec

from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.ingest.chrome.times import EXACT_US

Key: TypeAlias = int | float | str | None  # a pid or tid as it is written
NOTHING = msgspec.Raw(b"")


class _Entry(msgspec.Struct, gc=False):
    """The fields of an entry, in the order in which profilers write them.

    The decoder looks for a key after the one it found last.
    """

    ph: object = None  # phase: the kind of entry, such as X for a span
    cat: object = None  # category
    name: object = None  # of the event
    pid: object = None  # process
    tid: object = None  # thread
    ts: object = None  # start, us
    dur: object = None  # duration, us
    args: object = None  # arguments, an object
    id: object = None  # of an arrow
    bp: object = None  # `e`: an arrow ends at the slice around it
    bind_id: object = None  # of an arrow that two slices state
    flow_in: object = None  # whether that arrow ends here
    flow_out: object = None  # whether that arrow leaves here


class _Beside(_Entry, gc=False):
    """Fields that every kind of entry keeps as JSON text, empty where they are absent."""

    args: msgspec.Raw = NOTHING
    id: msgspec.Raw = NOTHING
    bp: msgspec.Raw = NOTHING
    bind_id: msgspec.Raw = NOTHING
    flow_in: msgspec.Raw = NOTHING
    flow_out: msgspec.Raw = NOTHING


class _Named(_Beside, gc=False):
    """An entry whose name and place have their proper types."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: Key = None
    tid: Key = None


class Event(_Named, gc=False):
    """An entry of traceEvents, its times as JSON text."""

    ts: msgspec.Raw = NOTHING
    dur: msgspec.Raw = NOTHING


class QuickEvent(_Named, gc=False):
    """An Event whose times are doubles: exact in picoseconds as long as they are small."""

    ts: float | None = None
    dur: float | None = None


# As many digits as fit 64 bits with room for a difference.
_Whole = Annotated[int, msgspec.Meta(gt=-(10**17), lt=10**17)]
_Short = Annotated[float, msgspec.Meta(gt=-EXACT_US, lt=EXACT_US)]


class LateEvent(_Named, gc=False):
    """An Event that begins late, but is short enough for its duration to be exact as a double."""

    ts: msgspec.Raw = NOTHING
    dur: _Short | None = None


class WholeEvent(_Named, gc=False):
    """A LateEvent that begins at a whole microsecond."""

    ts: _Whole | None = None
    dur: _Short | None = None


class AnyEvent(_Beside, gc=False):
    """An Event whose fields are of any type."""

    ph: msgspec.Raw = NOTHING
    cat: msgspec.Raw = NOTHING
    name: msgspec.Raw = NOTHING
    pid: msgspec.Raw = NOTHING
    tid: msgspec.Raw = NOTHING
    ts: msgspec.Raw = NOTHING
    dur: msgspec.Raw = NOTHING


quick_decoder = msgspec.json.Decoder(list[QuickEvent])
exact_decoder = msgspec.json.Decoder(list[Event])
# For times that are too large for doubles: the fastest, which fits the fewest events, first.
LateDecoder: TypeAlias = (
    msgspec.json.Decoder[list[WholeEvent]] | msgspec.json.Decoder[list[LateEvent]]
)
late_decoders: tuple[LateDecoder, ...] = (
    msgspec.json.Decoder(list[WholeEvent]),
    msgspec.json.Decoder(list[LateEvent]),
)
any_decoder = msgspec.json.Decoder(AnyEvent)

# Where one event ends and the next begins; values may contain it too, so it has to be tried.
BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
AFTER_ARRAY = re.compile(rb'\s*\]\s*(?:,\s*"|\}\s*$|$)')
_CLOSED = re.compile(r"trailing (characters|comma in array) \(byte (\d+)\)")
BETWEEN = b", \t\r\n"


def exact_events(text: bytes) -> list[Event]:
    """Events of a JSON array. The decoder checks no more of keys and values than it needs, so UTF-8 is
    checked here: otherwise a damaged key would lose its value silently.

    Raises: JSON_FAULTS.
    """
    if not text.isascii():
        text.decode()
    return exact_decoder.decode(text)


def array_end(error: Exception, text: bytes) -> tuple[list[Event], int] | None:
    """(events, place of the bracket) where `[…]` closes before text does; None where it does not.

    Args:
        error: the decoder's error about text, which names the place.
        text: begins with the opening bracket; its last byte is one that was added.
    """
    found = _CLOSED.search(str(error))
    if found is None:
        return None
    at = int(found[2]) - 1  # of the first trailing character, or of the comma
    close = text.rfind(b"]", 0, at) if found[1] == "characters" else text.find(b"]", at)
    if close < 1 or close == len(text) - 1 or not AFTER_ARRAY.match(text[close:-1]):
        return None
    try:
        events = exact_events(text[:close].rstrip(BETWEEN) + b"]")
    except JSON_FAULTS:
        return None
    return (events, close) if all(event.ph or event == Event() for event in events) else None
