"""Names of runs and of their pages: what a user calls a run, and what its file is called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from xlahouse.capture.errors import ReportError
from xlahouse.reports.facts import RunFacts

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def file_stems(names: Mapping[str, str | None]) -> dict[str, str]:
    """run_id -> the start of its files' names: the run's name, with the start of its id where names clash.

    Args:
        names: run_id -> name, of all runs whose files lie together.
    """
    slugs = {
        run_id: _UNSAFE.sub("-", name or "").strip("-.")[:80] for run_id, name in names.items()
    }
    folded = [slug.lower() for slug in slugs.values()]  # some file systems ignore case
    return {
        run_id: slug if slug and folded.count(slug.lower()) == 1 else _with_id(slug, run_id)
        for run_id, slug in slugs.items()
    }


def page_stems(runs: Sequence[RunFacts]) -> dict[str, str]:
    """run_id -> how the file names of its pages begin."""
    stems = file_stems({facts.run_id: facts.name for facts in runs})
    return {run_id: f"run-{stem}" for run_id, stem in stems.items()}


def choose_runs(known: Sequence[RunFacts], wanted: Sequence[str]) -> list[RunFacts]:
    """The runs that `wanted` names by id, name or unique prefix of an id, in the order of `known`.

    Raises:
        ReportError: a name fits no run, or several.
    """
    chosen = {_choose(known, text) for text in wanted}
    return [facts for facts in known if facts.run_id in chosen]


def _choose(known: Sequence[RunFacts], text: str) -> str:
    exact = [facts.run_id for facts in known if text in (facts.run_id, facts.name)]
    prefixed = [facts.run_id for facts in known if text and facts.run_id.startswith(text)]
    found = exact or prefixed
    if len(found) == 1:
        return found[0]
    if found:
        raise ReportError(f"run {text!r} fits {len(found)} runs: {', '.join(found)}; give one id")
    names = ", ".join(facts.name for facts in known) or "none"
    raise ReportError(f"no run {text!r} in the warehouse; it holds: {names}")


def _with_id(slug: str, run_id: str) -> str:
    return "-".join(part for part in (slug, _UNSAFE.sub("-", run_id)[:12]) if part)
