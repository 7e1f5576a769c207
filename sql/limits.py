"""What a query may take: time, memory, and rows of its answer."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from xlahouse.capture.errors import QueryError
from xlahouse.capture.scratch import scratch_folder

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
UNITS |= {f"{unit}I": 1 << (10 * power) for power, unit in enumerate("KMGT", start=1)}
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?", re.IGNORECASE)
LEAST_MEMORY = 16 << 20  # DuckDB cannot do with less
# DuckDB limits its tables and sorts, and spills what is larger. Single values, such as
# `repeat('x', 1e9)`, escape it: the system refuses them beyond this many times the limit.
WALL = 2


@dataclass(frozen=True)
class QueryLimits:
    """Limits of each query; None: no limit."""

    timeout_s: float | None = None  # time in DuckDB
    memory_bytes: int | None = None  # memory; sorts and joins beyond it use files
    rows: int | None = None  # rows of an answer that are given

    @property
    def memory(self) -> str | None:
        """The memory as DuckDB reads it."""
        return None if self.memory_bytes is None else f"{self.memory_bytes}B"


NO_LIMITS = QueryLimits()


def parse_memory(text: str) -> int:
    """Bytes of `4GB`, `512MiB` or `1.5G`.

    Raises:
        QueryError: it is not a size, or too small for any query.
    """
    found = SIZE.fullmatch(text.strip())
    if found is None or found[2].upper() not in UNITS:
        raise QueryError(f"{text!r} is not a size of memory; write 500MB, 4GB or 1.5GiB", "")
    size = round(float(found[1]) * UNITS[found[2].upper()])
    if size < LEAST_MEMORY:
        raise QueryError(f"{text!r} is too little memory for a query; give at least 16MiB", "")
    return size


def spill_folder() -> str:
    """Where queries put what does not fit in memory; without a place for it they do with memory."""
    try:
        return f"{scratch_folder()}/queries"
    except OSError:
        return ""


@contextmanager
def memory_wall(memory_bytes: int | None) -> Iterator[None]:
    """Let this process take WALL times a query's memory beyond what it has now, and no more.

    An allocation beyond it fails, as on a machine without more memory. Only Linux counts so; on other
    systems DuckDB's own limit stands alone.
    """
    if memory_bytes is None or sys.platform != "linux":
        yield
        return
    import resource

    before, most = resource.getrlimit(resource.RLIMIT_DATA)
    wall = data_bytes() + WALL * memory_bytes
    unlimited = before == resource.RLIM_INFINITY
    resource.setrlimit(resource.RLIMIT_DATA, (wall if unlimited else min(wall, before), most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, most))


def data_bytes() -> int:
    """Private memory that this process has asked of Linux, used or not."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as status:
        found = re.search(r"VmData:\s+(\d+) kB", status.read())
    return int(found[1]) << 10 if found else 0
