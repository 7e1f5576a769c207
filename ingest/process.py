"""Prepares a process that does nothing but ingest: its memory, and threads that nothing here needs."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# What glibc calls it in the environment, the number that its mallopt takes (malloc.h), and the value.
_MALLOC = (
    ("MALLOC_MMAP_THRESHOLD_", -3, 1 << 28),  # what is larger comes from the system by itself
    ("MALLOC_TRIM_THRESHOLD_", -1, 1 << 29),  # so much is kept
    ("MALLOC_TOP_PAD_", -2, 1 << 26),  # so much is asked for at once
    ("MALLOC_ARENA_MAX", -8, 1),  # threads share what is kept
)


def prepare_process() -> None:
    """Have the C library keep memory that was released, and Arrow take its own from there.

    An ingest makes and drops thousands of columns: to have the system clear new pages for each was a
    tenth of its time. NumPy starts no threads for matrices, which there are none of, and asks for no pages
    of 2 MB: what is kept is reused in pieces, and to clear such pages took a CPU capture half a second more.

    To be called before anything heavy is imported: libraries start threads with memory of their own, and
    read the environment once. Worker processes inherit it. What the user has set stays; without glibc
    memory stays as it is.
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
    """Modules are loaded inside, of which nothing is garbage: to look for it was a tenth of their time."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
