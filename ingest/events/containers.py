"""Unpacks a file by its first bytes, whatever its name, and keeps the intact part of a damaged one."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Protocol

from zlib_ng import zlib_ng as zlib

from xlahouse.capture.limits import exceeded, most

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
BLOCK = 1 << 22
ANY_RATIO = 1 << 26  # bytes that a file of any size may unpack to
_PIECE = 1 << 17  # bytes of compressed data; they unpack to a megabyte or two
_GZIP_WINDOW = 31  # zlib: expect a gzip header
_Damaged: type[Exception] = zlib.error  # type: ignore[assignment]  # the package's stub declares a value


class _Member(Protocol):
    """A decompressor of one gzip member, as zlib gives it."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def copy(self) -> _Member: ...

    def decompress(self, data: bytes, /) -> bytes: ...


class Unpacked:
    """The contents of a file, block by block, on demand.

    Attributes:
        damage: known after the last block: why the contents end too early; None where they are whole.
    """

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self.damage: str | None = None

    def __iter__(self) -> Iterator[bytes]:
        if not self._raw.startswith((GZIP, ZSTD)):
            yield from self._blocks()
            return
        by_ratio = max(ANY_RATIO, most("unpacked_ratio") * len(self._raw))
        left = min(by_ratio, most("unpacked_bytes"))
        limit = "unpacked_bytes" if left == most("unpacked_bytes") else "unpacked_ratio"
        for block in self._blocks():
            if len(block) > left:
                yield block[:left]
                self.damage = exceeded(limit)
                return
            left -= len(block)
            yield block

    def _blocks(self) -> Iterator[bytes]:
        if self._raw.startswith(GZIP):
            yield from self._gzip()
        elif self._raw.startswith(ZSTD):
            yield from self._zstd()
        else:
            view = memoryview(self._raw)
            yield from (bytes(view[at : at + BLOCK]) for at in range(0, len(view), BLOCK))

    def _gzip(self) -> Iterator[bytes]:
        """All members; zeros after the last one are padding, other bytes are damage."""
        position, size = 0, len(self._raw)
        while self._raw.startswith(GZIP, position):
            member: _Member = zlib.decompressobj(_GZIP_WINDOW)  # type: ignore[assignment]  # its stub lacks copy
            while not member.eof and position < size:
                before, piece = member.copy(), self._raw[position : position + _PIECE]
                try:
                    block = member.decompress(piece)
                except _Damaged as error:
                    self.damage = f"its gzip data is damaged: {error}"
                    yield _before_damage(before, piece)
                    return
                position += len(piece) - len(member.unused_data)
                if block:
                    yield block
            if not member.eof:
                self.damage = "its gzip data is cut off"
                return
        if self._raw[position:].strip(b"\0"):
            self.damage = f"no gzip data from byte {position:,} on"

    def _zstd(self) -> Iterator[bytes]:
        import pyarrow as pa

        source = io.BytesIO(self._raw)
        try:
            with pa.input_stream(source, compression="zstd") as stream:
                while block := stream.read(BLOCK):
                    yield block
        except OSError as error:
            self.damage = f"its zstd data is damaged or cut off: {error}"


def unpacked_start(raw: bytes, least: int) -> bytes:
    """The first bytes of the contents: at least `least` bytes, unless there are fewer."""
    start = b""
    for block in Unpacked(raw):
        start += block
        if len(start) >= least:
            break
    return start


def _before_damage(member: _Member, piece: bytes) -> bytes:
    """The contents of a piece up to the byte that cannot be unpacked."""
    whole = []
    for at in range(len(piece)):
        try:
            whole.append(member.decompress(piece[at : at + 1]))
        except _Damaged:
            break
    return b"".join(whole)


def unpack(raw: bytes) -> tuple[bytes, str | None]:
    """(contents, why they end too early or None)."""
    unpacked = Unpacked(raw)
    return b"".join(unpacked), unpacked.damage
