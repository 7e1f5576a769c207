"""Reads replica groups and permute pairs in HLO text, in each of their notations."""

from __future__ import annotations

import re

import numpy as np

from xlahouse.ingest.hlo.group_notations import MOST_DEVICES
from xlahouse.ingest.hlo.messages import HloInstruction, MeshGroups
from xlahouse.ingest.hlo.scan import HloTextError, shown

_IOTA = re.compile(r"\[([\d,\s]*)\]<=\[([\d,\s]*)\](?:T\(([\d,\s]*)\))?$")
_MESH = re.compile(r"mesh\[(.*?)\]\s*(?:,\s*device_ids=\((.*?)\)\s*)?\{(.*)\}$")
_MESH_AXIS = re.compile(r"'?([^'=,]*?)'?\s*=\s*(\d+)")
_AXIS_REF = re.compile(r"'?([^',:]+)'?(?::\((\d+)\)(\d+))?")
_ONE_LIST = r"\{\s*(?:-?\d+(?:\s*,\s*-?\d+)*)?\s*\}"
_LIST_OF_LISTS = re.compile(rf"\{{\s*(?:{_ONE_LIST}(?:\s*,\s*{_ONE_LIST})*)?\s*\}}")
_ORDER = re.compile(r"\[([\d,\s]*)\](?:T\(([\d,\s]*)\))?$")


def read_groups(instruction: HloInstruction, text: str) -> None:
    """Read the value of `replica_groups=` into an instruction, keeping its notation.

    Raises:
        ValueError: it is in none of the notations, or a number is beyond its field.
    """
    if text.startswith("{"):
        for group in _lists(text):
            instruction.replica_groups.add(replica_ids=group)
    elif found := _IOTA.match(text):
        counts, dims, order = (numbers(part) for part in found.groups(""))
        if len(counts) != 2:
            raise HloTextError(f"not a list of groups: {shown(text)}")
        listed = instruction.collective_device_list.iota_replica_group_list
        listed.num_replica_groups, listed.num_devices_per_group = counts
        listed.iota_reshape_dims.extend(dims)
        listed.iota_transpose_perm.extend(order)
    elif found := _MESH.match(text):
        _read_mesh(instruction.mesh_axes_replica_group_list, *found.groups())
    else:
        raise HloTextError(f"replica groups in an unknown notation: {shown(text)}")


def read_pairs(instruction: HloInstruction, text: str) -> None:
    """Read the value of `source_target_pairs=` into an instruction.

    Raises:
        ValueError: it is not a list of pairs, or a number is beyond its field.
    """
    for pair in _lists(text):
        if len(pair) != 2:
            raise HloTextError(f"not a list of pairs: {shown(text)}")
        instruction.source_target_pairs.add(source=pair[0], target=pair[1])


def _lists(text: str) -> list[list[int]]:
    """`{{0,1},{2,3}}` -> lists; `{}` -> []."""
    if not _LIST_OF_LISTS.fullmatch(text):
        raise HloTextError(f"not a list of lists: {shown(text)}")
    return [numbers(part) for part in re.findall(r"\{([^{}]*)\}", text[1:-1])]


def _read_mesh(listed: MeshGroups, axes: str, ids: str | None, refs: str) -> None:
    names: dict[str, int] = {}
    for name, size in _all(_MESH_AXIS, axes):
        names[name] = len(names)
        listed.mesh.axes.add(name=name.encode(), size=int(size))
    listed.mesh.SetInParent()
    if ids is not None:
        listed.mesh.device_ids.extend(_device_ids(ids))
    for name, before, size in _all(_AXIS_REF, refs):
        if name.strip() not in names:
            raise HloTextError(f"axis {name} is not in the mesh {shown(axes)}")
        ref = listed.axes.add(mesh_axis_index=names[name.strip()])
        if size:
            part = ref.sub_axis_info
            part.pre_size, part.size = int(before), int(size)


def _all(pattern: re.Pattern[str], text: str) -> list[tuple[str, ...]]:
    """The groups of the pattern in each of the pieces between commas."""
    found = [pattern.fullmatch(piece.strip()) for piece in text.split(",") if piece.strip()]
    if None in found:
        raise HloTextError(f"axes of a mesh in an unknown notation: {shown(text)}")
    return [tuple(each.groups("")) for each in found if each is not None]


def _device_ids(text: str) -> list[int]:
    """`0,2,1,3`, or `[4,16]T(1,0)`: the numbers from 0 in that shape, transposed."""
    found = _ORDER.match(text)
    if found is None:
        return numbers(text)
    dims, order = numbers(found[1]), numbers(found[2] or "")
    order = order or list(range(len(dims)))
    count = int(np.prod(dims, dtype=object))
    if not 0 < count <= MOST_DEVICES or sorted(order) != list(range(len(dims))):
        raise HloTextError(f"not an order of devices: {shown(text)}")
    return [int(number) for number in np.arange(count).reshape(dims).transpose(order).ravel()]


def numbers(text: str) -> list[int]:
    """`1,0` -> [1, 0]; "" -> [].

    Raises:
        HloTextError: something there is no number.
    """
    try:
        return [int(number) for number in text.split(",") if number.strip()]
    except ValueError:
        raise HloTextError(f"not a list of numbers: {shown(text)}") from None
