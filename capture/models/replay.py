"""A step that is traced once, compiled, and then launched by the hash of its program.

Tracing a step costs the host more than an accelerator needs to run it: 430 ms for 64 layers with scopes,
replaying it 4 ms. A program's inputs are weights and constants, which stay, the arguments of a launch (such
as tokens and positions), and the cache, which each launch replaces. The cache is donated: XLA updates it in
place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

Step = Callable[..., tuple["torch.Tensor", ...]]


class ReplayedProgram:
    """One step for one shape of its arguments: `launch` runs it and leaves the new state in the cache."""

    def __init__(
        self,
        step: Step,
        cache: dict[tuple[int, str], torch.Tensor],
        *arguments: torch.Tensor,
    ) -> None:
        """Trace `step` on the arguments and the cache, and compile it; nothing runs.

        Nothing but `cache` may hold its tensors: a launch donates their buffers.
        """
        import torch
        import torch_xla

        xla = torch_xla._XLAC
        torch_xla.sync(wait=True)  # the state is data on the devices, not work that waits
        self._cache = cache
        keys, held = list(cache), list(cache.values())
        for tensor in held:
            xla._set_buffer_donation(tensor, True)
        # An input of the program is known by its handle; `copy_` gives a tensor another.
        before = xla._get_tensors_handle([*arguments, *held])
        with torch.no_grad():
            results = step(*arguments)
        self._results, count = len(results), len(arguments)
        self._keys = _in_parameter_order(keys, before[count:], [*results, *cache.values()])
        handles = dict(zip(keys, before[count:], strict=True))
        state = [*before[:count], *(handles[key] for key in self._keys)]
        roots = [*results, *(cache[key] for key in self._keys)]
        inputs = _inputs(roots)
        places = {handle: place for place, handle in enumerate(state)}
        # Input -> its place in the state, or None for what stays the same.
        self._places = [places.get(handle) for handle in xla._get_tensors_handle(inputs)]
        self._fixed = [
            tensor if place is None else None
            for place, tensor in zip(self._places, inputs, strict=True)
        ]
        self._hash = _compile(roots)
        for place, tensor in zip(self._places, inputs, strict=True):
            if place is not None and place >= count:
                # A tensor on the same buffer without the traced work, which is never launched.
                cache[self._keys[place - count]] = tensor

    def launch(self, *arguments: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Send the step to the devices: its results, which may not be ready yet."""
        import torch_xla

        state = [*arguments, *(self._cache[key] for key in self._keys)]
        inputs = [
            fixed if place is None else state[place]
            for place, fixed in zip(self._places, self._fixed, strict=True)
        ]
        with _without_debug_names():
            found = torch_xla._XLAC._run_cached_graph(self._hash, inputs)
        self._cache.update(zip(self._keys, found[self._results :], strict=True))
        return tuple(found[: self._results])


@contextmanager
def _without_debug_names() -> Iterator[None]:
    """Leave out the Python frames of a launch's results: the program has its names since it was traced."""
    import torch_xla

    xla = torch_xla._XLAC
    asked = xla._get_ir_debug()
    xla._set_ir_debug(False)
    try:
        yield
    finally:
        xla._set_ir_debug(asked)


def _in_parameter_order(
    keys: list[tuple[int, str]], handles: list[int], roots: list[torch.Tensor]
) -> list[tuple[int, str]]:
    """The cache's entries in the order of the program's parameters.

    XLA pairs donated parameters with results of the same size in order, whatever flows where. With results
    in the parameters' order each entry stays in its buffer; in any other order XLA copies whole entries.
    """
    import torch_xla

    order = torch_xla._XLAC._get_tensors_handle(_inputs(roots))
    rank = {handle: place for place, handle in enumerate(order)}
    ranked = sorted(zip(handles, keys, strict=True), key=lambda pair: rank[pair[0]])
    return [key for _, key in ranked]


def _inputs(roots: list[torch.Tensor]) -> list[torch.Tensor]:
    """The data on the devices that the roots' program reads, in the order of its parameters."""
    import torch_xla

    _, inputs = torch_xla._XLAC._get_tensors_xla_device_data_node(roots)
    return list(inputs)


def _compile(roots: list[torch.Tensor]) -> bytes:
    """Compile the roots' program with its donated inputs; its hash."""
    import torch_xla
    from torch_xla.utils.buffer_donor_context import alias_with_buffer_donor_config

    with alias_with_buffer_donor_config():
        key: bytes = torch_xla._XLAC._get_graph_hash(roots)
        torch_xla._XLAC._xla_warm_up_cache(roots, [])
    return key
