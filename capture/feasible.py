"""Refuses an experiment that cannot run, before any starts, and names the nearest that can."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from xlahouse.capture.errors import ManifestError
from xlahouse.capture.manifest import check_mesh_size
from xlahouse.capture.models.families import Family
from xlahouse.capture.models.placing import Stages
from xlahouse.capture.models.presets import ConfigValue, size_of
from xlahouse.capture.models.sharding import AXES, BATCH_AXES

# fields that tp splits, besides heads
_SPLIT = (
    "intermediate_size",
    "moe_intermediate_size",
    "vocab_size",
)
_GATHERED = ("hidden_size", "q_lora_rank", "kv_lora_rank")  # fields that fsdp splits


_TRIED = 20_000  # meshes, to name the nearest; large numbers have millions


@dataclass(frozen=True)
class Candidate:
    """The part of an experiment that decides whether it can run."""

    family: Family  # the model's architecture
    config: dict[str, ConfigValue]  # sizes by transformers' names
    mesh: dict[str, int]  # axis -> size, major to minor
    batch_size: int  # sequences over all devices
    prompt_tokens: int  # tokens of each prompt
    microbatches: int  # of a pipeline; 1 without

    def size(self, axis: str) -> int:
        """Devices along an axis; 1 where the mesh lacks it."""
        return self.mesh.get(axis, 1)


def stages_of(mesh: dict[str, int], family: Family, config: dict[str, ConfigValue]) -> Stages:
    """How `mesh` cuts the layers; leading dense layers of a model with experts stay together."""
    count = mesh.get("pp", 1)
    dense = size_of(config, "first_k_dense_replace") if family.experts and count > 1 else 0
    return Stages(count, dense, (size_of(config, "num_hidden_layers") - dense) // count)


def check_feasible(candidate: Candidate) -> None:
    """Refuse an experiment whose model does not fit its mesh, or whose mesh has no such axis.

    Raises:
        ManifestError: starts with the wrong field; says why, and names the nearest mesh that can run.
    """
    unknown = [axis for axis in candidate.mesh if axis not in AXES]
    if unknown:
        raise ManifestError(f"mesh: axes are {', '.join(AXES)}, not {', '.join(unknown)}")
    if not candidate.mesh:
        raise ManifestError("mesh: no axes; for a single device write {tp: 1}")
    check_mesh_size(candidate.mesh.values())
    problem = next(_problems(candidate), None)
    if problem is None:
        return
    near = nearest(candidate)
    hint = "" if near is None else f"; the nearest that can run is {_written(near, candidate)}"
    raise ManifestError(problem + hint)


def is_feasible(candidate: Candidate) -> bool:
    """Whether an experiment with known axes can run."""
    return next(_problems(candidate), None) is None


def parts_of(candidate: Candidate) -> list[str]:
    """The sizes that each axis of a feasible experiment divides, and the parts: a line an axis."""
    parts: dict[str, list[str]] = {axis: [] for axis in candidate.mesh if candidate.size(axis) > 1}
    batch = math.prod(candidate.size(axis) for axis in BATCH_AXES)
    stages = stages_of(candidate.mesh, candidate.family, candidate.config)
    for axis, found in parts.items():
        if axis in BATCH_AXES:
            found.append(
                f"batch_size {candidate.batch_size} into {candidate.batch_size // batch} a device"
            )
        if axis == "ep":
            experts = size_of(candidate.config, "n_routed_experts")
            found.append(f"n_routed_experts {experts} into {experts // candidate.size('ep')}")
        if axis == "pp":
            found.append(f"{stages.count * stages.per_stage} layers into {stages.per_stage}")
        if axis == "sp":
            found.append(
                f"prompt {candidate.prompt_tokens} into {candidate.prompt_tokens // candidate.size(axis)}"
            )
    for axis, field, size in _splits(candidate):
        if axis in parts:
            parts[axis].append(f"{field} {size} into {size // candidate.size(axis)}")
    return [
        f"{axis}{candidate.size(axis)} divides {', '.join(found)}" for axis, found in parts.items()
    ]


def nearest(candidate: Candidate) -> Candidate | None:
    """The feasible candidate whose mesh differs least: as many devices if possible, else fewer.

    A number of devices that no slice has may become the next power of two, fewer or more. None where
    none is found among the first _TRIED meshes.
    """
    devices = math.prod(candidate.mesh.values())
    if devices & (devices - 1):
        return _nearest_slice(candidate, devices)
    return _nearest_of(candidate, sorted(_divisors(devices), reverse=True))


def _nearest_slice(candidate: Candidate, devices: int) -> Candidate | None:
    """The nearer of those on the powers of two below and above, else on fewer devices."""
    below = 1 << (devices.bit_length() - 1)
    found = [_nearest_of(candidate, [count]) for count in (below, 2 * below, devices)]
    near = [each for each in found if each is not None]
    if near:
        return min(near, key=lambda other: _distance(other, candidate))
    return _nearest_of(candidate, sorted(_divisors(below // 2 or 1), reverse=True))


def _nearest_of(candidate: Candidate, counts: list[int]) -> Candidate | None:
    """The feasible candidate that differs least, of the first number of devices that has one."""
    axes = list(dict.fromkeys((*candidate.mesh, "dp", "tp")))
    if "sp" in candidate.mesh:
        axes.remove("tp")
    left = _TRIED
    for count in counts:
        meshes = list(itertools.islice(_meshes(axes, count), left))
        left -= len(meshes)
        found = [other for mesh in meshes for other in _with_microbatches(candidate, mesh)]
        if found:
            return min(found, key=lambda other: _distance(other, candidate))
    return None


def _meshes(axes: list[str], devices: int) -> Iterator[dict[str, int]]:
    """Every way to lay `devices` out over `axes`."""
    if len(axes) == 1:
        yield {axes[0]: devices}
        return
    for size in _divisors(devices):
        for rest in _meshes(axes[1:], devices // size):
            yield {axes[0]: size} | rest


def _divisors(number: int) -> list[int]:
    return [n for n in range(1, number + 1) if number % n == 0]


def _with_microbatches(candidate: Candidate, mesh: dict[str, int]) -> Iterator[Candidate]:
    """The candidate on `mesh`, with the plan's microbatches or one, where that can run."""
    for microbatches in dict.fromkeys((candidate.microbatches, 1)):
        other = replace(candidate, mesh=mesh, microbatches=microbatches)
        if is_feasible(other):
            yield other
            return


