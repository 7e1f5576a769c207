"""The slices of TPU chips on offer, their names in gcloud, and the software of their VMs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xlahouse.capture.errors import CaptureError


@dataclass(frozen=True)
class Generation:
    """One TPU generation (source: Google Cloud's pages on generations and on runtime versions; rates of
    a chip: jax-ml's scaling book, and Google's page for v6e's FLOP/s)."""

    name: str  # such as v5e
    prefix: str  # of its accelerator types, such as v5litepod
    numbers_per_chip: int  # growth of the number in a type; 2 where it counts TensorCores
    sizes: tuple[int, ...]  # chips of each slice on offer
    alone: tuple[int, ...]  # sizes with a single host
    chips_per_host: int  # in larger slices
    runtime: str  # version of the software on its VMs
    hbm_gib: int  # memory of a chip, which is one device
    flops_per_s: float  # of a chip, in bfloat16
    hbm_bytes_per_s: float  # of a chip
    ici_bytes_per_s: float  # of one link, one way


_FLAT = (1, 4, 8, 16, 32, 64, 128, 256)
_CUBES = (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
GENERATIONS = (
    Generation("v4", "v4", 2, _CUBES, (4,), 4, "tpu-ubuntu2204-base", 32, 2.75e14, 1.2e12, 4.5e10),
    Generation(
        "v5e",
        "v5litepod",
        1,
        _FLAT,
        (1, 4, 8),
        4,
        "v2-alpha-tpuv5-lite",
        16,
        1.97e14,
        8.1e11,
        4.5e10,
    ),
    Generation("v5p", "v5p", 2, _CUBES, (4,), 4, "v2-alpha-tpuv5", 95, 4.59e14, 2.8e12, 9e10),
    Generation("v6e", "v6e", 1, _FLAT, (1, 4, 8), 4, "v2-alpha-tpuv6e", 32, 9.18e14, 1.6e12, 9e10),
)
NAMES = tuple(generation.name for generation in GENERATIONS)


@dataclass(frozen=True)
class Slice:
    """Connected chips of one generation, which belong to one TPU VM."""

    generation: Generation  # of all its chips
    chips: int  # each is one device

    @property
    def accelerator_type(self) -> str:
        """The name in gcloud, such as v6e-8, v5litepod-16 or v4-32 (16 chips)."""
        return f"{self.generation.prefix}-{self.chips * self.generation.numbers_per_chip}"

    @property
    def hosts(self) -> int:
        """VMs; each runs one process."""
        if self.chips in self.generation.alone:
            return 1
        return self.chips // self.generation.chips_per_host


def parse_slice(text: str) -> Slice:
    """`v6e-8`, `v5litepod-16` or `v5e-16`, `v4-32`: an accelerator type, counted as Google Cloud does.

    Raises:
        CaptureError: no such type; names the nearest types.
    """
    match = re.fullmatch(r"(?P<prefix>v\w+?)-(?P<number>[1-9]\d{0,5})", text.strip().lower())
    generation = _generation(match["prefix"]) if match else None
    if match is None or generation is None:
        known = ", ".join(Slice(each, each.sizes[1]).accelerator_type for each in GENERATIONS)
        raise CaptureError(f"no TPU type {text!r}; types are such as {known}")
    chips, rest = divmod(int(match["number"]), generation.numbers_per_chip)
    if rest or chips not in generation.sizes:
        known = ", ".join(Slice(generation, size).accelerator_type for size in generation.sizes)
        raise CaptureError(f"no TPU type {text!r}; {generation.name} is available as {known}")
    return Slice(generation, chips)


def smallest_slice(generation: Generation, devices: int) -> Slice | None:
    """The smallest slice on offer with as many chips; None where none has."""
    sizes = (size for size in generation.sizes if size >= devices)
    return next((Slice(generation, size) for size in sizes), None)


def _generation(prefix: str) -> Generation | None:
    found = (each for each in GENERATIONS if prefix in (each.prefix, each.name))
    return next(found, None)
