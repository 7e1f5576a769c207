"""Findings about the data, and what became of every event that was read."""

from __future__ import annotations

import polars as pl

from xlahouse.reports.charts.facts import RunFacts
from xlahouse.reports.charts.panel import Column, Figure, Panel
from xlahouse.reports.charts.units import plural, show_count, show_text

ISSUES_SQL = """
select severity, code, source, message, count
from issues
where run_id = $run
order by
    case severity when 'error' then 0 when 'warning' then 1 else 2 end,
    code,
    source,
    message
"""

ISSUE_COLUMNS = (
    Column("severity", "Severity", show_text, numeric=False),
    Column("code", "Code", show_text, numeric=False),
    Column("message", "Finding", show_text, numeric=False),
    Column("source", "About", lambda source: source or "the run", numeric=False),
    Column("count", "Count", show_count),
)

COVERAGE_SQL = """
select
    table_name,
    count(*) as lines,
    cast(sum(events_read) as bigint) as events_read,
    cast(sum(rows_written) as bigint) as rows_written,
    cast(sum(events_rejected) as bigint) as events_rejected
from coverage
where run_id = $run
group by table_name
order by table_name
"""

# Seconds a run: too long for each page, so the page says how to ask.
AUDITS = (
    "Whether the views agree with these tables and with each other: xlahouse check holds every run to "
    "that, in some seconds."
)

COVERAGE_COLUMNS = (
    Column("table_name", "Table", show_text, numeric=False),
    Column("lines", "Lines of the trace", show_count),
    Column("events_read", "Events read", show_count),
    Column("rows_written", "Became rows", show_count),
    Column("events_rejected", "Rejected", show_count),
)


def no_figures(rows: pl.DataFrame, facts: RunFacts) -> list[Figure]:
    """Findings are read, not drawn."""
    return []


def issues_coverage(rows: pl.DataFrame, facts: RunFacts) -> str:
    """Findings by severity."""
    row = facts.row
    counts = (
        plural(row["errors"], "error"),
        plural(row["warnings"], "warning"),
        f"{row['infos']:,} for information",
    )
    return ", ".join(counts) + "."


ISSUES: Panel[RunFacts] = Panel(
    key="findings",
    title="Findings about the data",
    lede="What the ingest found damaged, missing or deduced, and what each costs.",
    sql=ISSUES_SQL,
    columns=ISSUE_COLUMNS,
    figures=no_figures,
    coverage=issues_coverage,
    why_empty=lambda facts: "The ingest found nothing to report.",
    notes=lambda rows, facts: ["What each code means, and what it costs: xlahouse check --codes."],
)

COVERAGE: Panel[RunFacts] = Panel(
    key="coverage",
    title="Coverage",
    lede="Every event that was read either became a row, here or folded into another, or was rejected.",
    sql=COVERAGE_SQL,
    columns=COVERAGE_COLUMNS,
    figures=no_figures,
    coverage=lambda rows, facts: facts.covered(),
    why_empty=lambda facts: "The ingest recorded no lines for this run.",
    notes=lambda rows, facts: [AUDITS],
)
