"""Reads serialized stats in place: numbers by array arithmetic, and only odd stats by a decoder.

Events of a host are many and their stats are most of a trace, nearly all of them small numbers that link
one event to another. An XStat on the wire is its metadata_id, then one value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from xlahouse.ingest.events.arrays import Integers

# Kind of a stat's value. ODD: not written as profilers write it, so the decoder reads it.
NOTHING, DOUBLE, UNSIGNED, SIGNED, TEXT, BYTES, REFERENCE, ODD = range(8)
VALUE_KINDS = 8
MOST_IDS = 1 << 14  # an id of up to two bytes; others are odd
_KIND_OF_TAG = np.full(256, ODD, np.int8)
_KIND_OF_TAG[[0x11, 0x18, 0x20, 0x2A, 0x32, 0x38]] = range(DOUBLE, REFERENCE + 1)
_IS_NUMBER = np.zeros(VALUE_KINDS, bool)
_IS_NUMBER[[UNSIGNED, SIGNED, REFERENCE]] = True
_LONGEST_VARINT = 10  # bytes of a number on the wire
# For a number of n bytes: mask of its first 8 bytes; their continuation bits, and which of these are set.
_LOW_BYTES = np.array(
    [(1 << 8 * min(size, 8)) - 1 for size in range(_LONGEST_VARINT + 2)], np.uint64
)
_WITHIN = _LOW_BYTES & np.uint64(0x8080808080808080)
_SET = np.append(_WITHIN[:1], _WITHIN[:-1])
# Bits of the lower and the upper of two neighbours, and how far apart these are.
_GAPS = tuple(
    (np.uint64(low), np.uint64(high), np.uint64(gap))
    for low, high, gap in (
        (0x007F007F007F007F, 0x7F007F007F007F00, 1),
        (0x00003FFF00003FFF, 0x3FFF00003FFF0000, 2),
        (0x000000000FFFFFFF, 0x0FFFFFFF00000000, 4),
    )
)


@dataclass(frozen=True)
class StatBytes:
    """Stats in the order of their events."""

    ids: NDArray[np.int32]  # metadata_id; any number for odd ones
    kinds: NDArray[np.int8]  # the kind of value that each holds
    serialized: pa.BinaryArray  # an array of messages
    raw: NDArray[np.uint8]  # the bytes behind it
    value_at: Integers  # where in `raw` the value begins
    ends: Integers  # where in `raw` the stat ends

    def integers(self, at: Integers) -> Integers:
        """Values of chosen stats of the kinds UNSIGNED, SIGNED and REFERENCE; unsigned ones wrap."""
        start = self.value_at[at]
        return _varints(self.raw, start, self.ends[at] - start)

    def doubles(self, at: Integers) -> NDArray[np.float64]:
        """Values of chosen stats of the kind DOUBLE."""
        return _words(self.raw)[self.value_at[at]].view(np.float64)


def read_stats(serialized: pa.BinaryArray) -> StatBytes:
    """Find the values of serialized XStats.

    Args:
        serialized: Arrow binary array.
    """
    _, offsets, data = serialized.buffers()
    width = np.int64 if pa.types.is_large_binary(serialized.type) else np.int32
    count, first = len(serialized), serialized.offset
    if not count or data is None:
        no, none = np.zeros(0, np.int32), np.zeros(0, np.int64)
        return StatBytes(no, no.astype(np.int8), serialized, _raw(b"", 0, 0), none, none)
    bounds = np.frombuffer(offsets, width)[first : first + count + 1].astype(np.int64)
    raw = _raw(data, bounds[0], bounds[-1])
    bounds -= bounds[0]
    at, ends = bounds[:-1], bounds[1:]
    ids = raw[at + 1].astype(np.int32)
    known = (raw[at] == 0x08) & (ends - at >= 2)
    value_at = at + 2
    wide = ids >= 0x80
    if wide.any():
        second = raw[value_at]
        known &= ~wide | ((second < 0x80) & (ends > value_at))
        ids = np.where(wide, (ids & 0x7F) | (second.astype(np.int32) << 7), ids)
        value_at = value_at + wide
    kinds = np.where(known, _KIND_OF_TAG.take(raw.take(value_at)), ODD)
    kinds[known & (value_at == ends)] = NOTHING
    value_at += 1
    kinds[~_whole(raw, kinds, value_at, ends)] = ODD
    ids[kinds == ODD] = 0
    return StatBytes(ids, kinds, serialized, raw, value_at, ends)


def _raw(data: pa.Buffer | bytes, first: int, last: int) -> NDArray[np.uint8]:
    """A part of some bytes that can be read 16 beyond its end."""
    part = np.frombuffer(data, np.uint8)[first:last]
    return np.concatenate((part, np.zeros(16, np.uint8)))


def _words(raw: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """The 8 bytes from each place on as a number."""
    words: NDArray[np.uint64] = np.ndarray((len(raw) - 7,), "<u8", raw, strides=(1,))
    return words


def _whole(
    raw: NDArray[np.uint8], kinds: NDArray[np.int8], value_at: Integers, ends: Integers
) -> NDArray[np.bool_]:
    """Whether a stat's value ends where the stat does."""
    size = np.clip(ends - value_at, 0, _LONGEST_VARINT + 1)
    first = _words(raw)[np.minimum(value_at, len(raw) - 8)]
    number = _IS_NUMBER.take(kinds) & (size > 0) & (size <= _LONGEST_VARINT)
    number &= (first & _WITHIN.take(size)) == _SET.take(size)
    long = np.flatnonzero(number & (size > 8))
    if len(long):
        tail = raw[value_at[long] + 8] >= 0x80
        last = raw[ends[long] - 1] < 0x80
        number[long] = last & (tail == (size[long] == _LONGEST_VARINT))
    good: NDArray[np.bool_] = (
        number | (kinds == NOTHING) | ((kinds == DOUBLE) & (ends - value_at == 8))
    )
    text = np.flatnonzero((kinds == TEXT) | (kinds == BYTES))
    if len(text):
        good[text] = _holds_text(raw, value_at[text], ends[text])
    return good


