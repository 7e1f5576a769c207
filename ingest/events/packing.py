"""Packs several small numbers into one, so that one sort, search or lookup serves several columns."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from xlahouse.ingest.events.arrays import Integers


@dataclass(frozen=True)
class Packing:
    """Mixed radix, the first number the most significant: packed numbers compare as their tuples do."""

    sizes: tuple[int, ...]  # of each number, which is from 0 to below its size

    @property
    def bound(self) -> int:
        """Packed numbers are below this; it has to be below 2 ** 63."""
        return prod(self.sizes)

    def pack(self, *numbers: Integers) -> Integers:
        """One number for each row of the columns. A column of size 1, all zeros, costs nothing."""
        packed: Integers | None = None
        for number, size in zip(numbers, self.sizes, strict=True):
            if packed is None:
                packed = number if size != 1 else None
            elif size != 1:
                packed = packed * size
                packed += number
        return np.zeros_like(numbers[0]) if packed is None else packed

    def unpack(self, packed: Integers) -> tuple[Integers, ...]:
        """The columns again."""
        columns = [np.zeros_like(packed)] * len(self.sizes)
        several = [place for place, size in enumerate(self.sizes) if size != 1]
        for place in reversed(several[1:]):
            packed, columns[place] = np.divmod(packed, self.sizes[place])
        if several:
            columns[several[0]] = packed
        return tuple(columns)
