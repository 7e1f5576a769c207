"""How the names of a run's files begin, for exports and pages alike."""

from __future__ import annotations

import re
from collections.abc import Mapping

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def file_stems(names: Mapping[str, str | None]) -> dict[str, str]:
    """run_id -> the start of its files' names: the run's name, with the start of its id where names clash.

    Args:
        names: run_id -> name, of all runs with files in one folder.
    """
    slugs = {
        run_id: _UNSAFE.sub("-", name or "").strip("-.")[:80] for run_id, name in names.items()
    }
    folded = [slug.lower() for slug in slugs.values()]  # some file systems ignore case
    return {
        run_id: slug if slug and folded.count(slug.lower()) == 1 else _with_id(slug, run_id)
        for run_id, slug in slugs.items()
    }


def _with_id(slug: str, run_id: str) -> str:
    return "-".join(part for part in (slug, _UNSAFE.sub("-", run_id)[:12]) if part)
