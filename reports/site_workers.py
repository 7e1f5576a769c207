"""Draws the pages of several runs at once, each run in a process: charts and queries share no state."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from xlahouse.capture.errors import XlahouseError
from xlahouse.reports.charts.cards import HeadlineCard
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.panel import Queryable
from xlahouse.reports.own_page import read_own_page
from xlahouse.reports.page import keep_script, page_script

# Opens the warehouse again, in another process; it has to be picklable.
Opener = Callable[[], AbstractContextManager[Queryable]]
LEAST_RUNS = 3  # fewer are drawn before another process has loaded what it needs


@dataclass(frozen=True)
class RunJob:
    """One run's pages to draw."""

    facts: PageFacts  # about the run
    cards: list[HeadlineCard]  # its headline
    stem: str  # how the names of its files begin
    pages: Sequence[str]  # which of our pages
    own: Sequence[str]  # files of the user's pages
    folder: Path  # of the site
    over_runs: Sequence[str]  # pages over runs to link to
    single_file: bool  # whether each page holds the script


@dataclass(frozen=True)
class RunDone:
    """The result of drawing a run's pages."""

    pages: list[tuple[str, str, bool]]  # (file, key, whether it was drawn) each
    problems: list[str]  # own pages that failed
    error: str | None = None  # why the run's pages could not be drawn


@contextmanager
def drawing(jobs: Sequence[RunJob], opener: Opener, workers: int) -> Iterator[Iterator[RunDone]]:
    """Start to draw; what became of each run, in order, as it is asked for."""
    processes = min(workers, len(jobs))
    spawn = get_context("spawn")
    script = page_script() if any(job.single_file for job in jobs) else None
    with ProcessPoolExecutor(
        processes, mp_context=spawn, initializer=_start, initargs=(script,)
    ) as pool:
        yield pool.map(_draw_run, jobs, [opener] * len(jobs))


def _draw_run(job: RunJob, opener: Opener) -> RunDone:
    from xlahouse.reports.site import draw_run

    try:
        with opener() as source:
            return draw_run(source, job, [read_own_page(path) for path in job.own])
    except XlahouseError as error:  # as text: not every error survives the way between processes
        return RunDone([], [], str(error))


def _start(script: str | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    if script is not None:
        keep_script(script)
