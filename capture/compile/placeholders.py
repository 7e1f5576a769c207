"""A mesh whose tensors are placeholders: steps are traced at true shapes, without data or devices.

torch_xla refuses to mark a placeholder as sharded, so each enters manual sharding through a product
with one that is marked; capture/compile/compiler.py gives the mark to the argument and drops the
product. Every argument is first used in a scope with its name, which the compiled program keeps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xlahouse.capture.models.families import Spec
from xlahouse.capture.models.sharding import Layout

if TYPE_CHECKING:
    import torch


class PlaceholderLayout(Layout):
    """A layout over virtual devices; a placed tensor is a placeholder with its whole shape."""

    def __init__(self, mesh: dict[str, int]) -> None:
        super().__init__(mesh)
        self._placed: dict[int, tuple[torch.Tensor, Spec]] = {}  # id -> the tensor, kept alive
        self._names: dict[int, str] = {}

    @property
    def device(self) -> torch.device:
        """torch's device for tensors without data."""
        import torch

        return torch.device("meta")

    def name(self, tensor: torch.Tensor, name: str) -> None:
        """Give an argument of the programs its name; a tied tensor keeps the first."""
        self._names.setdefault(id(tensor), name)

    def place(self, tensor: torch.Tensor, spec: Spec) -> torch.Tensor:
        """A placeholder like `tensor`, sharded by `spec` where it enters."""
        from torch_xla.core.xla_builder import create_placeholder_tensor

        placed: torch.Tensor = create_placeholder_tensor(tuple(tensor.shape), tensor.dtype)
        self._placed[id(placed)] = placed, self.spec(spec)
        return placed

    def enter(self, tensor: torch.Tensor) -> torch.Tensor:
        """Each device's shard of a placed tensor, or of one that was traced."""
        import torch_xla

        if id(tensor) not in self._placed:
            return super().enter(tensor)
        _, spec = self._placed[id(tensor)]
        with self.scope(self._names.get(id(tensor), "xlahouse.argument")):
            marked = tensor * 1
        if self.sizes:
            torch_xla._XLAC._xla_mark_sharding(marked, self.mesh.get_op_sharding(spec))
        return super().enter(marked)
