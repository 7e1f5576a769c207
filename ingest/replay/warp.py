"""Moves times from a measured line to the replayed one: points as replayed, times between them evenly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xlahouse.ingest.events.arrays import Integers


@dataclass(frozen=True)
class Warp:
    """Measured times of one line and what the replay made of them, both ascending."""

    measured: Integers  # ps
    replayed: Integers  # ps

    def at(self, times: Integers) -> Integers:
        """The replayed time of each measured time; before and after the line, at its usual distance."""
        if not len(self.measured):
            return times
        last = len(self.measured) - 1
        before = np.clip(
            np.searchsorted(self.measured, times, side="right") - 1, 0, max(last - 1, 0)
        )
        after = np.minimum(before + 1, last)
        passed = times - self.measured.take(before)
        span = self.measured.take(after) - self.measured.take(before)
        moved = self.replayed.take(after) - self.replayed.take(before)
        outside = (times < self.measured[0]) | (times >= self.measured[last])
        base = np.where(
            times >= self.measured[last], self.replayed[last], self.replayed.take(before)
        )
        passed = np.where(times >= self.measured[last], times - self.measured[last], passed)
        part = np.rint(passed * (moved / np.maximum(span, 1))).astype(np.int64)
        whole: Integers = base + np.where(outside | (moved == span), passed, part)
        return whole
