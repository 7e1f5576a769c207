"""Refuses an experiment that cannot run, before anything does, and names the nearest one that can."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xlahouse.capture.errors import ManifestError
from xlahouse.capture.models.families import FAMILIES, Family
from xlahouse.capture.models.placing import Stages
from xlahouse.capture.models.presets import ConfigValue, find_preset, size_of
from xlahouse.capture.models.sharding import AXES, BATCH_AXES

if TYPE_CHECKING:
    from xlahouse.capture.plan import Experiment

_SPLIT = ("intermediate_size", "moe_intermediate_size", "vocab_size")  # what tp splits beside heads
_GATHERED = ("hidden_size", "q_lora_rank", "kv_lora_rank")  # what fsdp splits


@dataclass(frozen=True)
class Cell:
    """What decides whether an experiment can run."""

    family: Family
    config: dict[str, ConfigValue]
    mesh: dict[str, int]
    batch_size: int
    prompt_tokens: int
    microbatches: int

    def size(self, axis: str) -> int:
        """Devices along an axis; 1 where the mesh lacks it."""
        return self.mesh.get(axis, 1)


def stages_of(mesh: dict[str, int], family: Family, config: dict[str, ConfigValue]) -> Stages:
    """How `mesh` cuts the layers; the leading dense ones of a model with experts stay whole."""
    count = mesh.get("pp", 1)
    dense = size_of(config, "first_k_dense_replace") if family.experts and count > 1 else 0
    return Stages(count, dense, (size_of(config, "num_hidden_layers") - dense) // count)


def check_feasible(experiment: Experiment) -> None:
    """Refuse an experiment whose model does not fit its mesh, or whose mesh has no such axis.

    Raises:
        ManifestError: starts with the field at fault; says why and what comes nearest.
    """
    unknown = [axis for axis in experiment.mesh if axis not in AXES]
    if unknown:
        raise ManifestError(f"mesh: axes are {', '.join(AXES)}, not {', '.join(unknown)}")
    if not experiment.mesh:
        raise ManifestError("mesh: no axes; for a single device write {tp: 1}")
    cell = _cell_of(experiment)
    problem = next(_problems(cell), None)
    if problem is None:
        return
    near = nearest(cell)
    hint = "" if near is None else f"; the nearest that can run is {_told(near, cell)}"
    raise ManifestError(problem + hint)


def parts_of(experiment: Experiment) -> list[str]:
    """What each axis of a feasible experiment divides, and into how much: a line an axis."""
    cell = _cell_of(experiment)
    parts: dict[str, list[str]] = {axis: [] for axis in cell.mesh if cell.size(axis) > 1}
    batch = math.prod(cell.size(axis) for axis in BATCH_AXES)
    stages = stages_of(cell.mesh, cell.family, cell.config)
    for axis, found in parts.items():
        if axis in BATCH_AXES:
            found.append(f"batch_size {cell.batch_size} into {cell.batch_size // batch} a device")
        if axis == "ep":
            experts = size_of(cell.config, "n_routed_experts")
            found.append(f"n_routed_experts {experts} into {experts // cell.size('ep')}")
        if axis == "pp":
            found.append(f"{stages.count * stages.per_stage} layers into {stages.per_stage}")
        if axis == "sp":
            found.append(
                f"prompt {cell.prompt_tokens} into {cell.prompt_tokens // cell.size(axis)}"
            )
    for axis, field, size in _splits(cell):
        if axis in parts:
            parts[axis].append(f"{field} {size} into {size // cell.size(axis)}")
    return [f"{axis}{cell.size(axis)} divides {', '.join(found)}" for axis, found in parts.items()]


def _cell_of(experiment: Experiment) -> Cell:
    return Cell(
        FAMILIES[find_preset(experiment.model.preset).family],
        experiment.model.sizes,
        experiment.mesh,
        experiment.batch_size,
        experiment.prompt_tokens,
        experiment.microbatches,
    )


def nearest(cell: Cell) -> Cell | None:
    """The feasible cell whose mesh differs least: as many devices if possible, else fewer."""
    devices = math.prod(cell.mesh.values())
    axes = list(dict.fromkeys((*cell.mesh, "dp", "tp")))
    if "sp" in cell.mesh:
        axes.remove("tp")
    for count in sorted((n for n in range(1, devices + 1) if devices % n == 0), reverse=True):
        found = [other for mesh in _meshes(axes, count) for other in _with_microbatches(cell, mesh)]
        if found:
            return min(found, key=lambda other: _distance(other, cell))
    return None


def _meshes(axes: list[str], devices: int) -> Iterator[dict[str, int]]:
    """Every way to lay `devices` out over `axes`."""
    divisors = [n for n in range(1, devices + 1) if devices % n == 0]
    for sizes in itertools.product(divisors, repeat=len(axes)):
        if math.prod(sizes) == devices:
            yield dict(zip(axes, sizes, strict=True))


def _with_microbatches(cell: Cell, mesh: dict[str, int]) -> Iterator[Cell]:
    """The cell on `mesh`, with the plan's microbatches or one, where that can run."""
    for microbatches in dict.fromkeys((cell.microbatches, 1)):
        other = replace(cell, mesh=mesh, microbatches=microbatches)
        if next(_problems(other), None) is None:
            yield other
            return


