"""Which panels stand on which page, and in which order: the same for every run."""

from __future__ import annotations

from collections.abc import Sequence

from xlahouse.reports import (
    bandwidth,
    bubbles,
    bursts,
    clocks,
    comparison,
    comparison_why,
    durations,
    expectation,
    gaps,
    idle_gaps,
    latency,
    launches,
    layers,
    links,
    matrix,
    op_time,
    overview,
    padding,
    peak_use,
    pipeline,
    quality,
    reconfiguration,
    roofline,
    scaling,
    steps,
    stragglers,
    study,
    time_split,
    timeline,
    tokens,
    traffic_time,
    volume,
    waits,
    window_spread,
    windows,
)
from xlahouse.reports.facts import RunFacts
from xlahouse.reports.panel import Panel

OVERVIEW, INDEX = "overview", "index"
# Pages of a run.
RUN_PAGES: dict[str, tuple[Panel[RunFacts], ...]] = {
    OVERVIEW: (peak_use.PANEL, quality.ISSUES),
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
    "time": (
        timeline.PANEL,
        time_split.PANEL,
        bubbles.PANEL,
        idle_gaps.PANEL,
        pipeline.PANEL,
        waits.PANEL,
        stragglers.STRAGGLERS,
        stragglers.BALANCE,
    ),
    "efficiency": (
        latency.PANEL,
        steps.PANEL,
        tokens.PANEL,
        roofline.PANEL,
        peak_use.PANEL,
        layers.PANEL,
        op_time.MODULES,
        op_time.OPS,
        padding.PANEL,
    ),
    "scheduling": (launches.LAUNCHES, launches.COMPILES, clocks.PANEL),
    "quality": (quality.ISSUES, quality.COVERAGE),
}
# Pages over all runs of a site.
SITE_PAGES: dict[str, tuple[Panel[Sequence[RunFacts]], ...]] = {
    INDEX: (overview.TRAFFIC, overview.TIME),
    "comparison": (comparison.PANEL, comparison_why.TIME, comparison_why.WIRE),
    "scaling": (scaling.PANEL,),
    "study": (study.RANKING, study.PAIRS),
}
PAGES = (*SITE_PAGES, *RUN_PAGES)
