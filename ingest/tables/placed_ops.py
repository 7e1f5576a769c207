"""Finished ops as kinds, events and launches, joined only where rows are needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from xlahouse.ingest.events.arrays import Integers, Mask
from xlahouse.ingest.events.spans import starts_of_runs
from xlahouse.ingest.nesting.open_markers import STEP_KEY

OF_LAUNCH = ("launch", "launch_instance", *STEP_KEY)


def device_places(device_id: Integers) -> tuple[Integers, Integers]:
    """(the devices, ascending; of each row its device's place among them).

    Args:
        device_id: ascending.
    """
    first = starts_of_runs(device_id)
    counts = np.diff(first, append=len(device_id))
    return device_id[first], np.repeat(np.arange(len(first)), counts)


@dataclass(frozen=True)
class PlacedOps:
    """Ops of some devices, by device and start: kinds, launches, and arrays with a value an op."""

    kinds: pl.DataFrame  # columns that all ops of a kind share
    launches: pl.DataFrame  # OF_LAUNCH, a row for each launch, then one of NULLs: no launch
    device_id: Integers  # number of the device
    kind: Integers  # row of kinds
    launch: Integers  # row of launches
    start_ps: Integers  # on the run's clock
    duration_ps: Integers  # end less start
    self_ps: Integers  # duration less that of ops nested in it

    def of_kinds(self, chosen: pl.Expr) -> Mask:
        """Whether an expression over kinds is true for the kind of each event."""
        return next(self.of_each({"chosen": chosen}))

    def of_each(self, chosen: Mapping[str, pl.Expr]) -> Iterator[Mask]:
        """The same of several expressions, one after the other, by one query."""
        truths = self.kinds.select(**{name: each.fill_null(False) for name, each in chosen.items()})
        return (truth.to_numpy().take(self.kind) for truth in truths)

    def rows(self, mask: Mask) -> pl.DataFrame:
        """The chosen events, each with all columns."""
        at = np.flatnonzero(mask)
        events = pl.DataFrame(
            {
                "device_id": self.device_id.take(at),
                "start_ps": self.start_ps.take(at),
                "duration_ps": self.duration_ps.take(at),
                "self_ps": self.self_ps.take(at),
            }
        )
        of_launch = self.launches[self.launch.take(at)]
        return pl.concat(
            [events, self.kinds.drop("device_id")[self.kind.take(at)], of_launch], how="horizontal"
        )

    def places(self, mask: Mask) -> pl.DataFrame:
        """device_id, launch and start_ps of the chosen events."""
        at = np.flatnonzero(mask)
        return pl.DataFrame(
            {
                "device_id": self.device_id.take(at),
                "launch": self.launches["launch"].gather(self.launch.take(at)),
                "start_ps": self.start_ps.take(at),
            }
        )

    def devices(self) -> tuple[Integers, Integers]:
        """(the devices, ascending; of each event its device's place among them)."""
        return device_places(self.device_id)

    @property
    def outside(self) -> int:
        """Number of events outside every launch."""
        return int((self.launch == self.launches.height - 1).sum())
