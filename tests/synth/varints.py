"""Encodes many events at once with numpy, so that a line of 10^8 is written without holding it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

EVENT_TAG, STAT_TAG = 0x22, 0x22  # XLine.events = 4 and XEvent.stats = 4, both length-delimited
# Columns of an encoded event: tag, length, 3 x (tag, value), then a stat's 6.
OFFSET_COLUMN, FIRST_STAT, STAT_COLUMNS = 5, 8, 6
# XStat.uint64_value = 3, int64_value = 4, ref_value = 7
UINT64, INT64, REFERENCE = (
    0x18,
    0x20,
    0x38,
)


@dataclass(frozen=True)
class StatColumn:
    """One integer stat of a batch: its metadata id (< 128), its field's tag, and a value an event.

    `present` is None where every event has the stat; `moves` says that it is a time as offset_ps is.
    """

    metadata_id: int
    tag: int
    values: np.ndarray
    present: np.ndarray | None = None
    moves: bool = False


@dataclass(frozen=True)
class EventBatch:
    """Events of one line in order; times in ps from the line's timestamp.

    With `bases`, ascending, the events repeat, once after each of these times.
    """

    metadata_id: np.ndarray
    offset_ps: np.ndarray
    duration_ps: np.ndarray
    stats: tuple[StatColumn, ...] = ()
    bases: np.ndarray | None = None

    def at(self, base: int) -> EventBatch:
        """The events after one of the bases."""
        stats = (replace(s, values=s.values + base) if s.moves else s for s in self.stats)
        return replace(self, offset_ps=self.offset_ps + base, stats=tuple(stats), bases=None)


def varint(value: int) -> bytes:
    """One unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def delimited(number: int, size: int) -> bytes:
    """Tag and length in front of a length-delimited field."""
    return varint(number << 3 | 2) + varint(size)


def _lengths(values: np.ndarray) -> np.ndarray:
    lengths = np.ones(values.shape, dtype=np.int64)
    for bits in range(7, 64, 7):
        lengths += values >= np.uint64(1 << bits)
    return lengths


def _columns(batch: EventBatch) -> tuple[np.ndarray, np.ndarray]:
    """A batch -> varints [events, columns] and the bytes of each (0 = absent).

    Every tag and length below 128 is a varint too, so one encoder does for all.
    """
    count = len(batch.metadata_id)
    fields = (batch.metadata_id, batch.offset_ps, batch.duration_ps)
    columns: list[tuple[np.ndarray | int, np.ndarray | None]] = []
    for tag, values in zip((0x08, 0x10, 0x18), fields, strict=True):
        columns += [(tag, None), (values, None)]
    for stat in batch.stats:
        values = stat.values.astype(np.uint64)
        inside = 3 + _lengths(values)
        parts = (STAT_TAG, inside, 0x08, stat.metadata_id, stat.tag, values)
        columns += [(part, stat.present) for part in parts]
    varints = np.empty((count, len(columns) + 2), dtype=np.uint64)
    for index, (part, _) in enumerate(columns):
        varints[:, index + 2] = part if isinstance(part, int) else part.astype(np.uint64)
    lengths = _lengths(varints)
    for index, (_, present) in enumerate(columns):
        if present is not None:
            lengths[~present, index + 2] = 0
    varints[:, 0], varints[:, 1] = EVENT_TAG, lengths[:, 2:].sum(axis=1)
    lengths[:, :2] = _lengths(varints[:, :2])
    return varints, lengths


def _alike(batch: EventBatch) -> Iterator[tuple[EventBatch, np.ndarray]]:
    """A repeated batch in parts of which every repetition has the same number of bytes.

    Times only grow, and so do their varints: a part is alike when its first and last repetition are.
    """
    bases = np.zeros(1, dtype=np.int64) if batch.bases is None else batch.bases
    ends = (_columns(batch.at(int(bases[k])))[1] for k in (0, -1))
    if len(bases) == 1 or np.array_equal(*ends):
        yield batch, bases
        return
    middle = len(bases) // 2
    for part in (bases[:middle], bases[middle:]):
        yield from _alike(replace(batch, bases=part))


def encoded_size(batches: Iterable[EventBatch]) -> int:
    """Bytes that `encode` will give for the same batches."""
    return sum(
        int(_columns(part.at(int(bases[0])))[1].sum()) * len(bases)
        for batch in batches
        for part, bases in _alike(batch)
    )


def _write(out: np.ndarray, starts: np.ndarray, sizes: np.ndarray, values: np.ndarray) -> None:
    """Write varints of known sizes at byte positions of the last axis of `out`."""
    chosen = np.flatnonzero(sizes)
    for byte in range(10):
        chosen = chosen[sizes[chosen] > byte]
        if not len(chosen):
            return
        low = (values[..., chosen] >> np.uint64(7 * byte)) & np.uint64(0x7F)
        more = (sizes[chosen] > byte + 1).astype(np.uint64) << np.uint64(7)
        out[..., starts[chosen] + byte] = (low | more).astype(np.uint8)


def encode(batches: Iterable[EventBatch]) -> Iterator[bytes]:
    """The `events` fields of an XLine, in chunks.

    Of a repeated batch one repetition is encoded, copied, and its times written over.
    """
    for batch in batches:
        for part, bases in _alike(batch):
            varints, lengths = _columns(part.at(int(bases[0])))
            sizes = lengths.ravel()
            starts = np.cumsum(sizes) - sizes
            out = np.empty((len(bases), int(sizes.sum())), dtype=np.uint8)
            _write(out[0], starts, sizes, varints.ravel())
            out[1:] = out[0]
            if len(bases) > 1:
                places = starts.reshape(lengths.shape)
                moving = [(OFFSET_COLUMN, part.offset_ps)]
                moving += [
                    (FIRST_STAT + STAT_COLUMNS * k + STAT_COLUMNS - 1, stat.values)
                    for k, stat in enumerate(part.stats)
                    if stat.moves
                ]
                for column, values in moving:
                    times = (values + bases[:, None]).astype(np.uint64)
                    _write(out, places[:, column], lengths[:, column], times)
            yield out.tobytes()
