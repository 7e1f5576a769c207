"""The index as HTML: every run with its headline numbers and a link to its pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.panel import Section
from xlahouse.reports.charts.units import NOT_KNOWN, plural
from xlahouse.reports.headline import HEADLINE_SQL, HeadlineCard
from xlahouse.reports.page import render_page
from xlahouse.reports.setup_facts import devices_text, size_text
from xlahouse.reports.site_page import RUNS_PARAMS, Link, common, virtual_runs


@dataclass(frozen=True)
class _IndexRow:
    """A run on the index, as text."""

    name: str
    href: str  # of its first page; empty where no page of it is written
    inferred: bool  # whether its devices are virtual
    setup: str  # model and parallelism
    devices: str
    size: str  # batch and lengths; empty where neither is known
    cards: list[HeadlineCard]


def index_html(
    runs: Sequence[PageFacts],
    cards: dict[str, list[HeadlineCard]],
    hrefs: dict[str, str],
    links: Sequence[Link],
    sections: list[Section],
) -> str:
    """The index as HTML.

    Args:
        runs: in the order of the page.
        cards: run_id -> its headline.
        hrefs: run_id -> file of its first page; empty where none are written.
        links: the pages over runs.
        sections: the panels, with their rows.
    """
    return render_page(
        "index.html",
        {
            **common("Runs of LLM inference", virtual_runs(runs), links),
            "subtitle": f"{plural(len(runs), 'run')}: traffic, time and latency of each.",
            "home": "",
            "runs": [
                _index_row(facts, cards[facts.run_id], hrefs.get(facts.run_id, ""))
                for facts in runs
            ],
            "sections": sections,
            "headline_sql": HEADLINE_SQL,
            "params": RUNS_PARAMS,
        },
    )


def _index_row(facts: PageFacts, cards: list[HeadlineCard], href: str) -> _IndexRow:
    row = facts.row
    return _IndexRow(
        name=facts.name,
        href=href,
        inferred=facts.inferred,
        setup=", ".join(filter(None, (row["model"], row["parallelism"]))) or "setup not known",
        devices=devices_text(row),
        size="" if size_text(row) == NOT_KNOWN else size_text(row),
        cards=cards,
    )
