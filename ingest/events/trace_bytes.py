"""Reads a trace file's bytes: a local file is mapped, so that it need not all be in memory."""

from __future__ import annotations

import mmap
from typing import TypeAlias

import fsspec
from fsspec.implementations.local import LocalFileSystem

from xlahouse.ingest.events.files import open_fs

TraceBytes: TypeAlias = bytes | mmap.mmap


def trace_bytes(path: str, mapped: bool) -> TraceBytes:
    """The bytes of a file or URL.

    Args:
        path: the file.
        mapped: whether a local file may be mapped; it must then not be truncated before it is read.
    """
    fs, local = open_fs(path)
    if not mapped or not isinstance(fs, LocalFileSystem) or not fs.size(local):
        with fsspec.open(path, "rb") as file:
            raw: bytes = file.read()
        return raw
    with open(local, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def release(raw: TraceBytes) -> None:
    """Release the memory of a mapped file; bytes that are asked for again are read again."""
    if isinstance(raw, mmap.mmap):
        raw.madvise(mmap.MADV_DONTNEED)
