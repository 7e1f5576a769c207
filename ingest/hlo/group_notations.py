"""Replica groups as lists of numbers, read from each of the notations that an instruction may use."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from google.protobuf.unknown_fields import UnknownFieldSet
from numpy.typing import NDArray

from xlahouse.ingest.events.protobuf import MessageList
from xlahouse.ingest.hlo.messages import (
    AxisRef,
    GroupMesh,
    HloInstruction,
    IotaGroups,
    MeshGroups,
    ReplicaGroup,
)

LAST_OF_INSTRUCTION = 98  # the last field of HloInstructionProto, as of this version
MOST_DEVICES = 1 << 20  # beyond any machine; guards against damaged numbers
Groups = list[list[int]]


class GroupError(ValueError):
    """Groups that contradict themselves or the device assignment; the message says how."""


def raw_groups(instruction: HloInstruction) -> Groups:
    """Groups as the instruction writes them, in whichever notation; [] means all devices.

    Raises:
        GroupError: the notation contradicts itself, or may be one that a later compiler has.
    """
    grid = _grid(instruction)
    if grid is not None:
        return [[int(number) for number in row] for row in grid]
    groups = _from_lists(_listed(instruction))
    if not groups and any(
        field.field_number > LAST_OF_INSTRUCTION for field in UnknownFieldSet(instruction)
    ):
        raise GroupError("no groups in a notation that is known, and fields of a later compiler")
    return groups


def names_participants(instruction: HloInstruction) -> bool:
    """Whether it states groups or pairs, in whichever notation: then it is a collective."""
    listed = instruction.collective_device_list
    return bool(
        instruction.replica_groups
        or instruction.source_target_pairs
        or listed.replica_groups
        or listed.iota_replica_group_list.num_replica_groups
        or instruction.iota_collective_device_list.num_replica_groups
        or instruction.mesh_axes_replica_group_list.HasField("mesh")
    )


def raw_sizes(instruction: HloInstruction) -> list[int]:
    """The size of each group, without making lists of their members.

    Raises:
        GroupError: the notation contradicts itself.
    """
    grid = _grid(instruction)
    if grid is not None:
        return [grid.shape[1]] * grid.shape[0]
    return [len(group.replica_ids) for group in _listed(instruction) if group.replica_ids]


def _listed(instruction: HloInstruction) -> MessageList[ReplicaGroup]:
    return instruction.collective_device_list.replica_groups or instruction.replica_groups


def _grid(instruction: HloInstruction) -> NDArray[np.int64] | None:
    """[group, position] where the notation is a shape; None where groups are listed."""
    if instruction.mesh_axes_replica_group_list.HasField("mesh"):
        return _from_mesh(instruction.mesh_axes_replica_group_list)
    listed = instruction.collective_device_list
    for iota in (instruction.iota_collective_device_list, listed.iota_replica_group_list):
        if iota.num_replica_groups:
            return _from_iota(iota)
    return None


def _from_lists(groups: MessageList[ReplicaGroup]) -> Groups:
    """`{{0,1},{2,3}}`: each group lists its members; empty groups are left out."""
    return [list(group.replica_ids) for group in groups if group.replica_ids]


def _from_iota(iota: IotaGroups) -> NDArray[np.int64]:
    """`[groups,size]<=[dims]T(perm)`: the numbers from 0 in the shape dims, transposed, cut into groups."""
    dims = list(iota.iota_reshape_dims)
    perm = list(iota.iota_transpose_perm) or list(range(len(dims)))
    groups, size = iota.num_replica_groups, iota.num_devices_per_group
    sound = min(dims, default=0) > 0 and sorted(perm) == list(range(len(dims)))
    if not sound or math.prod(dims) != groups * size or groups * size > MOST_DEVICES:
        raise GroupError(f"[{groups},{size}]<={dims}T{perm} is not a permutation of its devices")
    order = np.arange(groups * size).reshape(dims).transpose(perm)
    return order.reshape(groups, size)


class _AxisPart(NamedTuple):
    """A factor of a mesh axis, which splits it, major to minor, into before x size x rest."""

    axis: int  # place of the axis in the mesh
    before: int  # size of the axis's factors before this part; 1 for the first
    after: int  # the same, times the size of this part

    @property
    def size(self) -> int:
        """Coordinates along the part."""
        return self.after // self.before

    def holds(self, other: _AxisPart) -> bool:
        """Whether another part lies within this one."""
        return self.axis == other.axis and self.before <= other.before and other.after <= self.after


def _from_mesh(listed: MeshGroups) -> NDArray[np.int64]:
    """`mesh['a'=4,'b'=2] {'a'}`: members of a group differ along the axes in braces.

    An axis may be named in part, as `'a':(pre)size`: the mesh's axis is then split in three.
    """
    sizes = [axis.size for axis in listed.mesh.axes]
    numbers = _mesh_numbers(listed.mesh, sizes)
    named = [_named_part(ref, sizes) for ref in listed.axes]
    parts = _split_axes(sizes, named)
    grouped = [place for wanted in named for place, part in enumerate(parts) if wanted.holds(part)]
    others = [place for place in range(len(parts)) if place not in grouped]
    cube = numbers.reshape([part.size for part in parts]).transpose(others + grouped)
    return cube.reshape(-1, math.prod(parts[place].size for place in grouped))


def _mesh_numbers(mesh: GroupMesh, sizes: list[int]) -> NDArray[np.int64]:
    """The mesh's numbers, the last axis fastest; from 0 on where it lists no devices."""
    if min(sizes, default=0) < 1 or math.prod(sizes) > MOST_DEVICES:
        raise GroupError(f"a mesh with a size below 1, or too large: {sizes}")
    numbers = np.array(list(mesh.device_ids) or range(math.prod(sizes)), dtype=np.int64)
    if len(numbers) != math.prod(sizes):
        raise GroupError(f"a mesh of {sizes} lists {len(numbers)} devices")
    return numbers


def _named_part(ref: AxisRef, sizes: list[int]) -> _AxisPart:
    """The whole axis that a reference names, or the part of it."""
    index, part = ref.mesh_axis_index, ref.sub_axis_info
    if not 0 <= index < len(sizes):
        raise GroupError(f"axis {index} of a mesh of {sizes}")
    before, size = (part.pre_size, part.size) if part.size else (1, sizes[index])
    if before < 1 or size < 1 or sizes[index] % (before * size):
        raise GroupError(f"({before}){size} is not a part of an axis of {sizes[index]}")
    return _AxisPart(index, before, before * size)


def _split_axes(sizes: list[int], named: list[_AxisPart]) -> list[_AxisPart]:
    """All axes of a mesh in order, each cut where one of the named parts begins or ends."""
    parts: list[_AxisPart] = []
    for axis, size in enumerate(sizes):
        cuts = {1, size, *(cut for part in named if part.axis == axis for cut in part[1:])}
        marks = sorted(cuts)
        if any(after % before for before, after in pairwise(marks)):
            raise GroupError(f"parts {marks} of one axis do not nest")
        parts += [_AxisPart(axis, before, after) for before, after in pairwise(marks)]
    return parts
