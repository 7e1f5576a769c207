"""Reads a trace's bytes when they are asked for, and notices where its file is no longer the same.

A file is read and never mapped: a mapped file that another program cuts short ends the process.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from xlahouse.capture.errors import TraceChangedError
from xlahouse.capture.opening import open_regular
from xlahouse.ingest.events.files import is_local, open_fs, open_given, open_on

BLOCK = 1 << 22
# A write this soon after the last one may leave a file's times as they were: clocks of files tick, on some
# file systems every two seconds.
TICK_NS = 2_000_000_000
# A file up to this size is read once and kept: opening it for each of its pieces would cost more.
SMALL_FILE = 1 << 20
# A smaller piece of a larger file is read with so many bytes from its start: the next ones are mostly there.
AHEAD = 1 << 17


@dataclass(frozen=True)
class Mark:
    """What any write to a local file changes, and any other file in its place."""

    device: int  # number of the disk
    inode: int  # number of the file on it
    bytes: int  # size of the file
    modified_ns: int  # UNIX time of the last change of its contents
    changed_ns: int  # UNIX time of the last change of its contents or name

    @classmethod
    def of(cls, file: int) -> Mark:
        """The mark of an open file, by its descriptor."""
        now = os.fstat(file)
        return cls(now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns)


@dataclass(frozen=True)
class SourceFile:
    """A file's identity."""

    path: str  # path or URL
    bytes: int  # its size
    sha256: str  # of its contents
    mark: Mark | None = None  # of a local file, when it was hashed
    recent: bool = False  # whether it had just been written: its mark alone tells too little


def identify(path: str) -> SourceFile:
    """Size and SHA-256 of a file or URL.

    Raises:
        TraceChangedError: it is written to meanwhile.
    """
    fs, local = open_fs(path)
    digest, size = hashlib.sha256(), 0
    with _naming(path), open_on(fs, local) as file:
        began = time.time_ns()
        mark = Mark.of(file.fileno()) if is_local(fs) else None
        while chunk := file.read(BLOCK):
            digest.update(chunk)
            size += len(chunk)
        if mark is not None and (mark != Mark.of(file.fileno()) or size != mark.bytes):
            raise TraceChangedError(path)
    recent = mark is not None and began - max(mark.modified_ns, mark.changed_ns) < TICK_NS
    return SourceFile(path, size, digest.hexdigest(), mark, recent)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Put the file's name into an error of reading it, which has none."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or path
        raise


