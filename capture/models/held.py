"""Which part of a tensor one host's devices hold: a host reads no more of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xlahouse.capture.models.families import AxisNames, Spec

Box = tuple[slice, ...]  # start and stop in each dimension


def whole_box(shape: Sequence[int]) -> Box:
    """All of a tensor."""
    return tuple(slice(0, size) for size in shape)


def held_box(
    mesh: Mapping[str, int], spec: Spec, shape: Sequence[int], devices: Sequence[int]
) -> Box:
    """The smallest box of a tensor that has the shards of all these devices.

    Args:
        mesh: axis -> size, major to minor, over the devices 0..n-1.
        spec: the axes that split each dimension, in this mesh's names; several are major to minor.
        shape: of the whole tensor.
        devices: ids in the mesh.
    """
    return tuple(_held(mesh, axes, size, devices) for axes, size in zip(spec, shape, strict=True))


def _held(mesh: Mapping[str, int], axes: AxisNames, size: int, devices: Sequence[int]) -> slice:
    """What the devices hold of a dimension of `size`, split over `axes`."""
    names = () if axes is None else axes if isinstance(axes, tuple) else (axes,)
    parts, places = 1, [0] * len(devices)
    for name in names:
        parts *= mesh[name]
        own = [_coordinate(mesh, name, device) for device in devices]
        places = [place * mesh[name] + at for place, at in zip(places, own, strict=True)]
    length = size // parts
    return slice(min(places) * length, (max(places) + 1) * length)


def _coordinate(mesh: Mapping[str, int], axis: str, device: int) -> int:
    """A device's place along an axis."""
    for name, size in reversed(list(mesh.items())):
        if name == axis:
            return device % size
        device //= size
    raise KeyError(axis)


def covers(boxes: Sequence[Box], indices: Sequence[slice]) -> bool:
    """Whether a device's shard lies within what was read: `boxes` of each stage, or of the only one.

    With several stages the shard has a leading dimension of these.
    """
    stages = range(indices[0].start, indices[0].stop) if len(boxes) > 1 else range(1)
    inner = indices[1:] if len(boxes) > 1 else indices
    return all(
        side.start <= index.start and index.stop <= side.stop
        for stage in stages
        for side, index in zip(boxes[stage], inner, strict=True)
    )