def _distance(other: Candidate, candidate: Candidate) -> float:
    moved = sum(abs(math.log2(size / candidate.size(axis))) for axis, size in other.mesh.items())
    return moved + (other.microbatches != candidate.microbatches)


def _written(near: Candidate, candidate: Candidate) -> str:
    sizes = {axis: size for axis, size in near.mesh.items() if size > 1} or {"tp": 1}
    mesh = ", ".join(f"{axis}: {size}" for axis, size in sizes.items())
    more = (
        f" with microbatches {near.microbatches}"
        if near.microbatches != candidate.microbatches
        else ""
    )
    return f"{{{mesh}}}{more}"


def _problems(candidate: Candidate) -> Iterator[str]:
    """Why a candidate cannot run, each starting with the wrong field."""
    yield from _model_problems(candidate)
    yield from _tensor_problems(candidate)
    yield from _batch_problems(candidate)
    yield from _pipeline_problems(candidate)


def _model_problems(candidate: Candidate) -> Iterator[str]:
    heads = size_of(candidate.config, "num_attention_heads")
    kv_heads = size_of(candidate.config, "num_key_value_heads")
    if heads % kv_heads:
        yield (f"model: num_key_value_heads {kv_heads} does not divide num_attention_heads {heads}")
    ep, experts = candidate.size("ep"), size_of(candidate.config, "n_routed_experts")
    if ep > 1 and not candidate.family.experts:
        yield f"mesh: ep={ep}, but {candidate.family.name} has no experts"
    elif experts % ep:
        yield f"mesh: ep={ep} does not divide the model's n_routed_experts {experts}"


def _tensor_problems(candidate: Candidate) -> Iterator[str]:
    if candidate.size("tp") > 1 and candidate.size("sp") > 1:
        yield "mesh: tp and sp split the same weights; use sp alone, which also splits the sequence"
    for axis, field, size in _splits(candidate):
        if size % candidate.size(axis):
            yield f"mesh: {axis}={candidate.size(axis)} does not divide the model's {field} {size}"
    if candidate.prompt_tokens % candidate.size("sp"):
        yield f"prompt_tokens: {candidate.prompt_tokens} is not a multiple of sp={candidate.size('sp')}"


def _splits(candidate: Candidate) -> Iterator[tuple[str, str, int]]:
    """Axis, field and size for each size of the model that `tp`, `sp` or `fsdp` splits."""
    heads = (*candidate.family.heads, *_SPLIT)
    for axis, fields in (("tp", heads), ("sp", heads), ("fsdp", _GATHERED)):
        for field in fields:
            size = size_of(candidate.config, field)
            if size:
                yield axis, field, size


def _batch_problems(candidate: Candidate) -> Iterator[str]:
    axes = [axis for axis in BATCH_AXES if candidate.size(axis) > 1]
    parts = math.prod(candidate.size(axis) for axis in axes)
    if candidate.batch_size % parts:
        split = " x ".join(f"{axis}={candidate.size(axis)}" for axis in axes)
        yield f"batch_size: {candidate.batch_size} is not a multiple of {split}"
    elif candidate.batch_size // parts % candidate.microbatches:
        yield (
            f"microbatches: {candidate.microbatches} does not divide the {candidate.batch_size // parts} "
            "sequences of a device"
        )


def _pipeline_problems(candidate: Candidate) -> Iterator[str]:
    stages = candidate.size("pp")
    if stages == 1:
        if candidate.microbatches > 1:
            yield f"microbatches: {candidate.microbatches} without a pp axis; remove it"
        return
    if not candidate.family.stackable:
        yield f"mesh: pp={stages}, but layers of {candidate.family.name} differ and cannot be stacked"
        return
    dense = stages_of(candidate.mesh, candidate.family, candidate.config).dense
    layers = size_of(candidate.config, "num_hidden_layers") - dense
    if layers % stages or layers < stages:
        after = f" after {dense} dense ones" if dense else ""
        yield f"mesh: pp={stages} does not divide the model's {layers} layers{after}"
    if candidate.size("fsdp") > 1:
        yield "mesh: fsdp with pp would gather each weight at every tick of the pipeline"
