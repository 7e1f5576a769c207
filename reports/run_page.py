"""A run's page as HTML: the overview starts with the headline and the setup, other pages with panels."""

from __future__ import annotations

from dataclasses import replace

from xlahouse.capture.commands import located, shown, with_mesh
from xlahouse.reports.answers import Verdict, shown_findings
from xlahouse.reports.charts.facts import (
    COMPARED_BANNER,
    COMPILED_BANNER,
    PREDICTED_BANNER,
    VIRTUAL_BANNER,
    PageFacts,
)
from xlahouse.reports.charts.panel import Section
from xlahouse.reports.charts.units import NOT_KNOWN, plural, show_exact, show_s
from xlahouse.reports.headline import HEADLINE_SQL, HeadlineCard
from xlahouse.reports.page import render_page
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
    "compiler made. It has no times: pages of times give that reason."
)
_WHY_PREDICTED = (
    "Ops, bytes and counts are the measured run's, and no time of this run was measured. The tables "
    "transfer_costs and issues state what the times rest on."
)
_WHERE_COMPARED = "Its overview has the prediction's error beside measured runs."


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
    heading = facts.name if cards else f"{title}: {facts.name}"
    return render_page(
        "run.html",
        {
            **common(heading, _banners(facts), frame),
            "subtitle": _subtitle(facts),
            "covered": facts.covered(),
            # A site that has the trace links to it; a compiled run has none.
            "command": "" if facts.compiled or _has_trace(frame) else _export(facts),
            "verdict": verdict,
            "findings": shown_findings(verdict.summary, frame.links) if verdict else [],
            "cards": [_of_server(card, verdict) for card in cards],
            "setup": known_setup(facts),
            "absent": absent_setup(facts),
            "commands": setup_commands(facts),
            "sections": [_with_commands(each, facts) for each in sections],
            "headline_sql": HEADLINE_SQL,
            "params": f"With $run = '{facts.run_id}'.",
        },
    )


def _with_commands(section: Section, facts: PageFacts) -> Section:
    """A panel whose commands name the run and its warehouse."""

    def fill(text: str) -> str:
        guessed = with_mesh(text, facts.row["named_devices"])
        return shown(guessed, facts.name, facts.warehouse)

    return replace(section, empty=fill(section.empty), notes=[fill(each) for each in section.notes])


def _of_server(card: HeadlineCard, verdict: Verdict | None) -> HeadlineCard:
    """A latency's card; of a run of a server, that of its requests, which the summary knows."""
    if not card.why or verdict is None:
        return card
    latencies = {"ttft_s": verdict.summary.ttft, "tpot_s": verdict.summary.tpot}
    found = latencies.get(card.metric)
    if found is None or found.value_s is None:
        return card
    text, exact = show_s(found.value_s), show_exact(found.value_s)
    count = f"n = {plural(found.n, 'request')} of the server"
    return replace(card, text=text, exact=exact, spread="median", coverage=count, why="")


def _banners(facts: PageFacts) -> list[Banner]:
    if facts.compiled:
        return [Banner(COMPILED_BANNER, _WHY_COMPILED)]
    found = [Banner(VIRTUAL_BANNER, _WHY_VIRTUAL)] if facts.inferred else []
    if facts.predicted:
        parent, change = facts.row["parent_run_id"], facts.row["change"]
        why = f"A replay of run {parent} with {change}. {_WHY_PREDICTED}"
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
