"""How far one clock is from another, by the ends of collectives that both took part in (METRICS, Clocks)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from xlahouse.ingest.events.arrays import Integers
from xlahouse.ingest.events.time_move import TimeMove

Floats = NDArray[np.float64]
FIT_SHARE = 10  # a shift fits if its spread is at most a tenth of the median transfer
# Pairs by which a shift is judged first: a run has thousands of launches, and as many shifts.
AT_MOST = 512


@dataclass(frozen=True)
class Fit:
    """A clock against another by matched ends: a line over the clock's own time."""

    offset_ps: float  # how much later it is, at its time 0
    drift: float  # ps that it gains a ps
    spread_ps: int  # p95 less p5 of the residuals
    pairs: int  # matched ends

    @property
    def move(self) -> TimeMove:
        """From the clock to the other one."""
        return TimeMove(-round(self.offset_ps), self.drift)

    def at(self, time_ps: float) -> float:
        """The clock's offset at a time of its own."""
        return self.offset_ps + self.drift * time_ps


@dataclass(frozen=True)
class Units:
    """A device's launches that hold collectives shared with the other device, in order of time.

    Without launches each collective is a unit.
    """

    program: Integers  # equal on both sides for the same program
    transfers: Integers  # shared collectives in the launch
    last_end_ps: Integers  # end of the last of them


@dataclass(frozen=True)
class Shift:
    """Launch k of the reference is launch k + `by` of the other clock."""

    by: int  # launches
    fit: Fit  # of the two clocks under it


def fit_line(ends_ps: Integers, differences_ps: Integers) -> Fit | None:
    """The line through differences of matched ends; None without any.

    A drift that makes no larger difference over the run than the spread is taken for none.

    Args:
        ends_ps: on the clock itself.
        differences_ps: the same ends less those on the reference.
    """
    count = len(ends_ps)
    if not count:
        return None
    order = np.argsort(ends_ps, kind="stable")
    times, values = ends_ps[order].astype(np.float64), differences_ps[order].astype(np.float64)
    drift = _drift(times, values)
    with_drift, without = _residuals(times, values, drift), _residuals(times, values, 0.0)
    if abs(drift) * (times[-1] - times[0]) <= with_drift[1]:
        drift, with_drift = 0.0, without
    return Fit(with_drift[0], drift, round(with_drift[1]), count)


def _drift(times: Floats, values: Floats) -> float:
    third = len(times) // 3
    if not third:
        return 0.0
    passed = np.median(times[-third:]) - np.median(times[:third])
    gained = np.median(values[-third:]) - np.median(values[:third])
    return float(gained / passed) if passed > 0 else 0.0


def _residuals(times: Floats, values: Floats, drift: float) -> tuple[float, float]:
    """(offset, spread) once a drift is subtracted."""
    level = np.sort(values - drift * times)
    offset = float(np.median(level))
    count = len(level)
    low, high = level[-(-5 * count // 100) - 1], level[-(-95 * count // 100) - 1]
    return offset, float(high - low)


def possible_shifts(reference: Units, other: Units) -> Iterator[tuple[int, Integers, Integers]]:
    """(shift, launches of the reference, launches of the other) of each shift that pairs at least half
    of the shorter side's launches, by program."""
    ours, theirs = len(reference.program), len(other.program)
    least = -(-min(ours, theirs) // 2)
    for by in range(least - ours, theirs - least + 1):
        at = np.arange(max(0, -by), min(ours, theirs - by))
        at = at[reference.program[at] == other.program[at + by]]
        if len(at) >= least and len(at):
            yield by, at, at + by


def fitting_shifts(reference: Units, other: Units, transfer_ps: float) -> list[Shift]:
    """Shifts whose spread is at most a tenth of the median transfer, judged by the last shared
    collective of each launch. transfer_ps: how long the median of them lasts."""
    found = []
    for by, ours, theirs in possible_shifts(reference, other):
        alike = reference.transfers[ours] == other.transfers[theirs]
        ours, theirs = ours[alike], theirs[alike]
        some = slice(None, None, -(-len(ours) // AT_MOST) or 1)
        ends = other.last_end_ps[theirs[some]]
        fit = fit_line(ends, ends - reference.last_end_ps[ours[some]])
        if fit is not None and fit.spread_ps * FIT_SHARE <= transfer_ps:
            found.append(Shift(by, fit))
    return found


def choose_shift(
    shifts: list[Shift], reference: Units, other: Units, period_ps: float
) -> Shift | None:
    """The one shift that the evidence allows; None where it is ambiguous.

    Several fit where launches are periodic: then all launches pair in order only if both sides have as
    many, and that shift has the least offset by more than a tenth of the period.
    """
    if len(shifts) == 1:
        return shifts[0]
    whole = next((shift for shift in shifts if shift.by == 0), None)
    if whole is None or len(reference.program) != len(other.program):
        return None
    middle = float(np.median(other.last_end_ps))
    distance = {shift.by: abs(shift.fit.at(middle)) for shift in shifts}
    others = [offset for by, offset in distance.items() if by != 0]
    return whole if distance[0] + period_ps / 10 < min(others) else None
