"""Names that tell runs apart: by folder and session, where the names of their traces would repeat."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace

from xlahouse.ingest.archives import ARCHIVE
from xlahouse.ingest.events.run_files import RunFiles


def told_apart(runs: Sequence[RunFiles], taken: Collection[str] = ()) -> list[RunFiles]:
    """The runs, with other names for those whose name repeats.

    Such a run has the name of its log folder (the folder above `plugins/profile/<session>`, else the file's
    own), where that tells it apart; else folder and session, `logs.2026_04_10_00_00_00`. Captures and runs
    with a workload card keep their names: several of one name are repeats.

    Args:
        runs: of one call.
        taken: names of runs that the warehouse has.
    """
    given = Counter(run.name for run in runs)
    repeats = [run for run in runs if _is_plain(run) and (given[run.name] > 1 or run.name in taken)]
    kept = {*taken, *(run.name for run in runs if run not in repeats)}
    folders = Counter(_folder(run) for run in repeats)
    found = []
    for run in runs:
        name = run.name
        if run in repeats:
            folder = _folder(run)
            alone = folders[folder] == 1 and folder not in kept
            name = folder if alone else f"{folder}.{_session(run)}"
        found.append(replace(run, name=name))
    return found


def _is_plain(run: RunFiles) -> bool:
    return run.manifest_path is None and run.card_path is None


def _folder(run: RunFiles) -> str:
    parts = _parts(run)
    return parts[-5] if _in_session(parts) else parts[-2]


def _session(run: RunFiles) -> str:
    """The session, else the file's name without its endings."""
    parts = _parts(run)
    return parts[-2] if _in_session(parts) else parts[-1].partition(".")[0]


def _parts(run: RunFiles) -> list[str]:
    """At least five parts of the first file's path, as the user knows it; an archive's is its folder's."""
    parts = run.shown(run.paths[0]).split("/")
    if run.unpacked:
        parts = [ARCHIVE.sub("", part) for part in parts]
    return [run.name] * (5 - len(parts)) + [part or run.name for part in parts]


def _in_session(parts: list[str]) -> bool:
    return parts[-4:-2] == ["plugins", "profile"]
