"""What the profiler costs, and whether a capture measures its host instead of its devices."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlahouse.capture.plan import Experiment

TPU_DEPTH = 2  # hides the 3 to 4 ms that a launch of 64 layers takes behind steps of 5
PROFILER_LIMIT = 0.05  # share of a step that the profiler may cost
LATE_LIMIT = 0.05  # share of decode steps that may reach devices that wait for them


@dataclass(frozen=True)
class ProfilerCost:
    """(with - without) / without over pairs of decode steps: their median and quartiles."""

    ratio: float | None  # None: `unknown` says why
    quartiles: list[float]  # lower and upper; [] with fewer than two pairs
    pairs: int  # decode steps compared
    unknown: str | None = None  # why there is no ratio


def cost(with_it: list[list[float]], without: list[list[float]]) -> ProfilerCost:
    """The relative cost for a step.

    The lists of `with_it` and `without` are paired by index, then step by step.
    """
    ratios = [
        one / other - 1
        for ones, others in zip(with_it, without, strict=False)
        for one, other in zip(ones, others, strict=False)
    ]
    if not ratios:
        return ProfilerCost(None, [], 0, "no decode step ran both with the profiler and without it")
    if len(ratios) < 2:
        return ProfilerCost(ratios[0], [], 1)
    lower, middle, upper = statistics.quantiles(ratios, n=4, method="inclusive")
    return ProfilerCost(middle, [lower, upper], len(ratios))


def profiler_warnings(profiler: ProfilerCost, virtual: bool) -> list[str]:
    """A warning if the profiler slows steps beyond its limit, and not by chance.

    Virtual devices share cores with all other processes: their differences are chance.
    """
    if virtual or not profiler.quartiles or profiler.quartiles[0] <= PROFILER_LIMIT:
        return []
    return [
        f"the profiler slows a decode step by {profiler.ratio:.0%}, more than {PROFILER_LIMIT:.0%}: "
        "times of this capture are too long"
    ]


def host_warnings(late: float | None, virtual: bool) -> list[str]:
    """A warning if devices waited for the host in more than LATE_LIMIT of the decode steps.

    Virtual devices run on the host itself: there the share says nothing.
    """
    if virtual or late is None or late <= LATE_LIMIT:
        return []
    return [
        f"the devices waited for the host before {late:.0%} of the decode steps, more than "
        f"{LATE_LIMIT:.0%}: TPOT is the host's; raise steps_ahead"
    ]


def dispatch_depth(experiment: Experiment, virtual: bool) -> int:
    """Decode steps that are sent before the tokens of an earlier one are awaited."""
    if experiment.steps_ahead is not None:
        return experiment.steps_ahead
    return 0 if virtual else TPU_DEPTH
