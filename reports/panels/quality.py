"""Findings about the data, and what became of every event that was read."""

from __future__ import annotations

import polars as pl

from xlahouse.capture.commands import shown
from xlahouse.reports.charts.columns import count_column, text_column
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.charts.panel import Figure, Panel, TableColumn
from xlahouse.reports.charts.units import plural

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


def issue_columns(rows: pl.DataFrame, facts: PageFacts) -> tuple[TableColumn, ...]:
    """The table, with commands that name this run and where its warehouse is now."""
    return (
        text_column("severity", "Severity"),
        text_column("code", "Code"),
        text_column("message", "Finding", lambda text: shown(text, facts.name, facts.warehouse)),
        text_column("source", "About", lambda source: source or "the run"),
        count_column("count", "Count"),
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
CHECK_NOTE = "xlahouse check tests whether the views agree with these tables and with each other. "

COVERAGE_COLUMNS = (
    text_column("table_name", "Table"),
    count_column("lines", "Lines of the trace"),
    count_column("events_read", "Events read"),
    count_column("rows_written", "Became rows"),
    count_column("events_rejected", "Rejected"),
)


def no_figures(rows: pl.DataFrame, facts: PageFacts) -> list[Figure]:
    """Findings are read, not drawn."""
    return []


def issues_coverage(rows: pl.DataFrame, facts: PageFacts) -> str:
    """Findings by severity."""
    row = facts.row
    counts = (
        plural(row["errors"], "error"),
        plural(row["warnings"], "warning"),
        f"{row['infos']:,} for information",
    )
    return ", ".join(counts) + "."


ISSUES: Panel[PageFacts] = Panel(
    key="findings",
    title="Findings about the data",
    lede="Data that the ingest found damaged or missing, or had to deduce, and what each "
    "finding costs.",
    sql=ISSUES_SQL,
    columns=(),
    columns_of=issue_columns,
    figures=no_figures,
    open_table=True,
    coverage=issues_coverage,
    why_empty=lambda facts: "The ingest found nothing to report.",
    notes=lambda rows, facts: ["Meaning and cost of each code: xlahouse check --codes."],
)

COVERAGE: Panel[PageFacts] = Panel(
    key="coverage",
    title="Coverage",
    lede="Each event that was read became a row, was merged into another row, or was rejected.",
    sql=COVERAGE_SQL,
    columns=COVERAGE_COLUMNS,
    figures=no_figures,
    coverage=lambda rows, facts: facts.covered(),
    why_empty=lambda facts: "The ingest recorded no lines for this run.",
    notes=lambda rows, facts: [CHECK_NOTE],
)
