"""What a traced step takes: memory besides weights and cache, by the results that are alive, and FLOPs."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass
class Watermark:
    """Bytes of op results that are alive, and floating-point operations so far."""

    now: int = 0  # bytes that are alive
    most: int = 0  # highest `now` so far
    flops: int = 0  # of matrix products

    def watching(self) -> AbstractContextManager[object]:
        """A context in which the results of ops are counted while they are alive."""
        from torch.utils._python_dispatch import TorchDispatchMode
        from torch.utils.flop_counter import flop_registry

        mark = self

        class Watching(TorchDispatchMode):  # type: ignore[misc]  # mypy does not follow torch
            """Sees every op."""

            def __torch_dispatch__(
                self,
                op: torch._ops.OpOverload,
                types: Sequence[type],
                args: tuple[object, ...] = (),
                kwargs: dict[str, object] | None = None,
            ) -> object:
                results = op(*args, **(kwargs or {}))
                count = flop_registry.get(op._overloadpacket)
                if count is not None:
                    mark.flops += count(*args, **(kwargs or {}), out_val=results)
                # XLA updates the cache in place.
                if op._schema.name not in ("aten::index_copy", "aten::index_put"):
                    mark.add(results, args)
                return results

        watching: AbstractContextManager[object] = Watching()
        return watching

    def add(self, results: object, args: object) -> None:
        """Count the storage of each result; a view of an argument adds no storage."""
        known = {id(storage) for storage in _storages(args)}
        for storage in _storages(results):
            if id(storage) not in known:
                known.add(id(storage))
                size = storage.nbytes()
                self.now += size
                weakref.finalize(storage, self._end, size).atexit = False
        self.most = max(self.most, self.now)

    def _end(self, size: int) -> None:
        self.now -= size


def _storages(values: object) -> list[torch.UntypedStorage]:
    import torch

    if isinstance(values, torch.Tensor):
        return [values.untyped_storage()]
    if isinstance(values, tuple | list):
        return [storage for value in values for storage in _storages(value)]
    return []
