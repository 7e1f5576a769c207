"""Where benchmarks register, and how one is measured."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cost:
    """What a contender that runs as a process of its own took besides time; it returns this."""

    peak_bytes: int


@dataclass(frozen=True)
class Benchmark:
    """One comparison: ours against peers that do the same job on the same input.

    prepare: returns what every contender is called with, or a string that says why it cannot run here.
    most_rounds: rounds that are enough, where one takes long.
    """

    name: str
    prepare: Callable[[], object]
    ours: Callable[[object], object]
    peers: dict[str, Callable[[object], object]] = field(default_factory=dict)
    most_rounds: int | None = None


@dataclass(frozen=True)
class Row:
    """One contender's times in seconds, its median over ours (1.0 is ours), and its peak memory if told."""

    benchmark: str
    contender: str
    median_s: float
    least_s: float
    ratio: float
    peak_bytes: int | None = None


REGISTERED: list[Benchmark] = []


def register(benchmark: Benchmark) -> Benchmark:
    """Add a benchmark to `make bench`."""
    REGISTERED.append(benchmark)
    return benchmark


def measure(benchmark: Benchmark, rounds: int) -> list[Row] | str:
    """Time all contenders in turn, round by round, so that a noisy minute hits all of them."""
    given = benchmark.prepare()
    if isinstance(given, str):
        return given
    contenders = {"xlahouse": benchmark.ours, **benchmark.peers}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    peaks: dict[str, int] = {}
    for _ in range(min(rounds, benchmark.most_rounds or rounds)):
        for name, run in contenders.items():
            start = time.perf_counter()
            cost = run(given)
            times[name].append(time.perf_counter() - start)
            if isinstance(cost, Cost):
                peaks[name] = max(peaks.get(name, 0), cost.peak_bytes)
    ours = statistics.median(times["xlahouse"])
    return [
        Row(
            benchmark.name,
            name,
            statistics.median(taken),
            min(taken),
            statistics.median(taken) / ours,
            peaks.get(name),
        )
        for name, taken in times.items()
    ]
