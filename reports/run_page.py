"""A run's page as HTML: the overview starts with the headline and the setup, other pages with panels."""

from __future__ import annotations

from dataclasses import replace

from xlahouse.capture.commands import located, shown, with_mesh
from xlahouse.reports.answers import (
    Verdict,
    shown_doubts,
    shown_findings,
    shown_lagging,
    shown_memory,
    shown_pipeline,
)
from xlahouse.reports.charts.cards import HeadlineCard, known_cards, unknown_by_reason
from xlahouse.reports.charts.facts import (
    COMPARED_BANNER,
    COMPILED_BANNER,
    PREDICTED_BANNER,
    VIRTUAL_BANNER,
    PageFacts,
)
from xlahouse.reports.charts.panel import Section
from xlahouse.reports.charts.units import NOT_KNOWN, plural
from xlahouse.reports.headline import headline_sql
from xlahouse.reports.page import render_page
from xlahouse.reports.panels.quality import ISSUES
from xlahouse.reports.setup_facts import (
    absent_setup,
    devices_text,
    known_setup,
    setup_commands,
    size_text,
)
from xlahouse.reports.site_page import TRACE_END, Banner, Frame, common

_WHY_VIRTUAL = (
    "Programs, collectives, groups, payloads and their order are those of the run. Times are "
    "not an accelerator's: virtual devices take turns on the cores of one machine, and a transfer is a "
    "memory copy. The identities of the devices were deduced."
)

_WHY_COMPILED = (
    "Collectives, groups, bytes, routes and memory are those of the programs that the TPU's own "
    "compiler made. The run has no times: pages of times give that reason."
)
_WHY_PREDICTED = (
    "Ops, bytes and counts are the measured run's, and no time of this run was measured. The tables "
    "transfer_costs and issues state what the times rest on."
)
_WHERE_COMPARED = "Its overview has the prediction's error beside measured runs."


_WITH_FINDINGS = ("Quality", "Overview")  # titles of pages


def run_html(
    facts: PageFacts,
    title: str,
    cards: list[HeadlineCard],
    frame: Frame,
    sections: list[Section],
    verdict: Verdict | None = None,
) -> str:
    """A run's page as HTML.

    Args:
        facts: the run.
        title: of the page among the run's.
        cards: its headline, on the overview; else none.
        frame: the ways to other pages.
        sections: the panels, with their rows.
        verdict: what the run's time goes to, on the overview.
    """
    split = verdict.section if verdict else None
    # A compiled run's verdict says all that is known.
    ran = verdict.summary if verdict and not facts.compiled else None
    absent = [split] if split and split.empty else []
    heading = facts.name if cards else f"{title}: {facts.name}"
    return render_page(
        "run.html",
        {
            **common(heading, _banners(facts), frame),
            "subtitle": _subtitle(facts),
            "found": found_in_data(facts),
            "findings_href": _findings_href(facts, frame, sections),
            "covered": _sentence(facts.covered())
            + (shown_doubts(verdict.summary) if verdict else ""),
            # A site that has the trace links to it; a compiled run has none.
            "command": "" if facts.compiled or _has_trace(frame) else _export(facts),
            "verdict": verdict,
            "answer": _sentence(verdict.summary.verdict) if verdict else "",
            "memory": _sentence(shown_memory(ran)) if ran else "",
            "lagging": _sentence(shown_lagging(ran)) if ran else "",
            "pipeline": _sentence(shown_pipeline(ran)) if ran else "",
            "split": split if split and not split.empty else None,
            "findings": shown_findings(verdict.summary, frame.links) if verdict else [],
            "cards": known_cards(cards),
            "unknown": [_filled(facts, text) for text in unknown_by_reason(cards)],
            "overview": bool(cards),
            "setup": known_setup(facts),
            "absent": absent_setup(facts),
            "commands": setup_commands(facts),
            "sections": [_with_commands(each, facts) for each in (*absent, *sections)],
            "headline_sql": headline_sql(facts),
            "params": f"With $run = '{facts.run_id}'.",
        },
    )


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def found_in_data(facts: PageFacts) -> str:
    """What the ingest found wrong or unknown in the run's data, by severity."""
    row = facts.row
    infos = f"{plural(row['infos'], 'finding')} for information"
    if not (row["errors"] or row["warnings"]):
        return f"No errors and no warnings{f', {infos}' if row['infos'] else ''}."
    serious = [
        plural(row[name], name.removesuffix("s")) for name in ("errors", "warnings") if row[name]
    ]
    return f"{' and '.join(serious)}{f', {infos}' if row['infos'] else ''}."


def _findings_href(facts: PageFacts, frame: Frame, sections: list[Section]) -> str:
    """Where the findings are: on this page, or on the first of the run's pages that has them."""
    if not any(facts.row[name] for name in ("errors", "warnings", "infos")):
        return ""
    anchor = f"#{ISSUES.key}"
    if any(section.key == ISSUES.key for section in sections):
        return anchor
    pages = {link.title: link.href for link in frame.links}
    found = next((pages[name] for name in _WITH_FINDINGS if name in pages), "")
    return f"{found}{anchor}" if found else ""


def _with_commands(section: Section, facts: PageFacts) -> Section:
    """A panel whose commands name the run and its warehouse."""
    notes = [_filled(facts, each) for each in section.notes]
    return replace(section, empty=_filled(facts, section.empty), notes=notes)


def _filled(facts: PageFacts, text: str) -> str:
    """A text whose commands name the run and its warehouse."""
    return shown(with_mesh(text, facts.row["named_devices"]), facts.name, facts.warehouse)


def _banners(facts: PageFacts) -> list[Banner]:
    if facts.compiled:
        return [Banner(COMPILED_BANNER.format(steps=facts.compiled_steps), _WHY_COMPILED)]
    found = [Banner(VIRTUAL_BANNER, _WHY_VIRTUAL)] if facts.inferred else []
    if facts.predicted:
        why = f"A replay of {facts.parent} with {facts.row['change']}. {_WHY_PREDICTED}"
        if facts.compared:
            found.append(Banner(COMPARED_BANNER, f"{why} {_WHERE_COMPARED}"))
        else:
            found.append(Banner(PREDICTED_BANNER, why))
    return found


def _has_trace(frame: Frame) -> bool:
    return any(link.href.endswith(TRACE_END) for link in frame.beyond)


def _export(facts: PageFacts) -> str:
    command = f"xlahouse export perfetto {facts.run_id} -o {facts.run_id}{TRACE_END}"
    return located(command, facts.warehouse)


def _subtitle(facts: PageFacts) -> str:
    row = facts.row
    parts = (row["model"], row["parallelism"], size_text(row), devices_text(row))
    return ", ".join(part for part in parts if part and part != NOT_KNOWN) + "."
