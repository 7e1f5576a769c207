"""Which clocks of a synthetic run can be compared: those of devices that meet in collectives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from tests.synth.describe import Run
from tests.synth.walk import schedule

Clock = tuple[int, int]  # host, process: the file that a device's events are in


def clock_of(run: Run, position: int) -> Clock:
    """The clock of a mesh position."""
    return run.host(position), run.process(position)


@lru_cache(maxsize=64)
def clock_sets(run: Run) -> dict[Clock, Clock]:
    """Clock -> the first one of those that it can be compared with."""
    first = {clock_of(run, p): clock_of(run, p) for p in run.positions}
    for together in _meetings(run):
        merged = {first[clock] for clock in together}
        for clock, own in first.items():
            if own in merged:
                first[clock] = min(merged)
    return first


def _meetings(run: Run) -> Iterator[set[Clock]]:
    """The clocks of each synchronous collective but a permute, whose members do not end together."""
    for times in schedule(run):
        for _, visits in times.visits(run):
            for visit in visits:
                segment = visit.segment
                if segment.what != "sync" or segment.transfer.kind == "collective-permute":
                    continue
                for group, _, seen in times.seen(run, visit):
                    if len(seen) > 1 and group:
                        yield {clock_of(run, p) for p in seen}


def comparable(run: Run, positions: Iterable[int]) -> bool:
    """Whether times of these positions can be compared."""
    sets = clock_sets(run)
    return len({sets[clock_of(run, p)] for p in positions}) <= 1
