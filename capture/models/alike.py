"""Traces one layer of each kind and reuses its result: a deep model costs no more to trace."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlahouse.capture.models.paper import Collective, PaperCollectives
from xlahouse.capture.models.watermark import Watermark

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.models.sharded import ShardedModel


@dataclass(frozen=True)
class _Work:
    """What one layer does, and the tensor that it returns."""

    noted: list[Collective]  # its collectives
    rise: int  # of the watermark, in bytes
    flops: int  # of its matrix products
    shape: torch.Size  # of its result
    dtype: torch.dtype  # of its result


class AlikeLayers:
    """Wraps every layer of a model on paper; on meta tensors shapes alone decide a layer's work."""

    def __init__(
        self, sharded: ShardedModel, collectives: PaperCollectives, mark: Watermark
    ) -> None:
        self.noted, self.mark = collectives.noted, mark
        # Kind of layer and shapes of its inputs -> its work and its result.
        self.seen: dict[Hashable, _Work] = {}
        for index, layer in enumerate(sharded.model.model.layers):
            kind = _kind(sharded, index, layer)
            layer.forward = functools.partial(self._call, kind, layer.forward)

    def forget(self) -> None:
        """Start another step, in which the same layers may work differently."""
        self.seen.clear()

    def _call(
        self,
        kind: Hashable,
        forward: Callable[..., torch.Tensor],
        hidden: torch.Tensor,
        **others: object,
    ) -> torch.Tensor:
        shapes = {name: _shape(value) for name, value in others.items()}
        key = (kind, _shape(hidden), tuple(sorted(shapes.items())))
        if key not in self.seen:
            mark = self.mark
            first, before, most, flops = len(self.noted), mark.now, mark.most, mark.flops
            mark.most = before
            result = forward(hidden, **others)
            self.seen[key] = _Work(
                noted=self.noted[first:],
                rise=mark.most - before,
                flops=mark.flops - flops,
                shape=result.shape,
                dtype=result.dtype,
            )
            mark.most = max(most, mark.most)
            return result
        work = self.seen[key]
        self.noted.extend(work.noted)
        self.mark.flops += work.flops
        self.mark.most = max(self.mark.most, self.mark.now + work.rise)
        return hidden.new_empty(work.shape, dtype=work.dtype)


def _kind(sharded: ShardedModel, index: int, layer: torch.nn.Module) -> Hashable:
    """Equal for layers of one kind: the same modules, shapes, attention and pipeline stages."""
    types = getattr(sharded.model.config, "layer_types", None)
    modules = tuple((path, type(module).__name__) for path, module in layer.named_modules())
    shapes = tuple((name, tuple(each.shape)) for name, each in layer.state_dict().items())
    return modules, shapes, types and types[index], sharded.cache.stages.get(index)


def _shape(value: object) -> str:
    """Shapes and dtypes of the tensors in an argument; other values by their text or type."""
    import torch

    if isinstance(value, torch.Tensor):
        return f"{tuple(value.shape)}{value.dtype}"
    if isinstance(value, tuple | list):
        return f"({', '.join(_shape(each) for each in value)})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {_shape(each)}' for name, each in value.items())}}}"
    return str(value) if isinstance(value, bool | int | float | str) else type(value).__name__
