"""Numbers that tie host and device together: which pass, which launch, which enqueue."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tests.synth.describe import DECODE, PREFILL, Run
from tests.synth.programs import GOLDEN
from tests.synth.timeline import step_launches

CHUNK = 1 << 18  # events encoded at once
LINK_TYPE = 12  # _ct and _pt of a TPU execution


def link_ids(serials: np.ndarray) -> np.ndarray:
    """Ids that tie enqueues to launches: unique, and half of them negative as int64."""
    return (serials.astype(np.uint64) + np.uint64(1)) * np.uint64(GOLDEN)


def serials(run: Run, position: int, steps: np.ndarray, launch: int) -> np.ndarray:
    """A number for a step's `launch`-th launch on a device, for each of the run's steps given."""
    per_step = max(len(step_launches(run, phase)) for phase in (PREFILL, DECODE))
    number = run.local(position) if run.same_links else position
    return (steps * per_step + launch) * len(run.devices) + number


def step_chunks(run: Run, per_step: int, missed: int = 0) -> Iterator[tuple[str, np.ndarray]]:
    """(phase, indices of consecutive passes of it), few enough to be encoded at once."""
    most = max(1, CHUNK // max(per_step, 1))
    for first in range(0, len(run.passes), run.steps):
        if first >= missed:
            yield PREFILL, np.array([first])
        for start in range(max(first + 1, missed), first + run.steps, most):
            yield DECODE, np.arange(start, min(start + most, first + run.steps))