def _holds_text(raw: NDArray[np.uint8], value_at: Integers, ends: Integers) -> NDArray[np.bool_]:
    """Whether a value is a length of one to three bytes, then as many bytes."""
    one, two, three = (
        raw[np.minimum(value_at + n, len(raw) - 1)].astype(np.int64) for n in range(3)
    )
    size = np.where(one < 0x80, 1, np.where(two < 0x80, 2, np.where(three < 0x80, 3, 1 << 40)))
    length = one & 0x7F
    length = np.where(size > 1, length | (two & 0x7F) << 7, length)
    length = np.where(size > 2, length | (three & 0x7F) << 14, length)
    whole: NDArray[np.bool_] = value_at + size + length == ends
    return whole


def _varints(raw: NDArray[np.uint8], at: Integers, size: Integers) -> Integers:
    """Numbers of `size` bytes each, seven bits a byte, the lowest first."""
    if not len(at):
        return np.zeros(0, np.int64)
    if int(size.max()) == 1:
        return raw[at].astype(np.int64)
    word = _words(raw)[at] & _LOW_BYTES.take(size)
    for low, high, gap in _GAPS:  # between bytes, then pairs of bytes, then fours
        word = (word & low) | ((word & high) >> gap)
    long = np.flatnonzero(size > 8)
    if len(long):
        ninth, tenth = (raw[at[long] + n].astype(np.uint64) for n in (8, 9))
        tenth[size[long] < _LONGEST_VARINT] = 0
        word[long] |= (ninth & np.uint64(0x7F)) << np.uint64(56) | tenth << np.uint64(63)
    return word.view(np.int64)
