"""Renders a warehouse as a folder of self-contained pages: an index, and one page for each run."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from xlahouse.capture.errors import ReportError
from xlahouse.reports import (
    bandwidth,
    latency,
    matrix,
    overview,
    quality,
    steps,
    time_split,
    volume,
)
from xlahouse.reports.facts import FACTS_SQL, VIRTUAL, RunFacts, read_facts
from xlahouse.reports.headline import SPREAD_SQL, SUMMARY_SQL, Card, headline_cards
from xlahouse.reports.naming import choose_runs, page_names
from xlahouse.reports.page import render_page
from xlahouse.reports.panel import Panel, Section, Source, fill
from xlahouse.reports.setup_facts import devices_text, setup_rows, size_text
from xlahouse.reports.units import NOT_KNOWN, plural

PAGES = ("index", "run")
# The order of a run's page.
RUN_PANELS: tuple[Panel[RunFacts], ...] = (
    volume.PANEL,
    matrix.PANEL,
    bandwidth.PANEL,
    time_split.PANEL,
    latency.PANEL,
    steps.PANEL,
    quality.ISSUES,
    quality.COVERAGE,
)
INDEX_PANELS: tuple[Panel[Sequence[RunFacts]], ...] = (overview.TRAFFIC, overview.TIME)


@dataclass(frozen=True)
class _Banner:
    head: str
    body: str = ""


@dataclass(frozen=True)
class _IndexRow:
    """A run on the index, as text."""

    name: str
    href: str
    inferred: bool
    setup: str
    devices: str
    size: str
    cards: list[Card]


def render_site(
    warehouse: Source,
    out_dir: str | Path,
    runs: Sequence[str] | None = None,
    pages: Sequence[str] | None = None,
    on_event: Callable[[str], None] | None = None,
) -> list[Path]:
    """Write the pages and return their paths, the index first.

    The same warehouse gives the same bytes, apart from the stamp in the footer, which
    SOURCE_DATE_EPOCH fixes.

    Args:
        warehouse: what answers the queries.
        out_dir: folder for the pages; made where absent, other files in it are left alone.
        runs: ids, unique prefixes of ids, or names; None: all.
        pages: which of PAGES; None: all.
        on_event: told each file as it is written.

    Raises:
        ReportError: no such page or run, or the folder cannot be written.
    """
    wanted = _check_pages(pages)
    summary = warehouse.query(SUMMARY_SQL).pl()
    known = read_facts(warehouse.query(FACTS_SQL).pl(), summary)
    names = page_names(known)
    chosen = known if runs is None else choose_runs(known, runs)
    spread = warehouse.query(SPREAD_SQL).pl()
    cards = {facts.run_id: headline_cards(facts, spread) for facts in chosen}
    folder = _make_folder(out_dir)
    written: list[Path] = []

    def write(name: str, html: str) -> None:
        written.append(_write(folder / name, html))
        if on_event is not None:
            on_event(f"wrote {written[-1]}")

    if "index" in wanted:
        write(
            "index.html", render_index(warehouse, chosen, cards, names if "run" in wanted else {})
        )
    if "run" in wanted:
        home = "index.html" if "index" in wanted else ""
        for facts in chosen:
            write(names[facts.run_id], render_run(warehouse, facts, cards[facts.run_id], home))
    return written


def render_index(
    warehouse: Source, runs: list[RunFacts], cards: dict[str, list[Card]], names: dict[str, str]
) -> str:
    """The index as HTML.

    Args:
        warehouse: what answers the queries.
        runs: in the order of the page.
        cards: run_id -> its headline.
        names: run_id -> file of its page; empty where no pages are written.
    """
    params = {"runs": [facts.run_id for facts in runs]}
    sections = [
        fill(panel, warehouse.query(panel.sql, params).pl(), runs) for panel in INDEX_PANELS
    ]
    virtual = [facts.name for facts in runs if facts.inferred]
    body = "" if len(virtual) == len(runs) else f"In: {', '.join(virtual)}."
    return render_page(
        "index.html",
        {
            **_common("Runs of LLM inference", [_Banner(VIRTUAL, body)] if virtual else []),
            "subtitle": f"{plural(len(runs), 'run')}: what each sends, where its time goes, how long "
            "a token takes.",
            "home": "",
            "runs": [
                _index_row(facts, cards[facts.run_id], names.get(facts.run_id, ""))
                for facts in runs
            ],
            "sections": sections,
            "headline_sql": _headline_sql(),
            "params": "With $runs = the ids of the runs on this page.",
        },
    )


def render_run(warehouse: Source, facts: RunFacts, cards: list[Card], home: str) -> str:
    """A run's page as HTML; `home` is the index's file, or empty."""
    sections: list[Section] = []
    for panel in RUN_PANELS:
        rows = warehouse.query(panel.sql, {"run": facts.run_id}).pl()
        sections.append(fill(panel, rows, facts))
    return render_page(
        "run.html",
        {
            **_common(facts.name, [_Banner(VIRTUAL, _WHY_VIRTUAL)] if facts.inferred else []),
            "subtitle": _subtitle(facts),
            "home": home,
            "cards": cards,
            "setup": setup_rows(facts),
            "sections": sections,
            "headline_sql": _headline_sql(),
            "params": f"With $run = '{facts.run_id}'.",
        },
    )


_WHY_VIRTUAL = (
    "Programs, collectives, groups, payloads and their order are those of the run; how long things "
    "take is not what an accelerator would show, and which device did what was deduced."
)


def _check_pages(pages: Sequence[str] | None) -> Sequence[str]:
    for page in pages or ():
        if page not in PAGES:
            raise ReportError(f"no page {page!r}; there are: {', '.join(PAGES)}")
    return pages or PAGES


def _make_folder(out_dir: str | Path) -> Path:
    folder = Path(out_dir)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReportError(
            f"{folder}: cannot be made ({error.strerror}); choose another with -o"
        ) from error
    return folder


def _write(path: Path, html: str) -> Path:
    try:
        path.write_text(html, encoding="utf-8", newline="\n")
    except OSError as error:
        raise ReportError(
            f"{path}: cannot be written ({error.strerror}); choose another -o"
        ) from error
    return path


def _common(title: str, banners: list[_Banner]) -> dict[str, Any]:
    return {"title": title, "banners": banners, "version": version("xlahouse"), "stamp": _stamp()}


def _stamp() -> str:
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    when = datetime.fromtimestamp(int(epoch), UTC) if epoch.isdecimal() else datetime.now(UTC)
    return when.strftime("%Y-%m-%d %H:%M UTC")


def _headline_sql() -> str:
    return f"{SUMMARY_SQL.strip()};\n\n{SPREAD_SQL.strip()};"


def _subtitle(facts: RunFacts) -> str:
    row = facts.row
    parts = (row["model"], row["parallelism"], size_text(row), devices_text(row))
    return ", ".join(part for part in parts if part and part != NOT_KNOWN) + "."


def _index_row(facts: RunFacts, cards: list[Card], href: str) -> _IndexRow:
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
