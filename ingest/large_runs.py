"""Which runs are spread file by file, where all other runs go to one worker each."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from xlahouse.capture.errors import XlahouseError
from xlahouse.ingest.events.files import open_fs
from xlahouse.ingest.events.run_files import RunFiles

# A dense trace of this size takes one process about five seconds, and workers one to start.
LARGE_BYTES = 128 << 20


def large_runs(runs: Sequence[RunFiles], workers: int) -> frozenset[RunFiles]:
    """Runs of several files, of LARGE_BYTES or more, that are too large to be one worker's.

    A run that goes to one worker as a whole costs no exchange between processes. That is best where there
    are many runs; but a run of more than half of a worker's share would keep one at work while all others
    have nothing left to do.
    """
    if workers < 2:
        return frozenset()
    several = [run for run in runs if len(run.paths) > 1 and run.compiled_path is None]
    sizes = {run: sum(map(_size, run.paths)) for run in several}
    share = sum(sizes.values()) / workers
    return frozenset(run for run, size in sizes.items() if size >= LARGE_BYTES and size > share / 2)


def _size(path: str) -> int:
    with suppress(XlahouseError, OSError):  # which is reported when it is read
        fs, place = open_fs(path)
        return int(fs.size(place) or 0)
    return 0
