"""The order of every page: which panels it has, from top to bottom; the same for every run."""

from __future__ import annotations

from collections.abc import Sequence

from xlahouse.capture.errors import ReportError
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.panel import Panel
from xlahouse.reports.panels import quality
from xlahouse.reports.panels.communication import (
    bandwidth,
    durations,
    expectation,
    exposed,
    links,
    matrix,
    volume,
)
from xlahouse.reports.panels.efficiency import (
    kernels,
    latency,
    layers,
    op_time,
    padding,
    peak_use,
    roofline,
    steps,
    tokens,
)
from xlahouse.reports.panels.intervals import (
    bursts,
    gaps,
    reconfiguration,
    traffic_time,
    window_spread,
    windows,
)
from xlahouse.reports.panels.overview import errors, forecast, memory, predicted
from xlahouse.reports.panels.program import cost, fit, held
from xlahouse.reports.panels.runs import (
    comparison,
    comparison_why,
    compiled_cells,
    op_changes,
    scaling,
    study,
    study_matrix,
    top_runs,
    versus_metrics,
)
from xlahouse.reports.panels.scheduling import clocks, host_gaps, launches
from xlahouse.reports.panels.serving import batches, requests
from xlahouse.reports.panels.serving import steps as server_steps
from xlahouse.reports.panels.time import (
    bubbles,
    idle_gaps,
    pipeline,
    stragglers,
    time_split,
    timeline,
    waits,
)

OVERVIEW, INDEX, COMPARISON, VERSUS = "overview", "index", "comparison", "versus"
# Pages of a run.
RUN_PAGES: dict[str, tuple[Panel[PageFacts], ...]] = {
    OVERVIEW: (
        predicted.PANEL,
        forecast.PANEL,
        errors.PANEL,
        memory.PANEL,
        peak_use.PANEL,
        quality.ISSUES,
    ),
    "communication": (
        volume.PANEL,
        exposed.PANEL,
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
        kernels.PANEL,
        roofline.PANEL,
        peak_use.PANEL,
        layers.PANEL,
        op_time.MODULES,
        op_time.OPS,
        padding.PANEL,
    ),
    "program": (fit.PANEL, held.PANEL, cost.PANEL),
    "scheduling": (launches.LAUNCHES, host_gaps.PANEL, launches.COMPILES, clocks.PANEL),
    "serving": (server_steps.PANEL, requests.PANEL, batches.PANEL),
    "quality": (quality.ISSUES, quality.COVERAGE),
}
# Pages over all runs of a site.
SITE_PAGES: dict[str, tuple[Panel[Sequence[PageFacts]], ...]] = {
    INDEX: (top_runs.TRAFFIC, top_runs.TIME),
    COMPARISON: (
        comparison.PANEL,
        comparison_why.TIME,
        op_changes.PANEL,
        comparison_why.WIRE,
    ),
    "scaling": (scaling.PANEL,),
    "study": (study_matrix.PANEL, study.EFFECTS, study.PAIRS, compiled_cells.PANEL),
    # Of two runs that a user chose; before it what changes in their steps, a panel a phase.
    VERSUS: (versus_metrics.PANEL,),
}
PAGES = (*SITE_PAGES, *RUN_PAGES)


def check_pages(pages: Sequence[str] | None, pair: Sequence[PageFacts] = ()) -> Sequence[str]:
    """The pages to write; None: all, that of two runs only with a pair.

    Raises:
        ReportError: there is no such page, or no pair for it.
    """
    for page in pages or ():
        if page not in PAGES:
            raise ReportError(f"no page {page!r}; there are: {', '.join(PAGES)}")
        if page == VERSUS and not pair:
            raise ReportError(f"{VERSUS} is about two runs: give --run BASE --run OTHER")
    if pages is not None:
        return pages
    return [page for page in PAGES if page != VERSUS or pair]
