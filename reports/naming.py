"""Names of runs, as users give them, and of the files of their pages."""

from __future__ import annotations

from collections.abc import Sequence

from xlahouse.capture.errors import ReportError
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.reports.pages import OVERVIEW
from xlahouse.sql.outputs import file_stems


def page_stems(runs: Sequence[PageFacts]) -> dict[str, str]:
    """run_id -> how the file names of its pages begin."""
    stems = file_stems({facts.run_id: facts.name for facts in runs})
    return {run_id: f"run-{stem}" for run_id, stem in stems.items()}


def page_file(stem: str, page: str) -> str:
    """The file of a run's page: the overview is the run's first."""
    return f"{stem}.html" if page == OVERVIEW else f"{stem}.{page}.html"


def choose_runs(known: Sequence[PageFacts], wanted: Sequence[str]) -> list[PageFacts]:
    """The runs that `wanted` names by id, name or unique prefix of an id, in the order of `known`.

    Raises:
        ReportError: a name fits no run, or several.
    """
    chosen = {_choose(known, text) for text in wanted}
    return [facts for facts in known if facts.run_id in chosen]


def choose_pair(known: Sequence[PageFacts], wanted: Sequence[str] | None) -> list[PageFacts]:
    """The two runs that `wanted` names, in its order; none where it does not name two.

    Raises:
        ReportError: a name fits no run, or several.
    """
    pair = list(dict.fromkeys(_choose(known, text) for text in wanted or ()))
    by_id = {facts.run_id: facts for facts in known}
    return [by_id[run_id] for run_id in pair] if len(pair) == 2 else []


def _choose(known: Sequence[PageFacts], text: str) -> str:
    exact = [facts.run_id for facts in known if text in (facts.run_id, facts.name)]
    prefixed = [facts.run_id for facts in known if text and facts.run_id.startswith(text)]
    found = exact or prefixed
    if len(found) == 1:
        return found[0]
    if found:
        raise ReportError(f"run {text!r} fits {len(found)} runs: {', '.join(found)}; give one id")
    names = ", ".join(facts.name for facts in known) or "none"
    raise ReportError(f"no run {text!r} in the warehouse; it holds: {names}")
