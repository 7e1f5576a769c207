"""Replica groups in every notation, and their translation into devices."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ingest.build import ModuleBuilder, shape
from xlahouse.ingest.hlo.group_notations import GroupError, raw_groups
from xlahouse.ingest.hlo.groups import (
    Assignment,
    connected,
    count_members,
    count_pairs,
    device_groups,
    device_pairs,
    group_sizes,
)

# 2 partitions x 2 replicas, devices numbered so that no accident hides: devices[partition][replica]
GRID = Assignment(((10, 11), (20, 21)))


def instruction(opcode="all-reduce", **fields):
    module = ModuleBuilder()
    entry = module.computation("main")
    operand = module.add(entry, "p", "parameter", shape("f32", 8))
    return module.add(entry, "c", opcode, shape("f32", 8), operand, **fields)


def iota(groups, size, dims, perm=()):
    built = instruction(channel_id=1, use_global_device_ids=True)
    listed = built.collective_device_list.iota_replica_group_list
    listed.num_replica_groups, listed.num_devices_per_group = groups, size
    listed.iota_reshape_dims.extend(dims)
    listed.iota_transpose_perm.extend(perm)
    return built


def test_explicit_groups():
    assert raw_groups(instruction(groups=[[0, 1], [2, 3]])) == [[0, 1], [2, 3]]


def test_device_list_wins_and_reads_alike():
    built = instruction()
    built.collective_device_list.replica_groups.add(replica_ids=[0, 2])
    built.collective_device_list.replica_groups.add(replica_ids=[1, 3])
    assert raw_groups(built) == [[0, 2], [1, 3]]


def test_iota():
    assert raw_groups(iota(2, 2, [4])) == [[0, 1], [2, 3]]  # [2,2]<=[4]


def test_transposed_iota():
    # [4,2]<=[2,4]T(1,0): rows 0..3 and 4..7, read down the columns (the v6e sample's notation)
    assert raw_groups(iota(4, 2, [2, 4], [1, 0])) == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_iota_in_its_own_field_of_newer_files():
    built = instruction()
    built.iota_collective_device_list.CopyFrom(
        iota(2, 2, [4]).collective_device_list.iota_replica_group_list
    )
    assert raw_groups(built) == [[0, 1], [2, 3]]


def in_mesh(sizes, refs, device_ids=()):
    """refs: mesh axes by number, or (axis, pre_size, size) of a part."""
    built = instruction(channel_id=1, use_global_device_ids=True)
    listed = built.mesh_axes_replica_group_list
    for number, size in enumerate(sizes):
        listed.mesh.axes.add(name=f"axis_{number}".encode(), size=size)
    listed.mesh.device_ids.extend(device_ids)
    for ref in refs:
        if isinstance(ref, int):
            listed.axes.add(mesh_axis_index=ref)
        else:
            part = listed.axes.add(mesh_axis_index=ref[0]).sub_axis_info
            part.pre_size, part.size = ref[1:]
    return built


@pytest.mark.parametrize(
    ("sizes", "refs", "device_ids", "expected"),
    [
        # devices 0..7 as 4 x 2: along the first axis every second one, along the second neighbours
        ([4, 2], [0], [], [[0, 2, 4, 6], [1, 3, 5, 7]]),
        ([4, 2], [1], [], [[0, 1], [2, 3], [4, 5], [6, 7]]),
        ([4, 2], [0, 1], [], [[0, 1, 2, 3, 4, 5, 6, 7]]),
        # the order of the axes is the order of the members
        ([2, 2], [1, 0], [], [[0, 2, 1, 3]]),
        # an axis of one (as in `mesh['axis_0'=4,'axis_1'=1] {'axis_0'}`)
        ([4, 1], [0], [], [[0, 1, 2, 3]]),
        # no axis in the braces: everybody alone
        ([2, 2], [], [], [[0], [1], [2], [3]]),
        # devices in an order of their own
        ([2, 2], [1], [3, 0, 1, 2], [[3, 0], [1, 2]]),
        # an axis of 8 as 2 x 2 x 2: its first, its middle and its last part
        ([8], [(0, 1, 2)], [], [[0, 4], [1, 5], [2, 6], [3, 7]]),
        ([8], [(0, 2, 2)], [], [[0, 2], [1, 3], [4, 6], [5, 7]]),
        ([8], [(0, 4, 2)], [], [[0, 1], [2, 3], [4, 5], [6, 7]]),
    ],
)
def test_mesh_notation(sizes, refs, device_ids, expected):
    assert raw_groups(in_mesh(sizes, refs, device_ids)) == expected


@pytest.mark.parametrize(
    ("sizes", "refs", "device_ids"),
    [
        ([4], [1], []),
        ([4], [0], [0, 1]),
        ([8], [(0, 3, 2)], []),
        ([12], [(0, 2, 2), (0, 3, 2)], []),
    ],
)
def test_malformed_mesh_is_an_error(sizes, refs, device_ids):
    with pytest.raises(GroupError):
        raw_groups(in_mesh(sizes, refs, device_ids))


@pytest.mark.parametrize(
    ("groups", "size", "dims", "perm"),
    [
        (2, 3, [4], []),
        (1 << 40, 1, [1 << 40], []),
        (2, 2, [-2, -2], []),
        (2, 2, [2, 2], [0, 0]),
        (2, 2, [2, 2], [1]),
        (1, 4, [2, 2], [0, 2]),
    ],
)
def test_malformed_iota_is_an_error(groups, size, dims, perm):
    with pytest.raises(GroupError, match="not a permutation"):
        raw_groups(iota(groups, size, dims, perm))


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.data())
def test_iota_is_a_partition_of_its_devices(dims, data):
    perm = data.draw(st.permutations(range(len(dims))))
    total = math.prod(dims)
    size = data.draw(st.sampled_from([n for n in range(1, total + 1) if total % n == 0]))
    groups = raw_groups(iota(total // size, size, dims, perm))
    assert sorted(member for group in groups for member in group) == list(range(total))
    assert {len(group) for group in groups} == {size}


@pytest.mark.parametrize(
    ("opcode", "fields", "expected"),
    [
        # no channel: replicas, the group repeated for each partition
        ("all-reduce", {"groups": [[0, 1]]}, [[10, 11], [20, 21]]),
        ("all-reduce", {}, [[10, 11], [20, 21]]),
        # a channel on an op without use_global_device_ids: partitions, repeated for each replica
        ("all-to-all", {"channel_id": 3, "groups": [[0, 1]]}, [[10, 20], [11, 21]]),
        ("all-to-all", {"channel_id": 3}, [[10, 20], [11, 21]]),
        # channel, global ids false: replicas, each with all its partitions
        ("all-gather", {"channel_id": 3, "groups": [[0], [1]]}, [[10, 20], [11, 21]]),
        ("all-gather", {"channel_id": 3, "groups": [[0, 1]]}, [[10, 20, 11, 21]]),
        # global ids: replica x partitions + partition
        (
            "reduce-scatter",
            {"channel_id": 3, "use_global_device_ids": True, "groups": [[0, 3], [1, 2]]},
            [[10, 21], [20, 11]],
        ),
    ],
)
def test_translation_through_the_device_assignment(opcode, fields, expected):
    built = instruction(opcode, **fields)
    assert device_groups(built, GRID) == expected
    assert group_sizes(built, GRID) == set(map(len, expected))
    assert count_members(built, GRID) == sum(map(len, expected))


def test_start_ops_translate_like_their_kind():
    built = instruction(
        "all-reduce-start", channel_id=1, use_global_device_ids=True, groups=[[0, 1], [2, 3]]
    )
    assert device_groups(built, GRID) == [[10, 20], [11, 21]]


def test_a_member_that_the_program_lacks_is_an_error():
    with pytest.raises(GroupError, match="2 replicas x 2 partitions"):
        device_groups(instruction(groups=[[0, 5]]), GRID)


@pytest.mark.parametrize("groups", [[[0, -1]], [[0, 1], [1, 0]], [[0, 0]]])
def test_impossible_members_are_an_error(groups):
    for assignment in (GRID, None):
        with pytest.raises(GroupError, match="twice, or one below 0"):
            device_groups(instruction(groups=groups), assignment)


@pytest.mark.parametrize(
    ("opcode", "fields", "known"),
    [
        ("all-reduce", {"channel_id": 1, "use_global_device_ids": True}, True),
        ("all-reduce", {}, True),  # replicas, of one partition each as far as is known
        ("all-to-all", {"channel_id": 1}, True),
        # {0} may be two devices or two hundred: the replica's partitions all take part
        ("all-reduce", {"channel_id": 1}, False),
        ("all-gather-start", {"channel_id": 1}, False),
    ],
)
def test_without_a_device_assignment_groups_are_known_where_they_need_none(opcode, fields, known):
    built = instruction(opcode, groups=[[0], [1]], **fields)
    if known:
        assert device_groups(built, None) == [[0], [1]]
        return
    with pytest.raises(GroupError, match="replicas with all their partitions"):
        device_groups(built, None)


def test_pairs_of_a_send_stand_in_an_attribute():
    built = instruction("send", channel_id=1)
    attribute = built.frontend_attributes.map.add(key=b"_xla_send_recv_source_target_pairs")
    attribute.value = b"{{0,1},{1, 0}}"
    assert device_pairs(built, None) == [(0, 1), (1, 0)]
    with pytest.raises(GroupError, match="below 0"):
        device_pairs(instruction("collective-permute", pairs=[(0, -1)]), GRID)


def test_permute_pairs():
    pairs = [(0, 1), (1, 0)]
    by_partition = instruction("collective-permute", channel_id=1, pairs=pairs)
    assert device_pairs(by_partition, GRID) == [(10, 20), (20, 10), (11, 21), (21, 11)]
    by_replica = instruction("collective-permute", pairs=pairs)
    assert device_pairs(by_replica, GRID) == [(10, 11), (11, 10), (20, 21), (21, 20)]


def test_groups_of_a_permute_are_connected_components():
    # a shift along 0..3 without wrap, a self pair, and another chain
    assert connected([(0, 1), (1, 2), (2, 3), (7, 7), (9, 8)]) == [[0, 1, 2, 3], [7], [8, 9]]


def test_groups_that_stand_for_millions_are_counted_without_making_them():
    huge = iota(1 << 10, 1 << 10, [1 << 10, 1 << 10], [1, 0])
    assert (count_members(huge, None), group_sizes(huge, None)) == (1 << 20, {1 << 10})
    assert count_members(iota(2, 3, [4]), None) == 0  # it is refused as malformed


def test_pairs_are_counted_for_each_partition_or_replica():
    for channel in (0, 1):
        built = instruction("collective-permute", channel_id=channel)
        built.source_target_pairs.add(source=0, target=1)
        assert count_pairs(built, GRID) == len(device_pairs(built, GRID)) == 2
