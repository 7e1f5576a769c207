"""Which panels stand on which page, and in which order: the same for every run."""

from __future__ import annotations

from collections.abc import Sequence

from xlahouse.reports import (
    bandwidth,
    bursts,
    durations,
    expectation,
    gaps,
    latency,
    links,
    matrix,
    overview,
    quality,
    reconfiguration,
    steps,
    time_split,
    traffic_time,
    volume,
    window_spread,
    windows,
)
from xlahouse.reports.facts import RunFacts
from xlahouse.reports.panel import Panel

OVERVIEW, INDEX = "overview", "index"
# Pages of a run.
RUN_PAGES: dict[str, tuple[Panel[RunFacts], ...]] = {
    OVERVIEW: (quality.ISSUES,),
    "communication": (
        volume.PANEL,
        expectation.PANEL,
        durations.PANEL,
        bandwidth.PANEL,
        matrix.PANEL,
        links.PANEL,
    ),
    "intervals": (
        traffic_time.PANEL,
        gaps.SUMMARY,
        gaps.SPREAD,
        bursts.PANEL,
        windows.PANEL,
        window_spread.PANEL,
        reconfiguration.PANEL,
    ),
    "time": (time_split.PANEL,),
    "efficiency": (latency.PANEL, steps.PANEL),
    "scheduling": (),
    "quality": (quality.ISSUES, quality.COVERAGE),
}
# Pages over all runs of a site.
SITE_PAGES: dict[str, tuple[Panel[Sequence[RunFacts]], ...]] = {
    INDEX: (overview.TRAFFIC, overview.TIME),
    "comparison": (),
    "scaling": (),
    "study": (),
}
PAGES = (*SITE_PAGES, *RUN_PAGES)
