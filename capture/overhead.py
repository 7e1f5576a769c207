"""What observing costs: the same decode steps with and without it, in pairs."""

from __future__ import annotations

import contextlib
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.decode import Generator


@dataclass(frozen=True)
class Bare:
    """Decode steps of two requests that the profiler does not see, in seconds each."""

    scoped_s: list[float]  # with debug scopes, as profiled requests have them
    unscoped_s: list[float]  # without

    @classmethod
    def measure(cls, generator: Generator, prompt: torch.Tensor) -> Bare:
        """Run both requests. Scopes are no part of a program's fingerprint: nothing compiles."""
        import torch_xla

        scoped = generator.run(prompt, lambda step: contextlib.nullcontext())[1]
        torch_xla._XLAC._set_ir_debug(False)
        try:
            unscoped = generator.run(prompt, lambda step: contextlib.nullcontext())[1]
        finally:
            torch_xla._XLAC._set_ir_debug(True)
        return cls(scoped[1:], unscoped[1:])


def cost(with_it: list[list[float]], without: list[list[float]]) -> float | None:
    """Median over steps of (with - without) / without; None without pairs.

    Each list of `with_it` is paired with that of the same place in `without`, step by step.
    """
    ratios = [
        one / other - 1
        for ones, others in zip(with_it, without, strict=False)
        for one, other in zip(ones, others, strict=False)
    ]
    return statistics.median(ratios) if ratios else None
