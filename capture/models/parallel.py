"""Makes a transformers model compute on shards: adds collectives around its modules."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

from xlahouse.capture.models.families import Family, parameter_spec

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.models.collectives import MeshCollectives
    from xlahouse.capture.models.modules import CausalModel
    from xlahouse.capture.models.sharding import Layout

# The result of a module; attention also returns its weights, or None.
Output: TypeAlias = "torch.Tensor | tuple[torch.Tensor | None, ...]"

BLOCKS = ("self_attn", "mlp")  # each ends with a sum over devices


class Parallel:
    """The sharded model of one experiment. Its modules have shards while a step is traced.

    All collectives of a step (rows = a device's sequences x tokens of the step):

    - tp: 1 all-reduce [rows, hidden] for the embedding, split by vocabulary; 2 a layer for the sums
      that end attention and MLP (or experts); 1 all-gather of the
      last position's logits, before the argmax. Decode under sp is the same.
    - sp, prefill: instead of all-reduces, reduce-scatters over the sequence; 2 all-gathers a layer
      of the sequence, before attention and before the MLP, and 1 after the last norm.
    - ep: 2 all-to-alls a layer with experts, [experts, places, hidden] out and back.
    - fsdp: 1 all-gather of every sharded weight, before its module; a step needs each once.
    - dp: no collective: every device keeps its own sequences, and the host reads their tokens.
    - pp: see capture/models/pipeline.py.
    """

    def __init__(
        self,
        model: CausalModel,
        family: Family,
        layout: Layout,
        collectives: MeshCollectives,
        own_place: Callable[[str], torch.Tensor],
    ) -> None:
        """`own_place` returns [1], a device's place along an axis."""
        self.model, self.family, self.layout, self.do = model, family, layout, collectives
        self.own_place = own_place
        self.sequence_split = False  # this step's activations are split along the sequence
        for path, module in list(model.named_modules()):
            self._adapt(path, module)

    @contextmanager
    def step(self, prefill: bool) -> Iterator[None]:
        """Trace a step in the block; under sp a prefill splits the sequence."""
        self.sequence_split = prefill and "sp" in self.layout.sizes
        try:
            yield
        finally:
            self.sequence_split = False

    def _adapt(self, path: str, module: torch.nn.Module) -> None:
        """Wrap a module by its role in the model."""
        name = path.rpartition(".")[2]
        if name in BLOCKS:
            _wrap(module, self._block)
        elif name == "embed_tokens":
            _wrap(module, functools.partial(self._embed, module))
        elif path == "lm_head":
            _wrap(module, self._head)
        elif path == "model.norm":
            _wrap(module, self._last_norm)
        elif name == "o_a_proj" and self.layout.tensor_axis is not None:
            self._own_groups(path, module)
        gathered = self._gathered(path, module)
        if gathered:
            _wrap(module, functools.partial(self._with_whole_weights, module, gathered))

    def _gathered(self, path: str, module: torch.nn.Module) -> dict[str, int]:
        """The module's parameters that fsdp splits -> the dimension."""
        found = {}
        for name, _ in module.named_parameters(recurse=False):
            spec = parameter_spec(self.family, f"{path}.{name}")
            if "fsdp" in self.layout.sizes and spec is not None and "fsdp" in spec:
                found[name] = spec.index("fsdp")
        return found

    def _own_groups(self, path: str, module: torch.nn.Module) -> None:
        """DeepSeek-V4 projects its output by groups of heads: give a device its share of them."""
        count = self.layout.size(self.layout.tensor_axis)
        module.n_groups //= count
        attention = self.model.get_submodule(path.rpartition(".")[0])
        attention.config = copy.copy(attention.config)
        attention.config.o_groups //= count

    def _block(
        self, forward: Callable[..., Output], *args: torch.Tensor, **kwargs: object
    ) -> Output:
        """Attention or MLP: gather the sequence before it, sum the devices' parts after it."""
        if self.sequence_split:
            if args:
                args = (self._whole_sequence(args[0]), *args[1:])
            else:
                kwargs["hidden_states"] = self._whole_sequence(kwargs["hidden_states"])
        result = forward(*args, **kwargs)
        if isinstance(result, tuple):
            return (self._sum(result[0]), *result[1:])
        return self._sum(result)

    def _whole_sequence(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.do.all_gather(hidden, self.layout.tensor_axis, 1)

    def _sum(self, part: torch.Tensor) -> torch.Tensor:
        """[batch, tokens, hidden] -> the sum over the tensor axis, or this device's tokens of it."""
        axis = self.layout.tensor_axis
        if axis is not None and self.sequence_split:
            return self.do.reduce_scatter(part, axis, 1)
        return self.do.all_reduce(part, axis)

    def _embed(
        self, module: torch.nn.Module, forward: Callable[..., torch.Tensor], tokens: torch.Tensor
    ) -> torch.Tensor:
        """Look up tokens in this device's part of the vocabulary, and sum over devices."""
        import torch

        axis = self.layout.tensor_axis
        if axis is None:
            return forward(tokens)
        rows = module.weight.shape[0]
        own = tokens - self.own_place(axis) * rows
        inside = (own >= 0) & (own < rows)
        found = torch.nn.functional.embedding(torch.where(inside, own, 0), module.weight)
        return self._sum(torch.where(inside[..., None], found, 0))

    def _head(self, forward: Callable[..., torch.Tensor], hidden: torch.Tensor) -> torch.Tensor:
        return self.do.all_gather(forward(hidden), self.layout.tensor_axis, -1)

    def _last_norm(
        self, forward: Callable[..., torch.Tensor], hidden: torch.Tensor
    ) -> torch.Tensor:
        normed = forward(hidden)
        return self._whole_sequence(normed) if self.sequence_split else normed

    def _with_whole_weights(
        self,
        module: torch.nn.Module,
        dims: dict[str, int],
        forward: Callable[..., Output],
        *args: object,
        **kwargs: object,
    ) -> Output:
        shards = {name: module._parameters[name] for name in dims}
        for name, dim in dims.items():
            module._parameters[name] = self.do.all_gather(shards[name], "fsdp", dim)
        try:
            return forward(*args, **kwargs)
        finally:
            module._parameters.update(shards)


def _wrap(module: torch.nn.Module, around: Callable[..., Output]) -> None:
    """Put `around(forward, ...)` in place of the module's forward."""
    module.forward = functools.partial(around, module.forward)


@contextmanager
def holding(model: CausalModel, tensors: dict[str, torch.Tensor]) -> Iterator[None]:
    """Replace the model's parameters and buffers by `tensors`, by name, inside the block."""
    kept: list[tuple[dict[str, torch.Tensor], str, torch.Tensor]] = []
    for path, tensor in tensors.items():
        parent, _, name = path.rpartition(".")
        module = model.get_submodule(parent)
        home = module._parameters if name in module._parameters else module._buffers
        kept.append((home, name, home[name]))
        home[name] = tensor
    try:
        yield
    finally:
        for home, name, own in reversed(kept):
            home[name] = own
