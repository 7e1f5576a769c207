"""The topology that a slice has to libtpu, and the flags that torch_xla sets on its chips."""

from __future__ import annotations

from dataclasses import dataclass

from xlahouse.capture.errors import CaptureError
from xlahouse.capture.plan import Experiment
from xlahouse.capture.slices import Slice, parse_slice

_FLAT = {4: "2x2", 8: "2x4", 16: "4x4", 32: "4x8", 64: "8x8", 128: "8x16", 256: "16x16"}
_CUBES = {
    4: "2x2x1",
    8: "2x2x2",
    16: "2x2x4",
    32: "2x4x4",
    64: "4x4x4",
    128: "4x4x8",
    256: "4x8x8",
    512: "8x8x8",
    1024: "8x8x16",
    2048: "8x16x16",
}
_SHAPES = {"v4": _CUBES, "v5e": _FLAT, "v5p": _CUBES, "v6e": _FLAT}  # generation -> chips -> bounds
# One device a chip, as on a real v4; libtpu's default for v4 has a device for each of two cores.
_MEGACORE = {"v4": "megacore_dense"}
# What torch_xla 2.9 puts into LIBTPU_INIT_ARGS on a machine with TPUs, where a user set nothing.
_FLAGS = (
    "--xla_tpu_use_enhanced_launch_barrier=false",
    "--xla_latency_hiding_scheduler_rerun=1",
    "--xla_tpu_prefer_async_allgather_to_allreduce=true",
    "--xla_tpu_enable_flash_attention=false",
)
_V5_FLAGS = ("--xla_enable_async_all_gather=true", "--xla_enable_async_collective_permute=true")


@dataclass(frozen=True)
class Target:
    """Chips to compile for: the first `device_count` of a topology."""

    slice: Slice  # that the plan or the user names
    topology: str  # libtpu's name, such as v6e:2x4
    chip_config: str  # libtpu's `chip_config_name`; empty: its default
    device_count: int  # devices of the mesh

    @property
    def flags(self) -> str:
        """LIBTPU_INIT_ARGS as torch_xla sets them on these chips."""
        more = _V5_FLAGS if self.slice.generation.name in ("v5e", "v5p") else ()
        return " ".join((*_FLAGS, *more))

    @property
    def note(self) -> str | None:
        """A sentence on chips that the mesh leaves unused; None if it uses all."""
        chips = _chips(self.topology)
        if chips == self.device_count:
            return None
        return (
            f"compiled for the first {self.device_count} of the {chips} chips of {self.topology}, "
            "the smallest topology that libtpu knows"
        )


def target_of(experiment: Experiment, named: str | None = None) -> Target:
    """The chips that an experiment is meant for: `named`, such as v6e-8, else its plan's slice.

    Raises:
        CaptureError: neither names a slice, or the slice has too few chips.
    """
    text = named or experiment.slice
    if not text:
        raise CaptureError(
            f"experiment {experiment.name}: the plan names no slice; say for which chips to compile, "
            "such as --slice v6e-8"
        )
    found, needed = parse_slice(text), experiment.device_count
    if found.chips < needed:
        raise CaptureError(
            f"experiment {experiment.name}: its mesh has {needed} devices, {text} has {found.chips} "
            "chips; name a larger slice"
        )
    generation = found.generation.name
    # A larger slice than the mesh: the smallest topology that holds the mesh.
    chips, bounds = next(
        (chips, bounds) for chips, bounds in _SHAPES[generation].items() if chips >= needed
    )
    used = found if found.chips in (chips, needed) else Slice(found.generation, chips)
    return Target(used, f"{generation}:{bounds}", _MEGACORE.get(generation, ""), needed)


def _chips(topology: str) -> int:
    """Chips of a topology such as v6e:2x4."""
    chips = 1
    for side in topology.partition(":")[2].split("x"):
        chips *= int(side)
    return chips
