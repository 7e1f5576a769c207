"""Picks the reader of a trace file, by its name where that tells, else by its first bytes."""

from __future__ import annotations

from xlahouse.ingest.chrome import read_chrome
from xlahouse.ingest.chrome_files import JSON, SNIFFED, is_chrome
from xlahouse.ingest.read import FileEvents, read_xplane

XPLANE = ".xplane.pb"


def is_chrome_file(path: str, head: bytes) -> bool:
    """Whether a trace file is a Chrome trace, and not an xplane."""
    if XPLANE in path:
        return False
    return JSON.search(path) is not None or is_chrome(head[:SNIFFED])


def read_trace(raw: bytes, path: str) -> FileEvents:
    """Read a trace file of either kind.

    Raises:
        TraceFormatError: nothing can be had from it.
    """
    return read_chrome(raw, path) if is_chrome_file(path, raw) else read_xplane(raw, path)
