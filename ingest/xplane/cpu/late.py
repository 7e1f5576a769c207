"""Gives programs of virtual CPU devices that started late to the executions that lack them.

A program whose inputs are not ready is scheduled by whichever thread makes the last input ready. Its start
then leads back to an earlier execution: to the one before it on its own device, or, where all devices wait
for one input, to the same device for all of them. Evidence of its execution and place, the best one first:
- it starts after its execution was called;
- its collectives name the devices that it meets, and devices that meet go on together: among starts that
  meet the same devices the first ones are of the earliest execution;
- the place that it descends from, where no other start descends from it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from xlahouse.ingest.events.arrays import Integers

# Late starts looked at for an execution, for each place of a device, and executions looked at beyond one:
# few are in flight at a time, and looking at all of them would take the square of their number.
NEAR = 4
_ANYWHERE = range(1 << 62)  # places of a start whose collectives name none


@dataclass(frozen=True)
class Lacking:
    """An execution, some of whose places have no start."""

    execution: int  # event number of the Execute
    start_ps: int  # of the call
    places: list[int]  # of the devices without a start, in device order


@dataclass(frozen=True)
class LateStarts:
    """Regions that start a program late, as row numbers."""

    rows: list[int]  # by time
    start_ps: Integers  # of each region
    origin: Integers  # of each region: the start that it descends from, -1 for none
    meetings: Mapping[int, Collection[int]]  # of a row: places that its collectives are among


def deal(
    late: LateStarts, lacking: Sequence[Lacking], execution: Integers, ordinal: Integers
) -> int:
    """Write each late start's execution and ordinal where its row is.

    Args:
        late: the starts.
        lacking: executions by time.
        execution: of each region, -1 where unknown.
        ordinal: as execution.

    Returns:
        How many starts got one of several places that the evidence leaves, by their order.
    """
    waiting, unsure = list(late.rows), 0
    window = NEAR * (1 + max((place for each in lacking for place in each.places), default=0))
    for number, each in enumerate(lacking):
        del waiting[: bisect_left(waiting, each.start_ps, key=late.start_ps.__getitem__)]
        near = waiting[:window]
        descent = _descent(near, late, ordinal)
        later = lacking[number + 1 : number + 1 + NEAR]
        picked = _picked(near, each, later, late, descent)
        placed, by_order = _placed(picked, each.places, late, descent)
        for row, place in placed.items():
            execution[row], ordinal[row] = each.execution, place
        waiting[:window] = [row for row in near if row not in placed]
        unsure += by_order
    return unsure


def _descent(near: list[int], late: LateStarts, ordinal: Integers) -> dict[int, int]:
    """Place of the start that each row alone descends from, unless its collectives contradict."""
    descendants = Counter(late.origin[near].tolist())
    descent = {}
    for row in near:
        origin = int(late.origin[row])
        if origin >= 0 and descendants[origin] == 1 and ordinal[origin] in _among(row, late):
            descent[row] = int(ordinal[origin])
    return descent


def _among(row: int, late: LateStarts) -> Collection[int]:
    """Places that a start can be at."""
    return late.meetings.get(row, _ANYWHERE)


def _picked(
    near: list[int],
    each: Lacking,
    later: Sequence[Lacking],
    late: LateStarts,
    descent: Mapping[int, int],
) -> list[int]:
    """The first rows that together fit the places of an execution."""
    picked: list[int] = []
    taken: Counter[tuple[int, ...]] = Counter()
    anywhere = tuple(each.places)
    for row in near:
        if len(picked) == len(each.places):
            break
        among = late.meetings.get(row)
        fits = anywhere if among is None else tuple(p for p in each.places if p in among)
        own = descent.get(row)
        of_later = own is not None and own not in each.places
        of_later = of_later and any(
            own in other.places and other.start_ps <= late.start_ps[row] for other in later
        )
        if taken[fits] < len(fits) and not of_later:
            taken[fits] += 1
            picked.append(row)
    return picked


def _placed(
    picked: list[int], places: list[int], late: LateStarts, descent: Mapping[int, int]
) -> tuple[dict[int, int], int]:
    """Row -> place, and how many rows got theirs by order alone."""
    placed: dict[int, int] = {}
    for row in picked:
        if descent.get(row) in places and descent[row] not in placed.values():
            placed[row] = descent[row]
    sure = set(placed.values())
    fits = {row: [place for place in places if place in _among(row, late)] for row in picked}
    by_order = 0
    rest = [row for row in picked if row not in placed]
    for row in sorted(rest, key=lambda row: len(fits[row])):
        left = [place for place in fits[row] if place not in sure]
        free = [place for place in left if place not in placed.values()]
        if not free:
            continue
        placed[row] = free[0]
        if row in late.meetings and len(left) == 1:
            sure.add(free[0])
        else:
            by_order += 1
    return placed, by_order
