"""The mesh of one experiment: places tensors on it, and moves them into and out of manual sharding.

A step runs in one manual region: in it each device sees its own shard of every tensor, and all
collectives come from capture/models/collectives.py. The partitioner only lays out the region's inputs
and outputs, so it adds no collective.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING

from xlahouse.capture.models.families import AxisNames, Spec

if TYPE_CHECKING:
    import torch
    import torch_xla.distributed.spmd as xs

BATCH_AXES = ("dp", "ep", "fsdp")  # they split the batch
TENSOR_AXES = ("tp", "sp")  # split heads and intermediate; `sp` also splits the prefill's sequence
AXES = ("pp", *BATCH_AXES, *TENSOR_AXES)


class Layout:
    """A mesh (axis -> size, major to minor) over the devices 0..n-1; torch_xla is in SPMD mode."""

    def __init__(self, mesh: dict[str, int]) -> None:
        self.axes = dict(mesh)
        self.sizes = {axis: size for axis, size in mesh.items() if size > 1}
        self.device_ids = list(range(math.prod(mesh.values())))
        tensor = [axis for axis in TENSOR_AXES if axis in self.sizes]
        self.tensor_axis: str | None = tensor[0] if tensor else None
        self.batch: tuple[str, ...] = tuple(a for a in self.sizes if a in BATCH_AXES)

    @cached_property
    def mesh(self) -> xs.Mesh:
        """torch_xla's mesh."""
        import numpy as np
        import torch_xla.distributed.spmd as xs

        return xs.Mesh(np.array(self.device_ids), tuple(self.axes.values()), tuple(self.axes))

    @property
    def device(self) -> torch.device:
        """The device of tensors that are not placed yet."""
        import torch_xla

        return torch_xla.device()

    @cached_property
    def own_devices(self) -> list[int] | None:
        """Devices of this process; None where they are all of the mesh."""
        import torch_xla
        import torch_xla.runtime as xr

        if xr.process_count() == 1:
            return None
        return [int(name.rpartition(":")[2]) for name in torch_xla._XLAC._xla_get_runtime_devices()]

    def scope(self, name: str) -> AbstractContextManager[object]:
        """Ops that are traced inside have `name` in the profile."""
        import torch_xla.debug.profiler as xp

        trace: AbstractContextManager[object] = xp.Trace(name)
        return trace

    def size(self, axes: AxisNames) -> int:
        """Devices along one or several axes."""
        return math.prod(self.sizes.get(name, 1) for name in _names(axes))

    def spec(self, spec: Spec) -> Spec:
        """`spec` in this mesh's axes: `tp` by its name here, `batch` as the axes that split the
        batch, without absent axes."""
        return tuple(self._axis(entry) for entry in spec)

    def _axis(self, entry: AxisNames) -> AxisNames:
        kept = tuple(axis for name in _names(entry) for axis in self._own(name))
        return (kept if len(kept) > 1 else kept[0]) if kept else None

    def _own(self, name: str) -> tuple[str, ...]:
        """The axes of this mesh for a name in a sharding table."""
        if name == "batch":
            return self.batch
        if name == "tp":
            return _names(self.tensor_axis)
        return (name,) if name in self.sizes else ()

    def place(self, tensor: torch.Tensor, spec: Spec) -> torch.Tensor:
        """Mark `tensor`, on the XLA device, as sharded by `spec`, and return it."""
        import torch_xla.distributed.spmd as xs

        xs.mark_sharding(tensor, self.mesh, self.spec(spec))
        return tensor

    def enter(self, tensor: torch.Tensor) -> torch.Tensor:
        """A placed tensor -> each device's own shard of it, under manual sharding."""
        import torch_xla

        if not self.sizes:
            return tensor
        shard: torch.Tensor = torch_xla._XLAC._spmd_full_to_shard_shape(tensor)
        return shard

    def leave(self, shard: torch.Tensor, spec: Spec) -> torch.Tensor:
        """Each device's shard -> the whole tensor, sharded by `spec`."""
        import torch_xla
        from torch_xla.distributed.spmd import xla_sharding

        if not self.sizes:
            return shard
        resolved = self.spec(spec)
        shape = [
            length * (self.size(axis) if axis else 1)
            for length, axis in zip(shard.shape, resolved, strict=True)
        ]
        xla_sharding._mark_manual_sharding(shard)
        whole: torch.Tensor = torch_xla._XLAC._spmd_shard_to_full_shape(
            shard, self.mesh.get_op_sharding(resolved), shape, shard.dtype
        )
        return whole

    def groups(self, axis: str) -> list[list[int]]:
        """Device ids of each group along `axis`, in the axis' order."""
        import numpy as np

        place = list(self.mesh.axis_names).index(axis)
        ids = np.moveaxis(np.array(self.device_ids).reshape(self.mesh.mesh_shape), place, -1)
        groups: list[list[int]] = ids.reshape(-1, self.sizes[axis]).tolist()
        return groups


def _names(axes: AxisNames) -> tuple[str, ...]:
    if axes is None:
        return ()
    return axes if isinstance(axes, tuple) else (axes,)
