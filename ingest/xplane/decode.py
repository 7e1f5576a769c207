"""Decodes serialized messages into Arrow, and turns the decoder's panics into errors."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError as ProtobufError

from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.proto import arrow_decoder, message_class
from xlahouse.ingest.events.protobuf import ColumnCodec
from xlahouse.ingest.events.trace_bytes import TraceBytes, contents, joined

# The decoder calls itself for each group that a group begins, however many: 200,000 of them, a byte each,
# overflow the stack and end the process. No trace has groups; names and damage have bytes like theirs.
_GROUP, _WIRE_TYPES = 3, 7
_BLOCK = 1 << 10
_DENSE = _BLOCK // 4  # bytes that could begin a group; an eighth of all bytes could
_MOST_GROUPS = 2000


class DecodeError(ValueError):
    """The bytes are not such a message."""


def decode(message: str, payloads: Sequence[TraceBytes]) -> pa.RecordBatch:
    """Serialized messages of one kind -> Arrow record batch, one row each.

    Args:
        message: a key of proto.MESSAGES.
        payloads: the messages.

    Raises:
        DecodeError: one of them is damaged.
    """
    try:
        with _STDERR.quiet():
            return _batch(message, payloads)
    except BaseException as error:
        # The decoder panics on some damage; a panic is not an Exception, so that it is not swallowed
        # by accident. Here it means the same as an error.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise DecodeError(str(error)) from None


def numbers(array: pa.Array) -> Integers:
    """An Arrow array of integers as int64; a field that a message leaves out is 0."""
    if array.null_count:
        array = array.fill_null(0)
    found: Integers = array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found


def _batch(message: str, payloads: Sequence[TraceBytes]) -> pa.RecordBatch:
    """A single message, which may be all of a plane's events, is not copied."""
    decoder: ColumnCodec = arrow_decoder(message)
    ends = np.cumsum([0, *map(len, payloads)])
    if ends[-1] > np.iinfo(np.int32).max:  # more than a column's offsets can count
        return decoder.list_to_record_batch([bytes(payload) for payload in payloads])
    whole = contents(payloads[0]) if len(payloads) == 1 else joined(payloads)
    if _may_nest(whole):
        _check_nesting(message, payloads)
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(whole)]
    column = pa.Array.from_buffers(pa.binary(), len(payloads), buffers)
    return decoder.array_to_record_batch(column)


def _may_nest(whole: bytes | memoryview) -> bool:
    """Whether bytes that could begin groups lie close together."""
    if len(whole) < _MOST_GROUPS:
        return False
    begins = (np.frombuffer(whole, np.uint8) & _WIRE_TYPES) == _GROUP
    padded = -len(begins) % _BLOCK
    counts = np.pad(begins, (0, padded)).reshape(-1, _BLOCK).sum(axis=1)
    return int(counts[counts > _DENSE].sum()) > _MOST_GROUPS


def _check_nesting(message: str, payloads: Sequence[TraceBytes]) -> None:
    """Refuse messages that nest too deeply for protobuf's own decoder, which is slower.

    Raises:
        DecodeError: one of them does.
    """
    for payload in payloads:
        try:
            message_class(message).FromString(bytes(payload))
        except ProtobufError as error:
            raise DecodeError(f"damaged, or nested too deeply: {error}") from error


@dataclass
class _Stderr:
    """Keeps the output of native code before a panic off the user's terminal.

    The file descriptor is the process's: the first thread that enters redirects it, the last one that
    leaves restores it.
    """

    # held while the two numbers change
    lock: threading.Lock = field(default_factory=threading.Lock)
    inside: int = 0  # threads that are in native code
    kept: int = -1  # copy of the user's file descriptor; -1 while it is not redirected

    @contextmanager
    def quiet(self) -> Iterator[None]:
        self._enter()
        try:
            yield
        finally:
            self._leave()

    def _enter(self) -> None:
        with self.lock:
            self.inside += 1
            if self.inside > 1:
                return
            sys.stderr.flush()
            self.kept = os.dup(2)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2)
            os.close(nowhere)

    def _leave(self) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                os.dup2(self.kept, 2)
                os.close(self.kept)


_STDERR = _Stderr()
