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
from xlahouse.reports.charts.facts import RunFacts
from xlahouse.reports.charts.panel import Source
from xlahouse.reports.headline import Card
from xlahouse.reports.own_page import read_own_page
from xlahouse.reports.page import keep_script, page_script

# Opens the warehouse again, in another process; it has to be picklable.
Opener = Callable[[], AbstractContextManager[Source]]
LEAST_RUNS = 3  # fewer are drawn before another process has loaded what it needs


@dataclass(frozen=True)
class RunJob:
    """One run's pages to draw.

    Attributes:
        facts: the run.
        cards: its headline.
        stem: how the names of its files begin.
        pages: which of our pages.
        own: files of the user's pages.
        folder: the site.
        home: whether there is an index.
    """

    facts: RunFacts
    cards: list[Card]
    stem: str
    pages: Sequence[str]
    own: Sequence[str]
    folder: Path
    home: bool


@dataclass(frozen=True)
class RunDone:
    """What became of a run's pages.

    pages: (file, key, whether it was drawn) each. problems: own pages that failed. error: why the run's
    pages could not be drawn; None: they were.
    """

    pages: list[tuple[str, str, bool]]
    problems: list[str]
    error: str | None = None


@contextmanager
def drawing(jobs: Sequence[RunJob], opener: Opener, workers: int) -> Iterator[Iterator[RunDone]]:
    """Start to draw; what became of each run, in order, as it is asked for."""
    processes = min(workers, len(jobs))
    spawn = get_context("spawn")
    with ProcessPoolExecutor(
        processes, mp_context=spawn, initializer=_start, initargs=(page_script(),)
    ) as pool:
        yield pool.map(_draw_run, jobs, [opener] * len(jobs))


def _draw_run(job: RunJob, opener: Opener) -> RunDone:
    from xlahouse.reports.site import draw_run

    try:
        with opener() as source:
            return draw_run(source, job, [read_own_page(path) for path in job.own])
    except XlahouseError as error:  # as text: not every error survives the way between processes
        return RunDone([], [], str(error))


def _start(script: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    keep_script(script)
