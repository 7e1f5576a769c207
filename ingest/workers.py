"""Ingests runs in worker processes, so that what ends one of them costs the run that it was reading.

Small runs go to one worker each, and the files of a large run to all of them; this process then puts its
files together. What a dead worker was reading, a run or a file, is tried once more when all else is done:
alone, and on one thread.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace

from xlahouse.ingest.events.cores import usable_cores
from xlahouse.ingest.events.run_files import RunFiles
from xlahouse.ingest.one_run import IngestResult, Options
from xlahouse.ingest.spread.parts import Spread
from xlahouse.ingest.spread.processes import (
    Calls,
    Death,
    Pool,
    Processes,
    died_once,
    died_twice,
)

Outcome = IngestResult | str
# Ingests one run, itself or by a Spread; named in its module, as another process has to find it.
Ingest = Callable[[RunFiles, str, Options, Spread | None], Outcome]


def ingest_apart(
    ingest: Ingest,
    runs: list[RunFiles],
    root: str,
    options: Options,
    processes: int,
    on_event: Callable[[str], None],
    large: frozenset[RunFiles] = frozenset(),
) -> Iterator[Outcome]:
    """The outcomes of runs, in their order; then of large runs; those of runs whose workers died come last.

    Args:
        ingest: ingests one run.
        runs: the runs.
        root: the warehouse.
        options: of the ingest.
        processes: workers at once.
        on_event: called with a line for each worker that dies.
        large: the runs whose files are spread.

    Raises:
        XlahouseError: no worker can start.
    """
    pool = Pool(processes)
    whole = [run for run in runs if run not in large]
    shared = replace(options, threads=max(1, usable_cores() // processes))
    died: list[int] = []
    try:
        yield from _in_order(pool, _calls(ingest, whole, root, shared), whole, died, on_event)
        for run in runs:
            if run in large:
                yield ingest(run, root, options, Processes(pool, on_event))
        pool.close()
        alone = _calls(ingest, whole, root, replace(options, threads=1))
        pool.processes = 1
        for number, found in pool.outcomes(alone, died):
            yield _lost(whole[number], found.why) if isinstance(found, Death) else found
    finally:
        pool.close()


def _calls(ingest: Ingest, runs: list[RunFiles], root: str, options: Options) -> Calls:
    return Calls(ingest, (root, options, None), runs.__getitem__)


def _in_order(
    pool: Pool,
    calls: Calls,
    runs: list[RunFiles],
    died: list[int],
    on_event: Callable[[str], None],
) -> Iterator[Outcome]:
    """The outcomes of runs, in their order. died: receives the numbers of runs whose workers died."""
    done: dict[int, Outcome] = {}
    following = deque(range(len(runs)))
    for number, found in pool.outcomes(calls, range(len(runs))):
        if isinstance(found, Death):
            died.append(number)
            on_event(died_once(runs[number].name, found.why))
        else:
            done[number] = found
        while following and (following[0] in done or following[0] in died):
            first = following.popleft()
            if first in done:
                yield done.pop(first)


def _lost(run: RunFiles, why: str) -> str:
    return f"{died_twice(run.name, why)}; its files are {run.shown(', '.join(run.paths))}"
