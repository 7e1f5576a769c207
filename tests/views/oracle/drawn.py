"""A drawn run: its tables as rows, and what was drawn of its devices and programs to make them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

Row = dict[str, Any]
TICK_PS = 50_000  # times mostly fall on these, so that many tie and touch


@dataclass
class Drawn:
    """A run under construction: rows go to `tables` as they are drawn."""

    rng: Random
    run_id: str
    tables: dict[str, list[Row]] = field(default_factory=dict)

    def add(self, table: str, **row: Any) -> Row:
        """Add a row to a table."""
        self.tables.setdefault(table, []).append({"run_id": self.run_id, **row})
        return self.tables[table][-1]

    def chance(self, share: float) -> bool:
        """True in that share of draws."""
        return self.rng.random() < share

    def ticks(self, most: int) -> int:
        """0 to `most` ticks, ps, now and then a bit off."""
        odd = self.rng.randint(-3, 3) if self.chance(0.1) else 0
        return max(0, self.rng.randint(0, most) * TICK_PS + odd)

    def long_gap(self) -> int:
        """A time between steps, ps: none, or about as long as some power of ten."""
        near = self.rng.choice((-1, 0, 0, 1))
        return max(0, self.rng.choice((0, 1, 10**5, 10**6, 10**7, 10**8, 10**10)) + near)


@dataclass(frozen=True)
class Collective:
    """A collective instruction: op -> start op (and done op, of an asynchronous one)."""

    op: str
    kind: str
    is_async: bool
    payload: int | None
    groups: dict[int, dict[int, tuple[int, int]]]  # world -> device -> (group, its size)
    senders: frozenset[int] | None  # of a permute: devices that send to another one
    is_grouped: bool  # whether its groups are known


@dataclass(frozen=True)
class Program:
    """A compiled program: what each device runs in a launch, one after the other."""

    program_id: int
    module: str
    items: list[tuple[str, Any]]


def factors(rng: Random, product: int) -> list[int]:
    """Sizes of up to three axes with that product, ones among them."""
    sizes = []
    left = product
    for _ in range(rng.randint(0, 2)):
        size = rng.choice([d for d in range(1, left + 1) if left % d == 0])
        sizes.append(size)
        left //= size
    sizes.append(left)
    rng.shuffle(sizes)
    assert math.prod(sizes) == product
    return sizes


def partition(rng: Random, members: list[int]) -> Iterator[list[int]]:
    """The members in groups of one size, or of any."""
    members = rng.sample(members, len(members))
    size = rng.choice([d for d in range(1, len(members) + 1) if len(members) % d == 0])
    while members:
        taken = size if rng.random() < 0.9 else rng.randint(1, len(members))
        yield members[:taken]
        members = members[taken:]
