"""Columns of a Chrome trace: every event of a file in one frame, and the names of its lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa

from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.ingest.chrome import times
from xlahouse.ingest.chrome.document import Document, Events
from xlahouse.ingest.chrome.events import NOTHING, Key
from xlahouse.ingest.events.arrow_arrays import native_buffer, series_of
from xlahouse.ingest.events.containers import Unpacked
from xlahouse.ingest.events.frames import LATEST_PS, ColumnTypes

METADATA = "M"
_AT_ONCE = 30_000
_NULL_LENGTHS = (0, len("null"))
# us and ps together are a time (ingest/chrome/times.py). id, args and bind_id are JSON text.
CHROME_EVENTS: ColumnTypes = {
    "line": pl.Int32,
    "ph": pl.String,
    "name": pl.String,
    "cat": pl.String,
    "us": pl.Int64,
    "ps": pl.Int64,
    "duration_ps": pl.Int64,
    "id": pl.String,
    "args": pl.String,
    "bp": pl.String,
    "bind_id": pl.String,
    "flow_in": pl.Boolean,
    "flow_out": pl.Boolean,
}
Line = tuple[str, str]  # pid, tid


class _Numbers(dict[Key, "_Threads"]):
    """Numbers of lines, by pid and then tid as they are written; a new line gets the next one."""

    def __init__(self) -> None:
        self.lines: list[tuple[Key, Key]] = []

    def __missing__(self, pid: Key) -> _Threads:
        found = self[pid] = _Threads(pid, self.lines)
        return found


class _Threads(dict[Key, int]):
    def __init__(self, pid: Key, lines: list[tuple[Key, Key]]) -> None:
        self.pid, self.lines = pid, lines

    def __missing__(self, tid: Key) -> int:
        self.lines.append((self.pid, tid))
        number = self[tid] = len(self.lines) - 1
        return number


@dataclass
class Trace:
    """A Chrome trace as columns."""

    document: Document  # the text around the events, and its damage
    # CHROME_EVENTS and `event` (number in file order), without metadata events
    events: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=CHROME_EVENTS))
    lines: list[Line] = field(default_factory=list)  # pid and tid, by number of the line
    processes: dict[str, str] = field(default_factory=dict)  # pid -> name, from metadata events
    threads: dict[Line, str] = field(default_factory=dict)  # name of a thread, from metadata events
    labels: dict[str, str] = field(default_factory=dict)  # pid -> label, such as "GPU 0"
    damage: str | None = None  # why the container ends too early

    @property
    def header(self) -> dict[str, msgspec.Raw]:
        """JSON text around the events, by name."""
        return self.document.header


def read_columns(raw: bytes) -> Trace:
    """A file's events as columns.

    Args:
        raw: the file, compressed or not.

    Raises:
        ValueError: it holds no events.
    """
    unpacked = Unpacked(raw)
    trace = Trace(Document(unpacked))
    numbers = _Numbers()
    frames = []
    for batch in _gathered(_batches(trace.document, unpacked)):
        frame = _columns(batch, numbers)
        metadata = frame.filter(pl.col("ph") == METADATA)
        if not metadata.is_empty():
            _name_lines(trace, metadata, numbers.lines)
            frame = frame.filter(pl.col("ph") != METADATA)
        frames.append(frame)
    trace.damage = unpacked.damage
    named = [(_key(pid), _key(tid)) for pid, tid in numbers.lines]
    numbered = {line: number for number, line in enumerate(dict.fromkeys(named))}
    trace.lines = list(numbered)
    same = [numbered[line] for line in named]
    events = pl.concat(frames).with_row_index("event")
    if same != list(range(len(same))):
        events = events.with_columns(pl.col("line").replace_strict(range(len(same)), same))
    trace.events = events.with_columns(pl.col("line").cast(pl.Int32))
    return trace


def _batches(document: Document, unpacked: Unpacked) -> Iterator[Events]:
    try:
        yield from document.batches()
    except ValueError as error:
        if unpacked.damage is None:
            raise
        raise ValueError(f"{error}; {unpacked.damage}") from error


def _gathered(batches: Iterator[Events]) -> Iterator[Events]:
    """Batches of one kind of event, joined up to _AT_ONCE: long columns cost little time, but as objects
    their events take some 500 bytes each."""
    held: Events = []
    for batch in batches:
        if held and (len(held) >= _AT_ONCE or (batch and type(batch[0]) is not type(held[0]))):
            yield held
            held = []
        held = [*held, *batch] if held else batch
    yield held


def _columns(events: Events, numbers: _Numbers) -> pl.DataFrame:
    """A frame of events; adds their lines to `numbers`."""
    events = [event for event in events if event.ph or event.name or event.ts]
    starts = _times([event.ts for event in events])
    durations = _times([event.dur for event in events])
    short = durations["us"].is_between(-LATEST_PS // times.PS, LATEST_PS // times.PS)
    length = durations["us"].set(~short.fill_null(False), None) * times.PS + durations["ps"]
    return pl.DataFrame(
        {
            "line": pl.Series([numbers[each.pid][each.tid] for each in events], dtype=pl.Int32),
            "ph": pl.Series([event.ph for event in events], dtype=pl.String),
            "name": pl.Series([event.name for event in events], dtype=pl.String),
            "cat": pl.Series([event.cat for event in events], dtype=pl.String),
            "us": starts["us"],
            "ps": starts["ps"],
            "duration_ps": length,
            "id": _texts([event.id for event in events]),
            "args": _texts([event.args for event in events]),
            "bp": _texts([event.bp for event in events]).str.strip_chars('" '),
            "bind_id": _texts([event.bind_id for event in events]),
            "flow_in": _texts([event.flow_in for event in events]) == "true",
            "flow_out": _texts([event.flow_out for event in events]) == "true",
        },
        schema=CHROME_EVENTS,
    )


def _times(values: Sequence[float | msgspec.Raw | None]) -> pl.DataFrame:
    """us, ps of times that the decoder gave as doubles, as whole numbers, or as text."""
    first = next((value for value in values if value is not None), 0.0)
    if isinstance(first, float):
        return times.from_doubles(pl.Series(values, dtype=pl.Float64))
    if isinstance(first, int):
        return times.from_whole(pl.Series(values, dtype=pl.Int64))
    return times.from_text(_texts(cast(list[msgspec.Raw], values)))


def _texts(values: list[msgspec.Raw]) -> pl.Series:
    """JSON text; NULL where it is absent or null."""
    count = len(values)
    if values.count(NOTHING) == count:  # fast path: absent values are one object
        return pl.Series([None], dtype=pl.String).new_from_index(0, count)
    joined = b"".join(values)
    lengths = np.fromiter(map(len, values), np.int64, count)
    if joined.isascii():
        ends, offsets = native_buffer(np.int64, count + 1)
        offsets[0] = 0
        np.cumsum(lengths, out=offsets[1:])
        data, characters = native_buffer(np.uint8, len(joined))
        characters[:] = np.frombuffer(joined, np.uint8)
        texts = series_of(pa.LargeStringArray.from_buffers(count, ends, data))
    else:
        texts = _decoded(values)
    if not np.isin(lengths, _NULL_LENGTHS).any():
        return texts
    return texts.set(texts.is_in(["", "null"]), None)


def _decoded(values: list[msgspec.Raw]) -> pl.Series:
    raw = pl.Series("raw", [bytes(value) for value in values], dtype=pl.Binary)
    try:
        return raw.cast(pl.String)
    except pl.exceptions.ComputeError:  # rare: arguments are not checked when they are cut out
        return raw.map_elements(lambda value: value.decode("utf-8", "replace"), pl.String)


def _key(number: Key) -> str:
    """A pid or tid as text: a number and a string are the same one."""
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    return "" if number is None else str(number)


def _name_lines(trace: Trace, metadata: pl.DataFrame, keys: list[tuple[Key, Key]]) -> None:
    for name, line, args in metadata.select("name", "line", "args").iter_rows():
        pid, tid = (_key(part) for part in keys[line])
        try:
            said = msgspec.json.decode(args or "{}", type=dict[str, object])
        except JSON_FAULTS:
            continue
        if name == "process_name" and said.get("name"):
            trace.processes[pid] = str(said["name"]).strip()
        elif name == "thread_name" and said.get("name"):
            trace.threads[pid, tid] = str(said["name"]).strip()
        elif name == "process_labels" and said.get("labels"):
            trace.labels[pid] = str(said["labels"]).strip()
