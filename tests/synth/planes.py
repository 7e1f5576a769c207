"""Planes and lines in XSpace's wire format, in pieces, so that no line is ever held whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tests.synth.protos import XPlane
from tests.synth.varints import EventBatch, delimited, encode, encoded_size, varint

Value = int | float | str | bytes


@dataclass(frozen=True)
class Unsigned:
    """A stat that goes into uint64_value, as ids above 2^63 must."""

    value: int


@dataclass
class Line:
    """A line; `batches` gives its events afresh each time it is called."""

    id: int
    name: str
    batches: Callable[[], Iterable[EventBatch]] = tuple
    timestamp_ns: int = 0

    @property
    def head(self) -> bytes:
        """All of the line but its events."""
        name = self.name.encode()
        head = b"\x08" + varint(self.id) + delimited(2, len(name)) + name
        return head + (b"\x18" + varint(self.timestamp_ns) if self.timestamp_ns else b"")

    def size(self) -> int:
        """Bytes of the line's body, worked out without encoding."""
        return len(self.head) + encoded_size(self.batches())

    def pieces(self, size: int) -> Iterator[bytes]:
        """The line as a field of its plane."""
        yield delimited(3, size) + self.head
        yield from encode(self.batches())


@dataclass
class Plane:
    """A plane under construction: its lines, and the metadata that their events point to."""

    id: int
    name: str
    lines: list[Line] = field(default_factory=list)
    stats: dict[str, Value | Unsigned] = field(default_factory=dict)
    stat_ids: dict[str, int] = field(default_factory=dict)
    event_ids: dict[str, int] = field(default_factory=dict)
    tail: XPlane = field(default_factory=XPlane)

    def stat_id(self, name: str) -> int:
        """Metadata id of a stat's name."""
        if name not in self.stat_ids:
            number = self.stat_ids[name] = len(self.stat_ids) + 1
            entry = self.tail.stat_metadata.add(key=number)
            entry.value.id, entry.value.name = number, name
        return self.stat_ids[name]

    def event_id(
        self,
        key: str,
        name: str,
        display: str = "",
        stats: dict[str, Value | Unsigned] | None = None,
        number: int | None = None,
    ) -> int:
        """Metadata id of a kind of event; `key` distinguishes kinds with the same name."""
        if key not in self.event_ids:
            number = len(self.event_ids) + 1 if number is None else number
            self.event_ids[key] = number
            entry = self.tail.event_metadata.add(key=number)
            entry.value.id, entry.value.name, entry.value.display_name = number, name, display
            self._add_stats(entry.value.stats, stats or {})
        return self.event_ids[key]

    def _add_stats(self, target, stats: dict[str, Value | Unsigned]) -> None:
        for name, value in stats.items():
            stat = target.add(metadata_id=self.stat_id(name))
            if isinstance(value, Unsigned):
                stat.uint64_value = value.value
            elif isinstance(value, bytes):
                stat.bytes_value = value
            elif isinstance(value, str):
                stat.str_value = value
            elif isinstance(value, float):
                stat.double_value = value
            else:
                stat.int64_value = value

    def pieces(self) -> Iterator[bytes]:
        """The plane as a field of its space."""
        sizes = [line.size() for line in self.lines]  # this also registers the events' metadata
        self._add_stats(self.tail.stats, self.stats)
        tail = self.tail.SerializeToString(deterministic=True)
        head = XPlane(id=self.id, name=self.name).SerializeToString()
        lines = sum(len(delimited(3, size)) + size for size in sizes)
        yield delimited(1, len(head) + lines + len(tail)) + head
        for line, size in zip(self.lines, sizes, strict=True):
            yield from line.pieces(size)
        yield tail
