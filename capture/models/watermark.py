"""How much memory a traced step needs beside weights and cache: what its ops made and still hold."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any


@dataclass
class Watermark:
    """Bytes of the tensors that ops made and that are alive: now, and at most."""

    now: int = 0
    most: int = 0

    def watching(self) -> Any:
        """A context in which every op's results count for as long as they live."""
        from torch.utils._python_dispatch import TorchDispatchMode

        mark = self

        class Watching(TorchDispatchMode):  # type: ignore[misc]  # mypy does not follow torch
            """Sees every op."""

            def __torch_dispatch__(
                self, op: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                results = op(*args, **(kwargs or {}))
                # XLA writes the cache's new tokens into the buffer that the step was given.
                if op._schema.name != "aten::index_copy":
                    mark.add(results, args)
                return results

        return Watching()

    def add(self, results: Any, args: Any) -> None:
        """Count the storage of each result; a view of an argument has none of its own."""
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


def _storages(values: Any) -> list[Any]:
    import torch

    if isinstance(values, torch.Tensor):
        return [values.untyped_storage()]
    if isinstance(values, tuple | list):
        return [storage for value in values for storage in _storages(value)]
    return []
