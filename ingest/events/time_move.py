"""A move from one clock to another: an offset and a drift."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xlahouse.ingest.events.arrays import Integers


@dataclass(frozen=True)
class TimeMove:
    """Moves times: t -> t + later_ps - drift x t. Order is kept, since a drift is far below 1."""

    later_ps: int = 0  # ps that are added at time zero
    drift: float = 0.0  # ps that the clock gains a ps

    def __bool__(self) -> bool:
        return bool(self.later_ps or self.drift)

    def times(self, times_ps: Integers) -> Integers:
        """Moved times."""
        if not self.drift:
            return times_ps + self.later_ps
        gained: Integers = np.rint(self.drift * times_ps).astype(np.int64)
        return times_ps + self.later_ps - gained

    def durations(self, starts_ps: Integers, durations_ps: Integers) -> Integers:
        """Moved durations: events that touched still touch, and nested ones stay nested."""
        if not self.drift:
            return durations_ps
        return self.times(starts_ps + durations_ps) - self.times(starts_ps)

    @property
    def reversed(self) -> TimeMove:
        """The move back."""
        kept = 1 - self.drift
        return TimeMove(-round(self.later_ps / kept), 1 - 1 / kept)

    def then(self, move: TimeMove) -> TimeMove:
        """Both moves, this one first."""
        later = self.later_ps + move.later_ps - round(move.drift * self.later_ps)
        return TimeMove(later, 1 - (1 - self.drift) * (1 - move.drift))


UNMOVED = TimeMove()
