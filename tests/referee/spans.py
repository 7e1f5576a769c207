"""Intervals the slow way: cut time at every end, and ask of each piece what covers it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

Span = tuple[int, int]


def covered(spans: Iterable[Span], start: int, end: int) -> bool:
    """Whether one of the spans holds all of a piece that no end cuts."""
    return any(a <= start and end <= b for a, b in spans)


def pieces(start: int, end: int, *lists: Iterable[Span]) -> list[Span]:
    """[start, end) cut at every end of the spans."""
    ends = {start, end} | {t for spans in lists for span in spans for t in span if start < t < end}
    ordered = sorted(ends)
    return list(itertools.pairwise(ordered))


def joined(spans: Iterable[Span]) -> list[Span]:
    """Touching pieces as one, in order."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], end)
        else:
            found.append((start, end))
    return found


def near(spans: Iterable[Span], start: int, end: int) -> list[Span]:
    """Those that meet [start, end)."""
    return [span for span in spans if span[0] < end and start < span[1]]


def percentile(values: Sequence[float], p: float) -> float:
    """The value of row ceil(p n) in order."""
    ordered = sorted(values)
    return ordered[max(0, -(-int(p * 1000) * len(ordered) // 1000) - 1)]


def median(values: Sequence[float]) -> float:
    """The middle row, or the mean of the two."""
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
