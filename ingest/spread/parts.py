"""The parts of a stage of an ingest, and who computes them: this process, unless it is told otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from xlahouse.ingest.events.cores import threads_for

T = TypeVar("T")


@dataclass(frozen=True)
class RunPart:
    """One call of a stage."""

    name: str  # the files that it reads
    given: tuple[Any, ...]  # to the function, after what all parts share
    bytes: int = 0  # about how large the events are that it reads


class Spread(Protocol):
    """Computes the parts of a stage."""

    @property
    def apart(self) -> bool:
        """Whether it does so in other processes, so that what parts keep in mind is lost."""

    def each(
        self, do: Callable[..., T], shared: object, parts: Sequence[RunPart], in_turn: bool = False
    ) -> Iterator[T]:
        """The results of do(shared, *given) for all parts, in their order.

        Args:
            do: a function of a module.
            shared: its first argument.
            parts: its other arguments.
            in_turn: whether one process computes one at a time, each only when it is asked for.

        Raises:
            Exception: as `do` raises it.
            XlahouseError: the process that computed a part died twice.
        """


@dataclass(frozen=True)
class Here:
    """Computes parts in this process."""

    threads: int = 1  # at most
    apart = False

    def each(
        self, do: Callable[..., T], shared: object, parts: Sequence[RunPart], in_turn: bool = False
    ) -> Iterator[T]:
        """As Spread says."""
        threads = threads_for((part.bytes for part in parts), self.threads)
        if in_turn or threads == 1:
            yield from (do(shared, *part.given) for part in parts)
            return
        with ThreadPoolExecutor(threads) as pool:
            futures = [pool.submit(do, shared, *part.given) for part in parts]
            try:
                for future in futures:
                    yield future.result()
            finally:
                for future in futures:
                    future.cancel()
