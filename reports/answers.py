"""Sections with the answers of commands: `summary` on a run's overview, `compare` on the page of two runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import polars as pl

from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.panel import Queryable, Section, fill
from xlahouse.reports.panels.overview.verdict import CIRCUIT_WAIT, split_rows, verdict_panel
from xlahouse.reports.panels.runs.versus import op_rows, versus_panel
from xlahouse.reports.site_page import Link
from xlahouse.sql.answers.data import DISAGREE
from xlahouse.sql.answers.differences import SQL as DIFFERENCES_SQL
from xlahouse.sql.answers.differences import step_differences
from xlahouse.sql.answers.lagging import NO_LAG, lagging_text
from xlahouse.sql.answers.memory import NO_MEMORY, memory_text
from xlahouse.sql.answers.pipeline import pipeline_text
from xlahouse.sql.answers.split import AXES_SQL, PREFILL_SQL, TIME_SQL, WAITS_SQL
from xlahouse.sql.answers.summary import Summary, summarize_run

SQL = ";\n\n".join(text.strip() for text in (TIME_SQL, AXES_SQL, PREFILL_SQL)) + ";"
KEY = "verdict"


@dataclass(frozen=True)
class Verdict:
    """A run's summary and the section that draws it."""

    summary: Summary  # in words and numbers
    section: Section  # with its chart
    rows: pl.DataFrame  # of the section


@dataclass(frozen=True)
class ShownFinding:
    """A finding of the verdict, for the template."""

    text: str  # the finding as a sentence
    lever: str  # what makes it less
    page: str  # title of the page with its proof
    href: str  # of the chart that proves it; empty where the site lacks the page
    view: str  # that has its numbers


def read_verdict(source: Queryable, run_id: str, csv: str = "") -> Verdict:
    """A run's verdict; `csv` names the file that has its rows."""
    summary = summarize_run(source, run_id)
    rows = split_rows(summary)
    waits = f"\n\n{WAITS_SQL.strip()};" if CIRCUIT_WAIT in rows["part"] else ""
    return Verdict(summary, fill(verdict_panel(SQL + waits), rows, summary, csv), rows)


def shown_findings(summary: Summary, links: Sequence[Link]) -> list[ShownFinding]:
    """The findings, each with the link to its chart.

    Args:
        summary: of the run.
        links: the run's pages that the site has.
    """
    pages = {link.title: link.href for link in links}
    found = []
    for finding in summary.findings:
        file = pages.get(finding.page.capitalize(), "")
        href = f"{file}#{finding.panel}" if file else ""
        found.append(ShownFinding(finding.text, finding.lever, finding.page, href, finding.view))
    return found


def shown_doubts(summary: Summary) -> str:
    """What views find wrong in the run's data, which no ingest counts; empty where nothing is."""
    found = [each.message for each in summary.data if each.code == DISAGREE]
    return "".join(f" {text[:1].upper()}{text[1:]}." for text in found)


def shown_memory(summary: Summary) -> str:
    """The most of a device's memory that the run took, or why it is not known."""
    return memory_text(summary.memory) if summary.memory else f"not known: {NO_MEMORY}"


def shown_lagging(summary: Summary) -> str:
    """The device that comes last most often, or why it is not known."""
    return lagging_text(summary.lagging) if summary.lagging else f"not known: {NO_LAG}"


def shown_pipeline(summary: Summary) -> str:
    """What the pipeline costs the steps; empty without one."""
    return pipeline_text(summary.pipeline) if summary.pipeline else ""


def read_versus(
    source: Queryable, pair: Sequence[PageFacts], csv: Callable[[str], str] = lambda key: ""
) -> list[tuple[Section, pl.DataFrame]]:
    """What changes in the steps of each phase from the first run to the second, with the rows.

    Args:
        source: a warehouse.
        pair: the two runs.
        csv: key of a section -> file that has its rows.
    """
    base, other = pair
    found = []
    for step in step_differences(source, base.run_id, other.run_id):
        panel = versus_panel(DIFFERENCES_SQL, step, base.name, other.name)
        rows = op_rows(step)
        found.append((fill(panel, rows, step, csv(panel.key)), rows))
    return found
