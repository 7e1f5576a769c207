"""Makes some items ahead of their use, on other threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Given = TypeVar("Given")
Made = TypeVar("Made")


def made_ahead(
    make: Callable[[Given], Made], items: Iterable[Given], at_once: int = 2
) -> Iterator[Made]:
    """The results for the items, in order; besides the one in use, at most `at_once` exist.

    A single item of a list is made without a thread.

    Raises:
        Exception: as `make` raises it, in place of its result.
    """
    if isinstance(items, Sequence) and len(items) == 1:
        yield make(items[0])
        return
    with ThreadPoolExecutor(at_once) as pool:
        coming: deque[Future[Made]] = deque()
        for item in items:
            if len(coming) == at_once:
                yield coming.popleft().result()
            coming.append(pool.submit(make, item))
        while coming:
            yield coming.popleft().result()
