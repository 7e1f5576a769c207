"""Participants of a collective: replica groups and permute pairs as device numbers.

The numbers in an instruction name replicas, partitions or both, by rules that depend on its channel
(CollectiveOpGroupMode in openxla/xla, xla_data.proto); the program's device assignment then says which
device runs which replica and partition.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from xlahouse.ingest.hlo.group_notations import GroupError, Groups, raw_groups, raw_sizes
from xlahouse.ingest.hlo.messages import HloInstruction, HloModule

_LISTED_PAIR = re.compile(rb"\{\s*(\d{1,18})\s*,\s*(\d{1,18})\s*\}")
_LISTED_PAIRS = re.compile(rb"\s*\{(?:[\s,]*\{\s*\d{1,18}\s*,\s*\d{1,18}\s*\})*\s*\}\s*")
# Opcodes with use_global_device_ids; in any other, a channel means that the numbers are partitions.
_GLOBAL_IDS_OPS = ("all-reduce", "all-gather", "reduce-scatter")


@dataclass(frozen=True)
class Assignment:
    """Which device runs which partition and replica."""

    devices: tuple[tuple[int, ...], ...]  # devices[partition][replica] = logical device number

    @property
    def partitions(self) -> int:
        """Partitions of the program."""
        return len(self.devices)

    @property
    def replicas(self) -> int:
        """Replicas of the program."""
        return len(self.devices[0]) if self.devices else 0

    @classmethod
    def of(cls, module: HloModule) -> Assignment | None:
        """The assignment in an HloModule; None where it is not stated."""
        rows = module.device_assignment.computation_devices
        devices = tuple(tuple(row.replica_device_ids) for row in rows)
        return cls(devices) if devices and devices[0] else None


class GroupMode(Enum):
    """The numbers in a collective's groups: CollectiveOpGroupMode in openxla/xla, xla_data.proto."""

    CROSS_REPLICA = "replicas"
    CROSS_PARTITION = "partitions"
    CROSS_REPLICA_AND_PARTITION = "replicas with all their partitions"
    FLATTENED_ID = "replica x partitions + partition"


def group_mode(instruction: HloInstruction) -> GroupMode:
    """The mode of a collective, which its channel, opcode and use_global_device_ids decide."""
    if instruction.channel_id <= 0:
        return GroupMode.CROSS_REPLICA
    if instruction.opcode.decode("utf-8", "replace").removesuffix("-start") not in _GLOBAL_IDS_OPS:
        return GroupMode.CROSS_PARTITION
    if instruction.use_global_device_ids:
        return GroupMode.FLATTENED_ID
    return GroupMode.CROSS_REPLICA_AND_PARTITION


def device_groups(instruction: HloInstruction, assignment: Assignment | None) -> Groups:
    """Groups as logical device numbers; without an assignment their numbers are taken as such.

    Raises:
        GroupError: a group names a member that the program does not have, or names one twice.
    """
    groups = raw_groups(instruction)
    named = [member for group in groups for member in group]
    if len(set(named)) < len(named) or min(named, default=0) < 0:
        raise GroupError("a group names a member twice, or one below 0")
    mode = group_mode(instruction)
    if assignment is None:
        _check_countable(bool(groups), mode)
        return groups
    try:
        return _DEVICES_OF[mode](groups, assignment)
    except IndexError:
        raise GroupError(
            f"a group names a member beyond {assignment.replicas} replicas x "
            f"{assignment.partitions} partitions"
        ) from None


def _check_countable(listed: bool, mode: GroupMode) -> None:
    if listed and mode is GroupMode.CROSS_REPLICA_AND_PARTITION:
        raise GroupError("they name replicas with all their partitions, whose number is not stated")


def group_sizes(instruction: HloInstruction, assignment: Assignment | None) -> set[int]:
    """The sizes of the groups that device_groups gives, without making them.

    Raises:
        GroupError: the notation contradicts itself.
    """
    sizes, mode = set(raw_sizes(instruction)), group_mode(instruction)
    if assignment is None:
        _check_countable(bool(sizes), mode)
        return sizes
    every = {
        GroupMode.CROSS_REPLICA: assignment.replicas,
        GroupMode.CROSS_PARTITION: assignment.partitions,
    }
    if not sizes:
        return {every.get(mode, assignment.replicas * assignment.partitions)}
    times = assignment.partitions if mode is GroupMode.CROSS_REPLICA_AND_PARTITION else 1
    return {size * times for size in sizes}


