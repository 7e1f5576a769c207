"""The index as HTML: every setup with its numbers and links to the pages of its runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.panel import Section
from xlahouse.reports.charts.units import plural
from xlahouse.reports.headline import SUMMARY_SQL
from xlahouse.reports.index_rows import IndexLink, index_table
from xlahouse.reports.page import render_page
from xlahouse.reports.site_page import RUNS_PARAMS, Frame, banners_of, common


def index_html(
    runs: Sequence[PageFacts],
    pages: Callable[[PageFacts], list[IndexLink]],
    frame: Frame,
    sections: list[Section],
) -> str:
    """The index as HTML.

    Args:
        runs: in the order of the page.
        pages: a run's pages, the first one first; none where none are written.
        frame: the ways to the pages over runs.
        sections: the panels, with their rows.
    """
    table = index_table(runs, pages)
    return render_page(
        "index.html",
        {
            **common("Runs of LLM inference", banners_of(runs), frame),
            "subtitle": f"{plural(len(runs), 'run')} of {plural(len(table.rows), 'setup')}: "
            "latency, traffic and time of each.",
            "table": table,
            "tables": True,
            "sections": sections,
            "summary_sql": SUMMARY_SQL.strip(),
            "params": RUNS_PARAMS,
        },
    )
