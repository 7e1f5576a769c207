"""Finds the largest batch, else the smallest mesh, whose programs the compiler accepts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import msgspec

from xlahouse.capture.compile.refusal import DoesNotFitError, Refusal
from xlahouse.capture.compile.target import Target
from xlahouse.capture.feasible import is_feasible
from xlahouse.capture.models.sharding import BATCH_AXES
from xlahouse.capture.plan import Experiment
from xlahouse.capture.slices import parse_slice, smallest_slice

# Axes that split weights, in the order in which a mesh is made larger; the first that it has.
_SPLITTING = ("tp", "sp", "fsdp", "ep", "pp")


@dataclass(frozen=True)
class Trial:
    """A number of batch units, and the HBM that the compiler asks for."""

    units: int  # the batch, in the least steps that the mesh allows
    needed_bytes: float  # of one chip


# Compiles all programs of an experiment: bytes of HBM that the largest needs.
# Raises DoesNotFitError where the compiler refuses one.
Compile = Callable[[Experiment], float]


def advice_on(
    experiment: Experiment, target: Target, refusal: Refusal, compile_all: Compile
) -> str:
    """A clause on the largest batch of this mesh that compiles, else on the smallest mesh that does.

    Args:
        experiment: it was refused.
        target: the chips that it was refused for.
        refusal: of one of its programs.
        compile_all: compiles a variant of the experiment for the chips of its own slice.

    Raises:
        CaptureError: the compiler failed for another reason than memory.
    """
    here = msgspec.structs.replace(experiment, slice=target.slice.accelerator_type)
    largest = largest_batch(here, refusal, compile_all)
    if largest:
        above = largest + batch_unit(here)
        return f"the largest batch_size that compiles is {largest}; {above} does not"
    mesh = f"no batch_size compiles on {here.parallelism}"
    for other in larger_meshes(here, refusal):
        try:
            compile_all(other)
        except DoesNotFitError:
            continue
        return (
            f"{mesh}; of larger meshes {other.parallelism} on {other.slice} is the smallest that "
            f"compiles with batch_size {other.batch_size}"
        )
    return f"{mesh}, nor batch_size {here.batch_size} on a larger mesh of the same axes"


def batch_unit(experiment: Experiment) -> int:
    """The least batch that the mesh can run; each batch is a multiple of it."""
    parts = math.prod(experiment.mesh.get(axis, 1) for axis in BATCH_AXES)
    return parts * experiment.microbatches


def largest_batch(experiment: Experiment, refusal: Refusal, compile_all: Compile) -> int:
    """The largest batch below the refused one that compiles; 0 where none does.

    The bytes that a program needs grow about linearly with the batch, so that the next trial is where the
    line through the two ends reaches the limit; every third trial halves the range, in case they do not.
    """
    unit = batch_unit(experiment)

    def tried(units: int) -> Trial | Refusal:
        variant = msgspec.structs.replace(experiment, batch_size=units * unit)
        try:
            return Trial(units, compile_all(variant))
        except DoesNotFitError as error:
            return error.refusal

    below = Trial(0, 0.0)
    above = Trial(experiment.batch_size // unit, refusal.needed_bytes)
    trials = 0
    while above.units - below.units > 1:
        units = _next_trial(below, above, refusal.available_bytes, trials)
        found = tried(units)
        if isinstance(found, Trial):
            below = found
        else:
            above = Trial(units, found.needed_bytes)
        trials += 1
    return below.units * unit


def _next_trial(below: Trial, above: Trial, limit: float, trials: int) -> int:
    """Units strictly between the ends: the least first, which decides whether any batch compiles."""
    if not below.units:
        return 1
    middle = (below.units + above.units) // 2
    rise = above.needed_bytes - below.needed_bytes
    if trials % 3 == 0 or rise <= 0:
        return middle
    share = (limit - below.needed_bytes) / rise
    guess = below.units + math.floor(share * (above.units - below.units))
    return min(max(guess, below.units + 1), above.units - 1)


def larger_meshes(experiment: Experiment, refusal: Refusal) -> Iterator[Experiment]:
    """The experiment on twice, four times … the devices, as far as its model and chips allow.

    An axis that splits weights grows. Meshes whose devices could not even hold an equal part of the
    arguments are left out.
    """
    generation = parse_slice(experiment.slice).generation
    axes = [axis for axis in _SPLITTING if experiment.mesh.get(axis, 1) > 1] or ["tp"]
    for doublings in range(1, generation.sizes[-1].bit_length()):
        factor = 2**doublings
        larger = smallest_slice(generation, experiment.device_count * factor)
        if larger is None:
            return
        if refusal.parts.get("arguments", 0.0) / factor > refusal.available_bytes:
            continue
        grown = (experiment.mesh | {axis: experiment.mesh.get(axis, 1) * factor} for axis in axes)
        variants = (
            msgspec.structs.replace(experiment, mesh=mesh, slice=larger.accelerator_type)
            for mesh in grown
        )
        yield from islice((each for each in variants if is_feasible(each.candidate)), 1)
