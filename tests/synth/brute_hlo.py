"""Groups and payloads read back from decoded HLO, in every notation, for the self-check."""

from __future__ import annotations

from tests.synth.brute_time import COLLECTIVES
from tests.synth.protos import ELEMENT_BYTES, ELEMENT_TYPES


def expand(instruction, replicas, partitions):
    """Flattened ids of each group, in every notation and id mode of the format."""
    listed = instruction.collective_device_list
    if listed.HasField("iota"):
        iota = listed.iota
        order = [0]
        for size in iota.iota_reshape_dims:
            order = [head * size + k for head in order for k in range(size)]
        sizes, perm = list(iota.iota_reshape_dims), list(iota.iota_transpose_perm)
        key = {}
        for flat in order:
            rest, digits = flat, []
            for size in reversed(sizes):
                rest, digit = divmod(rest, size)
                digits.insert(0, digit)
            key[flat] = [digits[k] for k in perm]
        order.sort(key=key.get)
        n = iota.num_devices_per_group
        groups = [order[k : k + n] for k in range(0, len(order), n)]
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
