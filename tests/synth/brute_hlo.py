"""Groups and payloads read back from decoded HLO, in every notation, for the self-check."""

from __future__ import annotations

from tests.synth.brute_time import COLLECTIVES
from tests.synth.protos import ELEMENT_BYTES, ELEMENT_TYPES


def unravel(flat, sizes):
    """Coordinates of a number in a box of sizes, major to minor."""
    digits = []
    for size in reversed(sizes):
        flat, digit = divmod(flat, size)
        digits.insert(0, digit)
    return digits


def cut(order, n):
    """A list in pieces of n."""
    return [order[k : k + n] for k in range(0, len(order), n)]


def mesh_groups(listed):
    """Groups of a mesh notation: everybody sorted by the coordinates that are not of its axes."""
    sizes = [axis.size for axis in listed.mesh.axes]
    (axis,) = listed.axes
    at = axis.mesh_axis_index
    if axis.HasField("sub_axis_info"):
        part, whole = axis.sub_axis_info, sizes[at]
        parts = [part.pre_size, part.size, whole // part.pre_size // part.size]
        sizes, at = [*sizes[:at], *parts, *sizes[at + 1 :]], at + 1
    count = 1
    for size in sizes:
        count *= size

    def others(flat):
        digits = unravel(flat, sizes)
        return digits[:at] + digits[at + 1 :], digits[at]

    return cut(sorted(range(count), key=others), sizes[at])


def expand(instruction, replicas, partitions):
    """Flattened ids of each group, in every notation and id mode of the format."""
    listed = instruction.collective_device_list
    iotas = [listed.iota, instruction.iota_collective_device_list]
    iota = next((iota for iota in iotas if iota.num_replica_groups), None)
    if instruction.HasField("mesh_axes_replica_group_list"):
        groups = mesh_groups(instruction.mesh_axes_replica_group_list)
    elif iota is not None:
        count = iota.num_replica_groups * iota.num_devices_per_group

        def transposed(flat):
            digits = unravel(flat, iota.iota_reshape_dims)
            return [digits[k] for k in iota.iota_transpose_perm]

        groups = cut(sorted(range(count), key=transposed), iota.num_devices_per_group)
    else:
        given = listed.replica_groups or instruction.replica_groups
        groups = [list(group.replica_ids) for group in given]
    if instruction.use_global_device_ids:
        return groups
    if not instruction.channel_id:
        groups = groups or [list(range(replicas))]
        return [[r * partitions + p for r in g] for p in range(partitions) for g in groups]
    if instruction.opcode == "all-reduce":
        every = range(partitions)
        return [[r * partitions + p for r in g for p in every] for g in groups or [range(replicas)]]
    groups = groups or [list(range(partitions))]
    return [[r * partitions + p for p in g] for r in range(replicas) for g in groups]


def components(pairs):
    """Chains of a shift's pairs, in the order in which data travels."""
    following = dict(pairs)
    for head in set(following) - set(following.values()):
        chain = [head]
        while chain[-1] in following:
            chain.append(following[chain[-1]])
        yield chain


def collective_instructions(module):
    """(traced op, the collective itself, its computation) of each collective of a module."""
    inner = {}
    for computation in module.computations:
        for instruction in computation.instructions:
            if instruction.opcode.removesuffix("-start") in COLLECTIVES:
                inner[computation.id] = instruction, computation
                yield instruction.name, instruction, computation
    for instruction in (i for c in module.computations for i in c.instructions):
        for called in instruction.called_computation_ids:
            if instruction.opcode in ("fusion", "async-start") and called in inner:
                yield instruction.name, *inner[called]


def shape_bytes(shape):
    types = {number: name for name, number in ELEMENT_TYPES.items()}
    size = ELEMENT_BYTES[types[shape.element_type]]
    for dim in shape.dimensions:
        size *= dim
    return size
