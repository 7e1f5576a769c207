"""Names of runs, as users give them, and of the files of their pages."""

from __future__ import annotations

from collections.abc import Sequence

from xlahouse.capture.errors import ReportError
from xlahouse.reports.charts.facts import PageFacts
from xlahouse.sql.outputs import file_stems


def page_stems(runs: Sequence[PageFacts]) -> dict[str, str]:
    """run_id -> how the file names of its pages begin."""
    stems = file_stems({facts.run_id: facts.name for facts in runs})
    return {run_id: f"run-{stem}" for run_id, stem in stems.items()}


def choose_runs(known: Sequence[PageFacts], wanted: Sequence[str]) -> list[PageFacts]:
    """The runs that `wanted` names by id, name or unique prefix of an id, in the order of `known`.

    Raises:
        ReportError: a name fits no run, or several.
    """
    chosen = {_choose(known, text) for text in wanted}
    return [facts for facts in known if facts.run_id in chosen]


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
