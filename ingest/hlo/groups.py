"""Who takes part in a collective: replica groups and permute pairs, translated into device numbers.

The numbers in an instruction name replicas, partitions or both, by rules that depend on its channel
(CollectiveOpGroupMode in openxla/xla, xla_data.proto); the program's device assignment then says which
device runs which replica and partition.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

MOST_DEVICES = 1 << 20  # beyond any machine; guards against damaged numbers
_PAIR = re.compile(rb"\{\s*(\d{1,18})\s*,\s*(\d{1,18})\s*\}")
_PAIRS = re.compile(rb"\s*\{(?:[\s,]*\{\s*\d{1,18}\s*,\s*\d{1,18}\s*\})*\s*\}\s*")
# These carry use_global_device_ids; on the others a channel means that the numbers are partitions.
_GLOBAL_IDS_OPS = ("all-reduce", "all-gather", "reduce-scatter")


class GroupError(ValueError):
    """Groups that contradict themselves or the device assignment; the message says how."""


@dataclass(frozen=True)
class Assignment:
    """devices[partition][replica] = logical device number."""

    devices: tuple[tuple[int, ...], ...]

    @property
    def partitions(self) -> int:
        """Partitions of the program."""
        return len(self.devices)

    @property
    def replicas(self) -> int:
        """Replicas of the program."""
        return len(self.devices[0]) if self.devices else 0

    @classmethod
    def of(cls, module: Any) -> Assignment | None:
        """The assignment in an HloModule; None where it has none."""
        rows = module.device_assignment.computation_devices
        devices = tuple(tuple(row.replica_device_ids) for row in rows)
        return cls(devices) if devices and devices[0] else None


def _decode_iota(iota: Any) -> list[list[int]]:
    """`[groups,size]<=[dims]T(perm)` -> lists of numbers."""
    dims = list(iota.iota_reshape_dims)
    perm = list(iota.iota_transpose_perm) or list(range(len(dims)))
    groups, size = iota.num_replica_groups, iota.num_devices_per_group
    sound = min(dims, default=0) > 0 and sorted(perm) == list(range(len(dims)))
    if not sound or math.prod(dims) != groups * size or groups * size > MOST_DEVICES:
        raise GroupError(f"[{groups},{size}]<={dims}T{perm} is not a permutation of its devices")
    order = np.arange(groups * size).reshape(dims).transpose(perm)
    return [[int(number) for number in row] for row in order.reshape(groups, size)]


def _decode_mesh(listed: Any) -> list[list[int]]:
    """`mesh['a'=4,'b'=2] {'a'}` -> lists of numbers: members differ along the axes in braces.

    An axis may be named in part, as `'a':(pre)size`: then the mesh's axis is split in three.
    """
    sizes = [axis.size for axis in listed.mesh.axes]
    if min(sizes, default=0) < 1 or math.prod(sizes) > MOST_DEVICES:
        raise GroupError(f"a mesh of {sizes}")
    numbers = np.array(listed.mesh.device_ids or range(math.prod(sizes)), dtype=np.int64)
    if len(numbers) != math.prod(sizes):
        raise GroupError(f"a mesh of {sizes} lists {len(numbers)} devices")
    cuts: dict[int, set[int]] = {index: {1, size} for index, size in enumerate(sizes)}
    wanted: list[tuple[int, int, int]] = []  # (axis, size of what lies before, that and the part)
    for ref in listed.axes:
        index, part = ref.mesh_axis_index, ref.sub_axis_info
        if not 0 <= index < len(sizes):
            raise GroupError(f"axis {index} of a mesh of {sizes}")
        before, size = (part.pre_size, part.size) if part.size else (1, sizes[index])
        if before < 1 or size < 1 or sizes[index] % (before * size):
            raise GroupError(f"({before}){size} is no part of an axis of {sizes[index]}")
        cuts[index] |= {before, before * size}
        wanted.append((index, before, before * size))
    dims: list[tuple[int, int, int]] = []
    for index in cuts:
        marks = sorted(cuts[index])
        if any(high % low for low, high in pairwise(marks)):
            raise GroupError(f"parts {marks} of one axis do not nest")
        dims += [(index, low, high) for low, high in pairwise(marks)]
    grouped = [
        place
        for index, low, high in wanted
        for place, (axis, start, end) in enumerate(dims)
        if axis == index and low <= start and end <= high
    ]
    others = [place for place in range(len(dims)) if place not in grouped]
    cube = numbers.reshape([high // low for _, low, high in dims]).transpose(others + grouped)
    size = math.prod(dims[place][2] // dims[place][1] for place in grouped)
    return [[int(number) for number in row] for row in cube.reshape(-1, size)]


def raw_groups(instruction: Any) -> list[list[int]]:
    """Groups as the instruction writes them, in whichever notation; [] means everybody."""
    if instruction.mesh_axes_replica_group_list.HasField("mesh"):
        return _decode_mesh(instruction.mesh_axes_replica_group_list)
    listed = instruction.collective_device_list
    for iota in (instruction.iota_collective_device_list, listed.iota_replica_group_list):
        if iota.num_replica_groups:
            return _decode_iota(iota)
    groups = listed.replica_groups or instruction.replica_groups
    return [list(group.replica_ids) for group in groups if group.replica_ids]


def device_groups(instruction: Any, assignment: Assignment | None) -> list[list[int]]:
    """Groups as logical device numbers.

    Raises:
        GroupError: the groups name someone that the program does not have.
    """
    groups = raw_groups(instruction)
    named = [member for group in groups for member in group]
    if len(set(named)) < len(named) or min(named, default=0) < 0:
        raise GroupError("a group names a member twice, or one below 0")
    kind = instruction.opcode.decode().removesuffix("-start")
    if assignment is None:
        with_partitions = instruction.channel_id > 0 and kind in _GLOBAL_IDS_OPS
        if groups and with_partitions and not instruction.use_global_device_ids:
            raise GroupError(
                "they name replicas with all their partitions, and nothing says how many"
            )
        return groups
    partitions, replicas = range(assignment.partitions), range(assignment.replicas)
    devices = assignment.devices
    try:
        if instruction.channel_id <= 0:  # replicas, the same for every partition
            groups = groups or [list(replicas)]
            return [[devices[p][r] for r in group] for p in partitions for group in groups]
        if kind not in _GLOBAL_IDS_OPS:  # partitions, the same for every replica
            groups = groups or [list(partitions)]
            return [[devices[p][r] for p in group] for r in replicas for group in groups]
        if not instruction.use_global_device_ids:  # replicas, each with all its partitions
            groups = groups or [list(replicas)]
            return [[devices[p][r] for r in group for p in partitions] for group in groups]
        groups = groups or [list(range(assignment.replicas * assignment.partitions))]
        return [
            [devices[flat % assignment.partitions][flat // assignment.partitions] for flat in group]
            for group in groups
        ]
    except IndexError:
        raise GroupError(
            f"a group names a member beyond {assignment.replicas} replicas x "
            f"{assignment.partitions} partitions"
        ) from None


def device_pairs(instruction: Any, assignment: Assignment | None) -> list[tuple[int, int]]:
    """Source and target of each pair of a permute, as logical device numbers.

    Raises:
        GroupError: a pair names someone that the program does not have.
    """
    pairs = [(pair.source, pair.target) for pair in instruction.source_target_pairs]
    pairs = pairs or _pairs_in_attributes(instruction)
    if min((member for pair in pairs for member in pair), default=0) < 0:
        raise GroupError("a pair names a member below 0")
    if assignment is None:
        return pairs
    devices = assignment.devices
    try:
        if instruction.channel_id > 0:
            replicas = range(assignment.replicas)
            return [(devices[s][r], devices[t][r]) for r in replicas for s, t in pairs]
        return [(row[s], row[t]) for row in devices for s, t in pairs]
    except IndexError:
        raise GroupError("a pair names a member that the program does not have") from None


def _pairs_in_attributes(instruction: Any) -> list[tuple[int, int]]:
    """Pairs of a send or recv: XLA keeps them in an attribute, as `{{0,1},{1,2}}`."""
    for attribute in instruction.frontend_attributes.map:
        if attribute.key == b"_xla_send_recv_source_target_pairs":
            if not _PAIRS.fullmatch(attribute.value):
                raise GroupError("no list of pairs in _xla_send_recv_source_target_pairs")
            found = _PAIR.findall(attribute.value)
            return [(int(source), int(target)) for source, target in found]
    return []


def connected(pairs: list[tuple[int, int]]) -> list[list[int]]:
    """Connected components of a permute's pairs, each ascending, by their smallest member."""
    parent: dict[int, int] = {}

    def root(member: int) -> int:
        parent.setdefault(member, member)
        while parent[member] != member:
            parent[member] = parent[parent[member]]
            member = parent[member]
        return member

    for source, target in pairs:
        low, high = sorted((root(source), root(target)))
        parent[high] = low
    components: dict[int, list[int]] = {}
    for member in sorted(parent):
        components.setdefault(root(member), []).append(member)
    return list(components.values())
