"""Where benchmarks register, and how one is measured."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec


@dataclass(frozen=True)
class Cost:
    """What a contender costs that runs as a process of its own; the contender returns it.

    peak_bytes: memory of the process, or of the largest of its own processes.
    cpu_s: CPU time of all of these.
    """

    peak_bytes: int
    cpu_s: float | None = None


@dataclass(frozen=True)
class Benchmark:
    """One comparison: ours and peers that do the same job on the same input.

    prepare: returns the argument of every contender, or a string that says why it cannot run here.
    most_rounds: upper limit of rounds, where one takes long.
    quick: part of the quick mode, whose benchmarks take under 3 minutes together.
    same: contenders whose results must equal ours.
    proof: raises AssertionError if our result is wrong; it is not timed.
    """

    name: str
    prepare: Callable[[], object]
    ours: Callable[[object], object]
    peers: dict[str, Callable[[object], object]] = field(default_factory=dict)
    most_rounds: int | None = None
    quick: bool = False
    same: frozenset[str] = frozenset()
    proof: Callable[[object], None] | None = None


class Row(msgspec.Struct, frozen=True):
    """One contender's times in seconds, its median over ours (1.0 is ours), and if known its peak memory
    and median CPU time."""

    benchmark: str
    contender: str
    median_s: float
    least_s: float
    ratio: float
    peak_bytes: int | None = None
    cpu_s: float | None = None


OURS = "xlahouse"
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
    contenders = {OURS: benchmark.ours, **benchmark.peers}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    peaks: dict[str, int] = {}
    cpu: dict[str, list[float]] = {}
    for _ in range(min(rounds, benchmark.most_rounds or rounds)):
        for name, run in contenders.items():
            start = time.perf_counter()
            cost = run(given)
            times[name].append(time.perf_counter() - start)
            if isinstance(cost, Cost):
                peaks[name] = max(peaks.get(name, 0), cost.peak_bytes)
                cpu.setdefault(name, []).extend([] if cost.cpu_s is None else [cost.cpu_s])
    ours = statistics.median(times[OURS])
    return [
        Row(
            benchmark.name,
            name,
            statistics.median(taken),
            min(taken),
            statistics.median(taken) / ours,
            peaks.get(name),
            statistics.median(cpu[name]) if cpu.get(name) else None,
        )
        for name, taken in times.items()
    ]


def check(benchmark: Benchmark) -> str | None:
    """Run ours once, its proof, and the peers that must agree; a string says why it cannot run.

    Raises:
        AssertionError: a peer gives something else, or the proof fails.
    """
    given = benchmark.prepare()
    if isinstance(given, str):
        return given
    found = benchmark.ours(given)
    if benchmark.proof is not None:
        benchmark.proof(given)
    for name in benchmark.same & benchmark.peers.keys():
        other = benchmark.peers[name](given)
        assert found == other, f"{benchmark.name}: {name} gives {other!r}, ours {found!r}"
    return None


def choose(names: Iterable[str], full: bool) -> list[Benchmark]:
    """Benchmarks whose names contain one of the words; without words those of the mode.

    Raises:
        KeyError: a word is in no name.
    """
    words = list(names)
    for word in words:
        if not any(word in benchmark.name for benchmark in REGISTERED):
            raise KeyError(word)
    return [
        benchmark
        for benchmark in REGISTERED
        if any(word in benchmark.name for word in words)
        or (not words and (full or benchmark.quick))
    ]
