"""Recognizes Chrome traces among files, and copies of them."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from xlahouse.ingest.events.containers import unpacked_start

JSON = re.compile(r"\.json(?:\.gz|\.zstd?)?$")
_TRACE_JSON = re.compile(r"\.trace\.json(?:\.gz|\.zstd?)?$")
_PERFETTO = "perfetto_trace."  # a copy of the host's trace, which JAX writes on request
_TRACE_ENDINGS = (".gz", ".zst", ".zstd", ".json", ".trace", ".pt")
SNIFFED = 1 << 18  # bytes of a file that are examined
_HEADER_KEYS = re.compile(
    rb'"(?:traceEvents|displayTimeUnit|schemaVersion|deviceProperties|traceName|distributedInfo)"\s*:'
)
_BARE = re.compile(rb'^(?:\xef\xbb\xbf)?\s*\[\s*\{[^}]*"(?:ph|cat|pid|ts)"\s*:')


def host_of(path: str) -> str:
    """The host in a file's name: `<host>.trace.json.gz` -> `<host>`."""
    name = PurePosixPath(path).name
    for ending in _TRACE_ENDINGS:
        name = name.removesuffix(ending)
    return name


def named_trace(path: str) -> bool:
    """Whether a file's name says that it is a Chrome trace."""
    return _TRACE_JSON.search(path) is not None


def is_chrome(head: bytes) -> bool:
    """Whether a file with these first bytes is a Chrome trace."""
    text = unpacked_start(head, SNIFFED)
    return _BARE.match(text) is not None or _HEADER_KEYS.search(text) is not None


def is_copy(path: str, others: list[str]) -> bool:
    """Whether a Chrome trace repeats another one of its folder."""
    folder, _, name = path.rpartition("/")
    return name.startswith(_PERFETTO) and any(
        other != path and other.rpartition("/")[0] == folder for other in others
    )
