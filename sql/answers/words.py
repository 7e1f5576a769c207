"""Shares, durations, bytes and parts of a step's time as words."""

from __future__ import annotations

from xlahouse.sql.answers.losses import COMPUTE, LOSSES
from xlahouse.sql.answers.split import Part, Split


def percent(share: float) -> str:
    """0.413 -> `41 %`; what would round to nothing or to all is not said to be that."""
    if 0 < share <= 0.005:
        return "under 1 %"
    if 0.995 <= share < 1:
        return "over 99 %"
    return f"{100 * share:.0f} %"


def unit_of(time_ps: float) -> tuple[str, float]:
    """The unit of time that suits picoseconds, and the picoseconds in it."""
    for unit, factor in (("s", 1e12), ("ms", 1e9), ("µs", 1e6)):
        if time_ps >= 0.9995 * factor:  # rounds to 1 of it
            return unit, factor
    return "ns", 1e3


def duration(time_ps: float) -> str:
    """Picoseconds -> `12.3 ms`."""
    unit, factor = unit_of(time_ps)
    return f"{time_ps / factor:.3g} {unit}"


def amount(count: float) -> str:
    """Bytes -> `12.3 GB`."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count:,.0f} B"


def mean_step(split: Split) -> str:
    """Such as `the mean decode step's 12.3 ms`."""
    if split.whole == "marker":
        return f"the mean prefill's {duration(split.mean_ps)} from its marker"
    if split.phase is None:
        return f"a device's {duration(split.mean_ps)} in the trace"
    if split.per == "device":
        return f"a device's {duration(split.mean_ps)} in {split.programs} programs"
    kind = "" if split.phase == "step" else f"{split.phase} "
    return f"the mean {kind}step's {duration(split.mean_ps)}"


def called(part: Part) -> str:
    """A part in words, such as `exposed communication along tp`."""
    if part.name == COMPUTE:
        return COMPUTE
    unknown = part.axis in (None, "unclassified")
    along = "" if unknown and part.name != "exposed" else f" along {part.axis}"
    along = " along an axis that is not known" if unknown and along else along
    return f"{LOSSES[part.name].called}{along}"
