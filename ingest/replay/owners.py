"""Which op the time between two points of a line belongs to."""

from __future__ import annotations

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.spans import latest_open
from xlahouse.ingest.replay.lines import NOWHERE, Lines
from xlahouse.ingest.replay.measured import Measured
from xlahouse.ingest.replay.points import Points

_WORKS = pl.col("category").is_in(["compute", "copy", "host_transfer"])


def owners_of(run: Measured, lines: Lines, points: Points) -> Integers:
    """Of each point, the op that runs up to it: of several the one that started last; NOWHERE for none."""
    found = np.full(points.count, NOWHERE)
    works = run.ops.select(_WORKS).to_series().to_numpy()
    start, duration = (run.ops[name].to_numpy() for name in ("start_ps", "duration_ps"))
    works &= duration > 0
    for number, times in enumerate(points.lines):
        rows = np.flatnonzero((lines.of_op == number) & works)
        rows = rows[np.argsort(start.take(rows), kind="stable")]
        if len(times) < 2 or not len(rows):
            continue
        begins, ends = start.take(rows), (start + duration).take(rows)
        if (begins[1:] >= ends[:-1]).all():
            near = np.searchsorted(begins, times[:-1], side="right") - 1
            is_open = (near >= 0) & (ends.take(np.maximum(near, 0)) > times[:-1])
            owner = np.where(is_open, rows.take(np.maximum(near, 0)), NOWHERE)
        else:
            near = latest_open(begins, ends, times[:-1])
            owner = np.where(near >= 0, rows.take(np.maximum(near, 0)), NOWHERE)
        first = int(points.first[number])
        found[first + 1 : first + len(times)] = owner
    return found
