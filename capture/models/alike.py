"""Traces one layer of each kind and reuses its result: a deep model costs no more to trace."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from xlahouse.capture.models.paper import Collective, PaperCollectives
from xlahouse.capture.models.watermark import Watermark

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.models.sharded import ShardedModel


class AlikeLayers:
    """Wraps every layer of a model on paper; on meta tensors shapes alone decide a layer's work."""

    def __init__(
        self, sharded: ShardedModel, collectives: PaperCollectives, mark: Watermark
    ) -> None:
        self.noted, self.mark = collectives.noted, mark
        # Kind of layer and shapes of its inputs -> its collectives, rise of the watermark, its result.
        self.seen: dict[Hashable, tuple[list[Collective], int, torch.Size, torch.dtype]] = {}
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
            first, before, most = len(self.noted), self.mark.now, self.mark.most
            self.mark.most = before
            result = forward(hidden, **others)
            rise = self.mark.most - before
            self.mark.most = max(most, self.mark.most)
            self.seen[key] = (self.noted[first:], rise, result.shape, result.dtype)
            return result
        noted, rise, shape, dtype = self.seen[key]
        self.noted.extend(noted)
        self.mark.most = max(self.mark.most, self.mark.now + rise)
        return hidden.new_empty(shape, dtype=dtype)


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