@dataclass
class TraceFile:
    """A file that is read piece by piece; it is open only while it is read."""

    source: SourceFile  # the file's identity
    place: str  # its path on its file system
    # why a piece could not be read: readers may take that for damage, so `check` raises it
    fault: Exception | None = field(default=None, init=False)
    # all of a small file, or of one on another machine, once a piece of it was read
    held: memoryview | None = field(default=None, init=False)
    # start and contents of the bytes that were read last with a small piece
    ahead: tuple[int, memoryview] = field(default=(0, memoryview(b"")), init=False)

    def read_into(self, buffer: memoryview, start: int) -> None:
        """Fill a buffer with the bytes from `start` on.

        Raises:
            TraceChangedError: the file is not as it was when it was hashed.
            OSError: it cannot be read.
        """
        if self.source.bytes > SMALL_FILE and self.source.mark is not None:
            if len(buffer) < AHEAD:
                buffer[:] = self._small_piece(start, len(buffer))
            else:
                self._read_from_disk(buffer, start)
            return
        if self.held is None:
            self.held = self._whole()
        buffer[:] = self.held[start : start + len(buffer)]

    def _small_piece(self, start: int, size: int) -> memoryview:
        first, block = self.ahead  # at once: several threads may read
        if not first <= start <= start + size <= first + len(block):
            first, block = start, memoryview(bytearray(min(AHEAD, self.source.bytes - start)))
            self._read_from_disk(block, start)
            self.ahead = first, block
        return block[start - first : start - first + size]

    def _whole(self) -> memoryview:
        if self.source.mark is not None:
            whole = bytearray(self.source.bytes)
            self._read_from_disk(memoryview(whole), 0)
            return memoryview(whole).toreadonly()
        try:
            return memoryview(_all_of(self.source))
        except Exception as error:
            self.fault = error
            raise

    def _read_from_disk(self, buffer: memoryview, start: int) -> None:
        try:
            with _naming(self.source.path), open_regular(self.place) as opened:
                file, done = opened.fileno(), 0
                if Mark.of(file) != self.source.mark:
                    self._hash_again()
                while done < len(buffer):
                    count = os.preadv(file, [buffer[done : done + (1 << 30)]], start + done)
                    if not count:
                        raise TraceChangedError(self.source.path)
                    done += count
        except Exception as error:
            self.fault = error
            raise

    def _hash_again(self) -> None:
        """Take another mark for the file's own if the bytes are: each machine has marks of its own.

        Raises:
            TraceChangedError: they are not.
        """
        found = identify(self.source.path)
        if found.sha256 != self.source.sha256:
            raise TraceChangedError(self.source.path)
        self.source = found

    def check(self) -> None:
        """Make sure that all that was read is what was hashed.

        Raises:
            TraceChangedError: the file is not as it was when it was hashed.
            OSError: a piece of it could not be read.
        """
        if self.fault is not None:
            raise self.fault
        if self.source.mark is None:  # it was read as a whole, and hashed then
            return
        self._read_from_disk(memoryview(b""), 0)
        if self.source.recent and identify(self.source.path).sha256 != self.source.sha256:
            raise TraceChangedError(self.source.path)


@dataclass(frozen=True)
class FilePart:
    """Some bytes of a file that are read when they are asked for; a slice reads nothing."""

    file: TraceFile  # that holds the bytes
    start: int  # first byte
    size: int  # number of bytes

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, part: slice) -> FilePart:
        first, end, _ = part.indices(self.size)
        return FilePart(self.file, self.start + first, max(end - first, 0))

    def __bytes__(self) -> bytes:
        return bytes(contents(self))


TraceBytes: TypeAlias = bytes | memoryview | FilePart


def open_trace(source: SourceFile, by_parts: bool) -> bytes | FilePart:
    """The bytes of a file or URL that was hashed.

    Args:
        source: the file.
        by_parts: whether the file may be read when its parts are asked for; `FilePart.file.check` then
            has to be called after the last of them.

    Raises:
        TraceChangedError: the file is not as it was when it was hashed.
    """
    if by_parts:
        return FilePart(TraceFile(source, open_fs(source.path)[1]), 0, source.bytes)
    return _all_of(source)


def _all_of(source: SourceFile) -> bytes:
    with _naming(source.path), open_given(source.path) as file:
        raw: bytes = file.read()
    if len(raw) != source.bytes or hashlib.sha256(raw).hexdigest() != source.sha256:
        raise TraceChangedError(source.path)
    return raw


def contents(part: TraceBytes) -> memoryview:
    """The bytes themselves; those in memory are not copied."""
    if not isinstance(part, FilePart):
        return memoryview(part)
    return joined([part])


def joined(parts: Sequence[TraceBytes]) -> memoryview:
    """The bytes of all parts, one after the other, in a buffer of their own."""
    buffer = np.empty(sum(map(len, parts)), np.uint8).data  # which is not filled with zeros
    at = 0
    for part in parts:
        place = buffer[at : at + len(part)]
        if isinstance(part, FilePart):
            part.file.read_into(place, part.start)
        else:
            place[:] = part
        at += len(part)
    return buffer.toreadonly()


def blocks(part: TraceBytes) -> Iterator[memoryview]:
    """The bytes, BLOCK by BLOCK."""
    return (contents(part[at : at + BLOCK]) for at in range(0, len(part), BLOCK))
