"""The collectives of a manual region, each along one mesh axis; an axis that a mesh lacks costs nothing.

torch_xla has an all-reduce and a reduce-scatter for manual sharding. The others are changes of layout:
the shard is described to the partitioner as a whole tensor, then as the same tensor laid out otherwise,
and the partitioner's only way from one to the other is the collective that is meant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.models.families import Spec
    from xlahouse.capture.models.sharding import Layout


class MeshCollectives:
    """Collectives over the axes of `layout`; every tensor is a device's own shard."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def all_reduce(self, shard: torch.Tensor, axis: str | None) -> torch.Tensor:
        """The sum over `axis`, in the shard's shape."""
        import torch_xla

        if axis not in self.layout.sizes:
            return shard
        groups = self.layout.groups(axis)
        rows = shard.reshape(-1, shard.shape[-1])
        total: torch.Tensor = torch_xla._XLAC._xla_spmd_all_reduce("sum", rows, 1.0, groups)
        return total.reshape(shard.shape)

    def reduce_scatter(self, shard: torch.Tensor, axis: str, dim: int) -> torch.Tensor:
        """The sum over `axis`, of which each device keeps its part of `dim`."""
        import torch_xla

        if axis not in self.layout.sizes:
            return shard
        part: torch.Tensor = torch_xla._XLAC._xla_spmd_reduce_scatter(
            "sum", shard, 1.0, dim, self.layout.sizes[axis], self.layout.groups(axis)
        )
        return part

    def all_gather(self, shard: torch.Tensor, axis: str | None, dim: int) -> torch.Tensor:
        """The shards along `axis`, one after the other in `dim`."""
        if axis not in self.layout.sizes:
            return shard
        dims = shard.dim()
        dim %= dims
        before = tuple(axis if place == dim else None for place in range(dims))
        return self._relayout(shard, axis, before, (None,) * dims)

    def all_to_all(self, shard: torch.Tensor, axis: str, split: int, join: int) -> torch.Tensor:
        """Deal the parts of `split` out along `axis`; what comes in is joined in `join`."""
        if axis not in self.layout.sizes:
            return shard
        before = tuple(axis if place == join else None for place in range(shard.dim()))
        after = tuple(axis if place == split else None for place in range(shard.dim()))
        return self._relayout(shard, axis, before, after)

    def shift(self, shard: torch.Tensor, axis: str) -> torch.Tensor:
        """Pass the shard on to the next device along `axis`; the last one's goes to the first."""
        if axis not in self.layout.sizes:
            return shard
        import torch

        spec = (axis, *(None,) * shard.dim())
        whole = self._whole(shard[None], axis, spec)  # [others, devices of the axis, ...]
        # Two slices, and not `roll`: the partitioner knows a rotation by them.
        turned = torch.cat([whole[:, -1:], whole[:, :-1]], dim=1)
        return self._shard(turned, axis, spec)[0]

    def _relayout(self, shard: torch.Tensor, axis: str, before: Spec, after: Spec) -> torch.Tensor:
        return self._shard(self._whole(shard, axis, before), axis, after)

    def _whole(self, shard: torch.Tensor, axis: str, spec: Spec) -> torch.Tensor:
        """[devices of the other axes, *whole]: other axes' devices hold other tensors, and the
        partitioner must not take one for another."""
        return self.layout.leave(shard[None], (self._others(axis), *spec))

    def _shard(self, whole: torch.Tensor, axis: str, spec: Spec) -> torch.Tensor:
        import torch_xla

        layout = self.layout
        sharding = layout.mesh.get_op_sharding(layout.spec((self._others(axis), *spec)))
        fresh = whole * 1  # an annotation is one tensor's for good
        torch_xla._XLAC._xla_mark_sharding(fresh, sharding)
        return layout.enter(fresh)[0]

    def _others(self, axis: str) -> tuple[str, ...]:
        return tuple(name for name in self.layout.sizes if name != axis)
