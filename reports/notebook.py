"""A page of a report in a notebook: `Warehouse.show`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import altair as alt

from xlahouse.capture.errors import ReportError
from xlahouse.reports.answers import read_verdict
from xlahouse.reports.charts.panel import Queryable, Section, VegaLite, fill
from xlahouse.reports.figure_files import on_paper
from xlahouse.reports.kept_views import KEPT_VIEWS
from xlahouse.reports.pages import OVERVIEW, RUN_PAGES, check_pages
from xlahouse.reports.run_page import run_html
from xlahouse.reports.site import read_runs
from xlahouse.reports.site_page import Frame

HEIGHT = 900  # px of the frame, which scrolls


@dataclass(frozen=True)
class Shown:
    """A page that a notebook shows."""

    html: str  # the whole page, which needs no network
    # title -> chart as in a file, with a width of its own, to change and to save
    charts: dict[str, alt.Chart]

    def _repr_html_(self) -> str:
        """The page in a frame of its own: its styles and scripts are not the notebook's."""
        return (
            f'<iframe srcdoc="{escape(self.html)}" style="width: 100%; height: {HEIGHT}px; border: 0">'
            "</iframe>"
        )


def shown(source: Queryable, page: str, run_id: str) -> Shown:
    """A page about one run.

    Args:
        source: the warehouse.
        page: one of RUN_PAGES.
        run_id: of the run.

    Raises:
        ReportError: there is no such page of a run.
    """
    check_pages([page])
    if page not in RUN_PAGES:
        raise ReportError(f"{page} is over all runs; pages of a run: {', '.join(RUN_PAGES)}")
    with source.of_run(run_id, KEPT_VIEWS, threads=1) as one_run:
        _, cards, [facts] = read_runs(one_run, [run_id])
        sections = [
            fill(
                panel,
                (source if panel.over_runs else one_run).query(panel.sql, {"run": run_id}).pl(),
                facts,
            )
            for panel in RUN_PAGES[page]
            if panel.applies(facts)
        ]
        verdict = read_verdict(one_run, run_id) if page == OVERVIEW else None
    headline = cards[run_id] if page == OVERVIEW else []
    html = run_html(facts, page.capitalize(), headline, Frame("", []), sections, verdict)
    return Shown(html, _charts([verdict.section, *sections] if verdict else sections))


def _charts(sections: Sequence[Section]) -> dict[str, alt.Chart]:
    return {
        drawn.title: _chart(on_paper(drawn.spec, drawn.title, drawn.shape))
        for section in sections
        for drawn in section.figures
        if drawn.spec is not None
    }


def _chart(spec: VegaLite) -> alt.Chart:
    kind = alt.LayerChart if "layer" in spec else alt.Chart
    chart: alt.Chart = kind.from_dict(spec, validate=False)
    return chart
