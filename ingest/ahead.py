"""Makes the next of some items on another thread while the one before is worked on."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def one_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """The items, in order; no more than the one asked for and the next are there at a time.

    Raises:
        Exception: what the items raise, where the item would come.
    """
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(_next, items)
        while item := coming.result():
            coming = pool.submit(_next, items)
            yield item[0]


def _next(items: Iterator[Item]) -> tuple[Item] | None:
    """The next item by itself, None at the end."""
    for item in items:
        return (item,)
    return None
