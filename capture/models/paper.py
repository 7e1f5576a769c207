"""A mesh on paper: meta tensors with one device's shapes, to trace a step without devices."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlahouse.capture.models.collectives import MeshCollectives
from xlahouse.capture.models.families import Spec
from xlahouse.capture.models.held import Box
from xlahouse.capture.models.sharding import Layout

if TYPE_CHECKING:
    import torch


class PaperLayout(Layout):
    """A layout whose tensors have no data: placing a tensor gives one device's shard."""

    @property
    def device(self) -> torch.device:
        """torch's device for tensors without data."""
        import torch

        return torch.device("meta")

    def place(self, tensor: torch.Tensor, spec: Spec) -> torch.Tensor:
        """One device's shard of `tensor`, without data.

        Raises:
            ValueError: an axis does not divide its dimension.
        """
        shape = list(tensor.shape)
        for dim, axis in enumerate(self.spec(spec)):
            parts = self.size(axis) if axis else 1
            if shape[dim] % parts:
                raise ValueError(f"{axis}={parts} does not divide {list(tensor.shape)} at {dim}")
            shape[dim] //= parts
        return tensor.new_empty(shape, device=self.device)

    def enter(self, tensor: torch.Tensor) -> torch.Tensor:
        """A placed tensor is a shard already."""
        return tensor

    def scope(self, name: str) -> AbstractContextManager[object]:
        """A scope without effect: there is no profile."""
        return nullcontext()

    def leave(self, shard: torch.Tensor, spec: Spec) -> torch.Tensor:
        """The shard itself: a device has no more."""
        return shard


@dataclass(frozen=True)
class Collective:
    """A collective that one device takes part in."""

    kind: str  # such as all-reduce
    axis: str  # of the mesh
    payload_bytes: int  # as the view traffic_volume counts it


class PaperCollectives(MeshCollectives):
    """Records collectives in `noted`; results have their true shapes and no data."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout)
        self.noted: list[Collective] = []

    def all_reduce(self, shard: torch.Tensor, axis: str | None) -> torch.Tensor:
        """See MeshCollectives."""
        if axis not in self.layout.sizes:
            return shard
        self._note("all-reduce", axis, shard)
        return shard.new_empty(shard.shape)

    def reduce_scatter(self, shard: torch.Tensor, axis: str, dim: int) -> torch.Tensor:
        """See MeshCollectives."""
        if axis not in self.layout.sizes:
            return shard
        self._note("reduce-scatter", axis, shard)
        return self._resized(shard, dim, 1, self.layout.sizes[axis])

    def all_gather(self, shard: torch.Tensor, axis: str | None, dim: int) -> torch.Tensor:
        """See MeshCollectives."""
        if axis not in self.layout.sizes:
            return shard
        whole = self._resized(shard, dim, self.layout.sizes[axis], 1)
        self._note("all-gather", axis, whole)
        return whole

    def all_to_all(self, shard: torch.Tensor, axis: str, split: int, join: int) -> torch.Tensor:
        """See MeshCollectives."""
        if axis not in self.layout.sizes:
            return shard
        self._note("all-to-all", axis, shard)
        dealt = self._resized(shard, split, 1, self.layout.sizes[axis])
        return self._resized(dealt, join, self.layout.sizes[axis], 1)

    def shift(self, shard: torch.Tensor, axis: str) -> torch.Tensor:
        """See MeshCollectives."""
        if axis not in self.layout.sizes:
            return shard
        self._note("collective-permute", axis, shard)
        return shard.new_empty(shard.shape)

    def _note(self, kind: str, axis: str | None, payload: torch.Tensor) -> None:
        assert axis is not None
        self.noted.append(Collective(kind, axis, payload.numel() * payload.element_size()))

    @staticmethod
    def _resized(shard: torch.Tensor, dim: int, times: int, over: int) -> torch.Tensor:
        shape = list(shard.shape)
        shape[dim] = shape[dim] * times // over
        return shard.new_empty(shape)


class PaperWeights:
    """Weights with shapes and without data."""

    label = "none"
    stored = False

    def tensor(self, name: str, like: torch.Tensor, box: Box | None = None) -> torch.Tensor:
        """The skeleton's own empty tensor."""
        return like

    def drawing(self, name: str, like: torch.Tensor) -> None:
        """Nothing is drawn."""
