"""Chooses the reader of a trace file by its name, or by its first bytes where the name is ambiguous."""

from __future__ import annotations

from xlahouse.capture.errors import LimitError, TraceFormatError
from xlahouse.ingest.chrome.files import JSON, SNIFFED, is_chrome
from xlahouse.ingest.events.misread import what_it_is
from xlahouse.ingest.events.run_files import RankInName
from xlahouse.ingest.events.trace_bytes import TraceBytes
from xlahouse.ingest.hlo.file_events import FileEvents
from xlahouse.ingest.xplane.read import read_xplane

XPLANE = ".xplane.pb"
XPLANES = (XPLANE, f"{XPLANE}.gz", f"{XPLANE}.zst")


def xplane_stem(path: str) -> str:
    """The host that an xplane's name gives: `dir/host0.xplane.pb.gz` -> `host0`."""
    return path.rpartition("/")[2].partition(XPLANE)[0]


def is_chrome_file(path: str, head: bytes) -> bool:
    """Whether a trace file is a Chrome trace, and not an xplane."""
    if XPLANE in path:
        return False
    return JSON.search(path) is not None or is_chrome(head[:SNIFFED])


def read_trace(raw: TraceBytes, path: str, rank: RankInName | None = None) -> FileEvents:
    """Read a trace file of either kind.

    Raises:
        TraceFormatError: nothing can be read from it.
    """
    is_json = is_chrome_file(path, bytes(raw[:SNIFFED]))
    try:
        if is_json:
            from xlahouse.ingest.chrome.read import (
                read_chrome,  # xplanes do not wait for it to load
            )

            return read_chrome(bytes(raw), path)
        return read_xplane(raw, path, rank)
    except LimitError:
        raise
    except TraceFormatError as error:
        known = what_it_is(raw, "xplane" if XPLANE in path else "chrome" if is_json else "")
        if known is None:
            raise
        raise TraceFormatError(path, known) from error