def _distance(other: Cell, cell: Cell) -> float:
    moved = sum(abs(math.log2(size / cell.size(axis))) for axis, size in other.mesh.items())
    return moved + (other.microbatches != cell.microbatches)


def _told(near: Cell, cell: Cell) -> str:
    sizes = {axis: size for axis, size in near.mesh.items() if size > 1} or {"tp": 1}
    mesh = ", ".join(f"{axis}: {size}" for axis, size in sizes.items())
    more = (
        f" with microbatches {near.microbatches}" if near.microbatches != cell.microbatches else ""
    )
    return f"{{{mesh}}}{more}"


def _problems(cell: Cell) -> Iterator[str]:
    """Why a cell cannot run, each starting with the field at fault."""
    yield from _model_problems(cell)
    yield from _tensor_problems(cell)
    yield from _batch_problems(cell)
    yield from _pipeline_problems(cell)


def _model_problems(cell: Cell) -> Iterator[str]:
    heads = size_of(cell.config, "num_attention_heads")
    kv_heads = size_of(cell.config, "num_key_value_heads")
    if heads % kv_heads:
        yield (f"model: num_key_value_heads {kv_heads} does not divide num_attention_heads {heads}")
    ep, experts = cell.size("ep"), size_of(cell.config, "n_routed_experts")
    if ep > 1 and not cell.family.experts:
        yield f"mesh: ep={ep}, and {cell.family.name} has no experts"
    elif experts % ep:
        yield f"mesh: ep={ep} does not divide the model's n_routed_experts {experts}"


def _tensor_problems(cell: Cell) -> Iterator[str]:
    if cell.size("tp") > 1 and cell.size("sp") > 1:
        yield "mesh: tp and sp split the same weights; sp alone does what tp does, and splits the sequence"
    for axis, field, size in _splits(cell):
        if size % cell.size(axis):
            yield f"mesh: {axis}={cell.size(axis)} does not divide the model's {field} {size}"
    if cell.prompt_tokens % cell.size("sp"):
        yield f"prompt_tokens: {cell.prompt_tokens} is not a multiple of sp={cell.size('sp')}"


def _splits(cell: Cell) -> Iterator[tuple[str, str, int]]:
    """Axis, field and size of what `tp`, `sp` and `fsdp` split of the model."""
    heads = (*cell.family.heads, *_SPLIT)
    for axis, fields in (("tp", heads), ("sp", heads), ("fsdp", _GATHERED)):
        for field in fields:
            size = size_of(cell.config, field)
            if size:
                yield axis, field, size


def _batch_problems(cell: Cell) -> Iterator[str]:
    axes = [axis for axis in BATCH_AXES if cell.size(axis) > 1]
    parts = math.prod(cell.size(axis) for axis in axes)
    if cell.batch_size % parts:
        split = " x ".join(f"{axis}={cell.size(axis)}" for axis in axes)
        yield f"batch_size: {cell.batch_size} is not a multiple of {split}"
    elif cell.batch_size // parts % cell.microbatches:
        yield (
            f"microbatches: {cell.microbatches} does not divide the {cell.batch_size // parts} "
            "sequences of a device"
        )


def _pipeline_problems(cell: Cell) -> Iterator[str]:
    stages = cell.size("pp")
    if stages == 1:
        if cell.microbatches > 1:
            yield f"microbatches: {cell.microbatches} without a pp axis; leave it out"
        return
    if not cell.family.stackable:
        yield f"mesh: pp={stages}, and layers of {cell.family.name} differ, so they cannot be stacked"
        return
    dense = stages_of(cell.mesh, cell.family, cell.config).dense
    layers = size_of(cell.config, "num_hidden_layers") - dense
    if layers % stages or layers < stages:
        after = f" after {dense} dense ones" if dense else ""
        yield f"mesh: pp={stages} does not divide the model's {layers} layers{after}"
    if cell.size("fsdp") > 1:
        yield "mesh: fsdp with pp would gather each weight at every tick of the pipeline"
