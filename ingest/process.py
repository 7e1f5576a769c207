"""Prepares a process that only ingests: how it keeps memory, and which threads it does not start."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# glibc's environment variable, the parameter number of mallopt (malloc.h), and the value.
_MALLOC = (
    ("MALLOC_MMAP_THRESHOLD_", -3, 1 << 28),  # larger blocks come from the system one by one
    ("MALLOC_TRIM_THRESHOLD_", -1, 1 << 29),  # bytes that are kept
    ("MALLOC_TOP_PAD_", -2, 1 << 26),  # bytes that are asked for at once
    ("MALLOC_ARENA_MAX", -8, 1),  # threads share the kept memory
)


def prepare_process() -> None:
    """Have the C library keep released memory, and Arrow use it.

    An ingest makes and drops thousands of columns: to have the system clear new pages for each was a
    tenth of its time. NumPy starts no threads for matrices, as none are used, and asks for no pages
    of 2 MB: kept memory is reused in pieces, and clearing such pages took a CPU capture half a second more.

    Call it before anything heavy is imported: libraries start threads with memory of their own, and
    read the environment once. Worker processes inherit it. The user's own settings stay; without glibc
    nothing changes.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("NUMPY_MADVISE_HUGEPAGE", "0")
    on_linux = sys.platform.startswith("linux")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if on_linux else None
    if mallopt is None:
        return
    for name, number, value in _MALLOC:
        if name not in os.environ:
            os.environ[name] = str(value)
            mallopt(number, value)
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


@contextmanager
def loading() -> Iterator[None]:
    """Load modules without garbage collection, which would take a tenth of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
