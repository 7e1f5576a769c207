"""Fits latency and bandwidth of transfers to what the warehouse measured, by Theil and Sen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from xlahouse.sql.predict.chips import chips_of

if TYPE_CHECKING:
    from xlahouse.sql.warehouse import Warehouse

LEAST_SIZES = 3  # fewer different sizes say nothing about a line
MOST_SIZES = 512  # beyond it, evenly chosen ones: pairs grow with the square
PS = 1e12
KEY = ("axis", "kind", "collective_strategy", "group_size")

# One row a transfer of all its members.
TRANSFERS = """
    select
        b.run_id, b.instance, b.axis, b.kind, b.collective_strategy, b.group_size, b.wire_bytes,
        b.transfer_ps, b.ici_ps, b.is_bound, b.participants_seen, r.source,
        exists (
            select 1 from collectives c
            where c.run_id = b.run_id and c.instance = b.instance and c.over_dcn
        ) as is_dcn
    from collective_bandwidth_v3 b join runs r on r.run_id = b.run_id
"""


class Line(NamedTuple):
    """time = latency + size / rate, as fitted."""

    latency_ps: float  # of one step of a ring
    ps_per_byte: float  # 1 / rate
    sizes: int  # distinct sizes that it rests on
    samples: int  # transfers that it rests on
    error_ratio: float  # median distance of the samples from the line, over their time


def ring_steps(kind: str | None, members: int | None) -> int:
    """Steps of a ring among so many members: the times that a latency counts."""
    others = max((members or 1) - 1, 1)
    if kind == "all-reduce":
        return 2 * others
    return 1 if kind in ("collective-permute", "send-recv", "collective-broadcast") else others


def fit_line(size: NDArray[np.float64], time: NDArray[np.float64]) -> Line | None:
    """The line of Theil and Sen through the median time of each size; None below LEAST_SIZES.

    The slope is the median of the slopes between all pairs, the latency the median of what is left, and
    at least 0. Without a rising slope there is no line.
    """
    sizes, which = np.unique(size, return_inverse=True)
    if len(sizes) < LEAST_SIZES:
        return None
    medians = np.array([np.median(time[which == place]) for place in range(len(sizes))])
    chosen = np.unique(np.linspace(0, len(sizes) - 1, min(len(sizes), MOST_SIZES)).astype(int))
    x, y = sizes[chosen], medians[chosen]
    one, other = np.triu_indices(len(x), 1)
    slope = float(np.median((y[other] - y[one]) / (x[other] - x[one])))
    if slope <= 0:
        return None
    latency = max(float(np.median(medians - slope * sizes)), 0.0)
    expected = latency + slope * size
    error = float(np.median(np.abs(time - expected) / time))
    return Line(latency, slope, len(sizes), len(size), error)


Key: TypeAlias = tuple[str | None, str | None, str | None, int | None]  # the columns of KEY


@dataclass(frozen=True)
class Fits:
    """The lines of a warehouse's transfers, per ring step: by KEY, and over groups of any size."""

    lines: dict[Key, Line]  # by KEY

    def of(self, key: Key) -> tuple[str, Line | None]:
        """(what a line is fitted to, the line) of some transfers: that of groups of their size, if any."""
        own = self.lines.get(key)
        if own is not None:
            return "fitted", own
        return "fitted_to_other_groups", self.lines.get((*key[:3], None))


def fit_transfers(warehouse: Warehouse, chip: str | None) -> Fits:
    """Fit the measured transfers of all runs on one kind of chip, as chips_of has it.

    Transfers that end before a device waits for them, or of which a member was not traced, are left out:
    their times are not transfer times. So are predicted ones.
    """
    rows = warehouse.query(TRANSFERS).pl()
    alike = [run for run, each in chips_of(warehouse).items() if each == chip]
    rows = rows.filter(
        pl.col("source").is_in(["xplane", "chrome"])
        & pl.col("run_id").is_in(alike)
        & ~pl.col("is_bound").fill_null(False)
        & (pl.col("participants_seen") == pl.col("group_size"))
        & (pl.col("wire_bytes") > 0)
        & (pl.col("transfer_ps") > 0)
    )
    lines: dict[Key, Line] = {}
    for (axis, kind, strategy, size), own in rows.group_by(KEY):
        _add(lines, (axis, kind, strategy, size), own)
    for (axis, kind, strategy), own in rows.group_by(KEY[:3]):
        _add(lines, (axis, kind, strategy, None), own)
    return Fits(lines)


def _add(lines: dict[Key, Line], key: Key, rows: pl.DataFrame) -> None:
    """Add the line of some transfers, if they have one."""
    steps = np.array(
        [ring_steps(key[1], size) for size in rows["group_size"].to_list()], np.float64
    )
    line = fit_line(rows["wire_bytes"].to_numpy() / steps, rows["transfer_ps"].to_numpy() / steps)
    if line is not None:
        lines[key] = line
