"""The collectives of a manual region, each along one mesh axis; a mesh without the axis has none.

torch_xla has an all-reduce and a reduce-scatter for manual sharding. The other collectives are changes
of layout: the shard is declared to the partitioner as a whole tensor with one sharding, then with
another, and the wanted collective is the partitioner's only way between the two.
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
        """The sum over `axis`, with the shard's shape."""
        import torch_xla

        if axis not in self.layout.sizes:
            return shard
        groups = self.layout.groups(axis)
        rows = shard.reshape(-1, shard.shape[-1])
        total: torch.Tensor = torch_xla._XLAC._xla_spmd_all_reduce("sum", rows, 1.0, groups)
        return total.reshape(shard.shape)

    def reduce_scatter(self, shard: torch.Tensor, axis: str, dim: int) -> torch.Tensor:
        """The sum over `axis`; each device keeps its part of `dim`."""
        import torch_xla

        if axis not in self.layout.sizes:
            return shard
        part: torch.Tensor = torch_xla._XLAC._xla_spmd_reduce_scatter(
            "sum", shard, 1.0, dim, self.layout.sizes[axis], self.layout.groups(axis)
        )
        return part

    def all_gather(self, shard: torch.Tensor, axis: str | None, dim: int) -> torch.Tensor:
        """The shards along `axis`, concatenated in `dim`."""
        if axis not in self.layout.sizes:
            return shard
        dims = shard.dim()
        dim %= dims
        before = tuple(axis if place == dim else None for place in range(dims))
        return self._relayout(shard, axis, before, (None,) * dims)

    def all_to_all(self, shard: torch.Tensor, axis: str, split: int, join: int) -> torch.Tensor:
        """Send the parts of `split` along `axis`; received parts are joined in `join`."""
        if axis not in self.layout.sizes:
            return shard
        before = tuple(axis if place == join else None for place in range(shard.dim()))
        after = tuple(axis if place == split else None for place in range(shard.dim()))
        return self._relayout(shard, axis, before, after)

    def shift(self, shard: torch.Tensor, axis: str) -> torch.Tensor:
        """Pass the shard to the next device along `axis`, and from the last device to the first."""
        if axis not in self.layout.sizes:
            return shard
        import torch

        spec = (axis, *(None,) * shard.dim())
        whole = self._whole(shard[None], axis, spec)  # [others, devices of the axis, ...]
        # Two slices, not `roll`: the partitioner recognizes a rotation in this form.
        turned = torch.cat([whole[:, -1:], whole[:, :-1]], dim=1)
        return self._shard(turned, axis, spec)[0]

    def _relayout(self, shard: torch.Tensor, axis: str, before: Spec, after: Spec) -> torch.Tensor:
        return self._shard(self._whole(shard, axis, before), axis, after)

    def _whole(self, shard: torch.Tensor, axis: str, spec: Spec) -> torch.Tensor:
        """[devices of the other axes, *whole]: devices along other axes have different tensors, which
        the partitioner must keep apart."""
        return self.layout.leave(shard[None], (self._others(axis), *spec))

    def _shard(self, whole: torch.Tensor, axis: str, spec: Spec) -> torch.Tensor:
        import torch_xla

        layout = self.layout
        sharding = layout.mesh.get_op_sharding(layout.spec((self._others(axis), *spec)))
        fresh = whole * 1  # a tensor cannot be annotated twice
        torch_xla._XLAC._xla_mark_sharding(fresh, sharding)
        return layout.enter(fresh)[0]

    def _others(self, axis: str) -> tuple[str, ...]:
        return tuple(name for name in self.layout.sizes if name != axis)
