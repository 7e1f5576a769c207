"""Who stands where in a mesh, who shares a group, and how HLO writes the groups down."""

from __future__ import annotations

import math
from dataclasses import dataclass

Mesh = tuple[tuple[str, int], ...]
Groups = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Iota:
    """Groups as `[groups,members]<=[reshape]T(perm)`."""

    groups: int
    members: int
    reshape: tuple[int, ...]
    perm: tuple[int, ...]

    def __str__(self) -> str:
        shape = ",".join(map(str, self.reshape))
        plain = self.perm == tuple(range(len(self.perm)))
        perm = "" if plain else f"T({','.join(map(str, self.perm))})"
        return f"[{self.groups},{self.members}]<=[{shape}]{perm}"


@dataclass(frozen=True)
class MeshAxes:
    """Groups along an axis of a mesh, or along a part of its only axis (`sub_axis`).

    XLA's names for the axes differ from instruction to instruction and mean nothing.
    """

    sizes: tuple[int, ...]
    at: int
    sub_axis: bool

    def __str__(self) -> str:
        if self.sub_axis:
            before = math.prod(self.sizes[: self.at])
            total = math.prod(self.sizes)
            return f"mesh['axis_0'={total}] {{'axis_0':({before}){self.sizes[self.at]}}}"
        axes = ",".join(f"'axis_{k}'={size}" for k, size in enumerate(self.sizes))
        return f"mesh[{axes}] {{'axis_{self.at}'}}"


@dataclass(frozen=True)
class Written:
    """Replica groups as an instruction holds them."""

    groups: Groups
    notation: str
    iota: Iota | None = None
    axes: MeshAxes | None = None
    channel: bool = True
    global_ids: bool = False

    @property
    def text(self) -> str:
        """The value of `replica_groups=`."""
        if self.notation == "empty":
            return "{}"
        if self.iota is not None or self.axes is not None:
            return str(self.iota or self.axes)
        return "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in self.groups) + "}"


def coordinate(mesh: Mesh, position: int, axis: str) -> int:
    """A position's coordinate on an axis."""
    for name, size in reversed(mesh):
        if name == axis:
            return position % size
        position //= size
    return 0


def groups_along(mesh: Mesh, axis: str) -> Groups:
    """The groups of positions that differ in one axis only, members in the axis' order."""
    names, sizes = [name for name, _ in mesh], [size for _, size in mesh]
    stride = math.prod(sizes[names.index(axis) + 1 :])
    size = sizes[names.index(axis)]
    heads = [p for p in range(math.prod(sizes)) if p // stride % size == 0]
    return tuple(tuple(head + stride * k for k in range(size)) for head in heads)


def iota_along(sizes: tuple[int, ...], at: int) -> Iota:
    """The groups along dimension `at`, as an iota; along the minor-most without a transpose."""
    total = math.prod(sizes)
    if at == len(sizes) - 1:
        return Iota(total // sizes[at], sizes[at], (total,), (0,))
    perm = (*(k for k in range(len(sizes)) if k != at), at)
    return Iota(total // sizes[at], sizes[at], sizes, perm)


def _listed(
    sizes: tuple[int, ...], at: int, ids: str, replicas: int
) -> tuple[tuple[int, ...], int]:
    """Sizes and axis of the numbers that groups list: all, or those of one replica or partition.

    Raises:
        ValueError: groups along that axis cannot be listed so.
    """
    minor = next(k for k in range(len(sizes) + 1) if math.prod(sizes[:k]) == replicas)
    if ids == "flattened":
        return sizes, at
    if ids == "partitions":
        if at < minor:
            raise ValueError("a group of partitions must stay within a replica")
        return sizes[minor:], at - minor
    if at >= minor or (ids == "all_partitions" and math.prod(sizes) > replicas):
        raise ValueError("a group of replicas must lie on the replica axes")
    return sizes[:minor], at


def write_groups(mesh: Mesh, axis: str, notation: str, ids: str, replicas: int) -> Written:
    """Groups along an axis in a notation, holding flattened ids, partitions or replicas.

    flattened: replica x partitions + partition. partitions: listed once, repeated for each replica.
    replicas: listed once, repeated for each partition. all_partitions: replicas, each with all its
    partitions (here: its one).
    """
    everyone = tuple(size for _, size in mesh)
    sizes, at = _listed(everyone, [name for name, _ in mesh].index(axis), ids, replicas)
    groups = groups_along(tuple((str(k), size) for k, size in enumerate(sizes)), str(at))
    if notation == "empty" and (len(groups) > 1 or ids == "flattened"):
        notation = "list"
    iota = iota_along(sizes, at) if notation in ("iota", "new_iota") else None
    part = notation == "sub_axis" and sizes[at] < math.prod(sizes)
    axes = MeshAxes(sizes, at, part) if notation in ("mesh", "sub_axis") else None
    return Written(groups, notation, iota, axes, ids != "replicas", ids == "flattened")