def count_members(instruction: HloInstruction, assignment: Assignment | None) -> int:
    """The number of members that device_groups gives; 0 where it would raise for the notation."""
    try:
        count = sum(raw_sizes(instruction))
    except GroupError:
        return 0
    if assignment is None:
        return count
    mode, partitions, replicas = group_mode(instruction), assignment.partitions, assignment.replicas
    if not count:
        return partitions * replicas
    if mode is GroupMode.FLATTENED_ID:
        return count
    return count * (replicas if mode is GroupMode.CROSS_PARTITION else partitions)


def count_pairs(instruction: HloInstruction, assignment: Assignment | None) -> int:
    """At least the number of pairs that device_pairs gives."""
    texts = sum(len(each.value) // 3 for each in instruction.frontend_attributes.map)
    count = len(instruction.source_target_pairs) or texts
    if assignment is None:
        return count
    return count * (assignment.replicas if instruction.channel_id > 0 else assignment.partitions)


def _of_replicas(groups: Groups, assignment: Assignment) -> Groups:
    """CROSS_REPLICA: each group names replicas, and is repeated for every partition."""
    groups = groups or [list(range(assignment.replicas))]
    return [[row[replica] for replica in group] for row in assignment.devices for group in groups]


def _of_partitions(groups: Groups, assignment: Assignment) -> Groups:
    """CROSS_PARTITION: each group names partitions, and is repeated for every replica."""
    groups, devices = groups or [list(range(assignment.partitions))], assignment.devices
    return [
        [devices[partition][replica] for partition in group]
        for replica in range(assignment.replicas)
        for group in groups
    ]


def _of_whole_replicas(groups: Groups, assignment: Assignment) -> Groups:
    """CROSS_REPLICA_AND_PARTITION: each group names replicas, whose partitions are all members."""
    groups = groups or [list(range(assignment.replicas))]
    return [[row[replica] for replica in group for row in assignment.devices] for group in groups]


def _of_flat_ids(groups: Groups, assignment: Assignment) -> Groups:
    """FLATTENED_ID: a member is replica x partitions + partition."""
    partitions, devices = assignment.partitions, assignment.devices
    groups = groups or [list(range(assignment.replicas * partitions))]
    return [[devices[flat % partitions][flat // partitions] for flat in group] for group in groups]


_DEVICES_OF: dict[GroupMode, Callable[[Groups, Assignment], Groups]] = {
    GroupMode.CROSS_REPLICA: _of_replicas,
    GroupMode.CROSS_PARTITION: _of_partitions,
    GroupMode.CROSS_REPLICA_AND_PARTITION: _of_whole_replicas,
    GroupMode.FLATTENED_ID: _of_flat_ids,
}


def device_pairs(
    instruction: HloInstruction, assignment: Assignment | None
) -> list[tuple[int, int]]:
    """Source and target of each pair of a permute, as logical device numbers.

    Raises:
        GroupError: a pair names a member that the program does not have.
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


def _pairs_in_attributes(instruction: HloInstruction) -> list[tuple[int, int]]:
    """Pairs of a send or recv: XLA keeps them in an attribute, as `{{0,1},{1,2}}`."""
    for attribute in instruction.frontend_attributes.map:
        if attribute.key == b"_xla_send_recv_source_target_pairs":
            if not _LISTED_PAIRS.fullmatch(attribute.value):
                raise GroupError("not a list of pairs in _xla_send_recv_source_target_pairs")
            found = _LISTED_PAIR.findall(attribute.value)
            return [(int(source), int(target)) for source, target in found]
    return []


def connected(pairs: list[tuple[int, int]]) -> list[list[int]]:
    """Connected components of pairs, each ascending, by their smallest member."""
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
