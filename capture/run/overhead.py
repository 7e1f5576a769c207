"""The cost of profiler and debug scopes: the same decode steps with and without, in pairs."""

from __future__ import annotations

import contextlib
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.models.decode import Generator

PROFILER_LIMIT = 0.05  # share of a step that the profiler may cost


@dataclass(frozen=True)
class Bare:
    """Seconds of each decode step of two requests without the profiler."""

    scoped_s: list[float]  # with debug scopes, as profiled requests have them
    unscoped_s: list[float]  # without

    @classmethod
    def measure(cls, generator: Generator, prompt: torch.Tensor) -> Bare:
        """Run both requests. Scopes are not part of a program's fingerprint, so nothing compiles."""
        import torch_xla

        scoped = generator.run(prompt, lambda step: contextlib.nullcontext())[1]
        torch_xla._XLAC._set_ir_debug(False)
        try:
            unscoped = generator.run(prompt, lambda step: contextlib.nullcontext())[1]
        finally:
            torch_xla._XLAC._set_ir_debug(True)
        return cls(scoped[1:], unscoped[1:])


@dataclass(frozen=True)
class Cost:
    """(with - without) / without over pairs of decode steps: their median and quartiles."""

    ratio: float | None  # None without pairs
    quartiles: list[float]  # lower and upper; [] with fewer than two pairs
    pairs: int  # decode steps compared


def cost(with_it: list[list[float]], without: list[list[float]]) -> Cost:
    """The relative cost for a step.

    The lists of `with_it` and `without` are paired by index, then step by step.
    """
    ratios = [
        one / other - 1
        for ones, others in zip(with_it, without, strict=False)
        for one, other in zip(ones, others, strict=False)
    ]
    if len(ratios) < 2:
        return Cost(ratios[0] if ratios else None, [], len(ratios))
    lower, middle, upper = statistics.quantiles(ratios, n=4, method="inclusive")
    return Cost(middle, [lower, upper], len(ratios))


def profiler_warnings(profiler: Cost, virtual: bool) -> list[str]:
    """A warning if the profiler slows steps beyond its limit, and not by chance.

    Virtual devices share cores with all other processes: their differences are chance.
    """
    if virtual or not profiler.quartiles or profiler.quartiles[0] <= PROFILER_LIMIT:
        return []
    return [
        f"the profiler slows a decode step by {profiler.ratio:.0%}, more than {PROFILER_LIMIT:.0%}: "
        "times of this capture are too long"
    ]
