"""How many batches of planes a run finishes at once: one a core, within a memory bound."""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import accumulate

# Bytes in the file of the planes being finished; their columns take five to twelve times that.
HELD_BYTES = 128 << 20
FEWEST = 2  # whatever their size: one reads or writes while the other computes


def usable_cores() -> int:
    """Cores that this process may run on, which may be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads_for(sizes: Iterable[int], cores: int) -> int:
    """Batches to finish at once.

    Args:
        sizes: bytes of each batch.
        cores: threads that may compute.
    """
    held = list(accumulate(sorted(sizes, reverse=True)))
    fitting = sum(total <= HELD_BYTES for total in held)
    return max(1, min(cores, len(held), max(fitting, FEWEST)))
