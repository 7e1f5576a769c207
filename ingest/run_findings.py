"""Findings about a run's files: those that are missing, repeated, refused, or read in another's place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xlahouse.capture.errors import TraceFormatError
from xlahouse.capture.manifest import Manifest
from xlahouse.ingest.events.frames import Issue
from xlahouse.ingest.events.run_files import RunFiles, SourceFile


def card_problem(run: RunFiles) -> list[Issue]:
    """Why the workload card beside a run is none."""
    if not run.card_problem:
        return []
    return [Issue("warning", "card_unreadable", run.card_problem, run.name)]


def refusals(errors: list[TraceFormatError]) -> list[Issue]:
    """Files that cannot be read."""
    return [Issue("error", "unreadable_file", error.reason, error.path) for error in errors]


def replacements(run: RunFiles) -> list[Issue]:
    """Xplanes whose Chrome trace was read in their place."""
    advice = "the Chrome trace beside it is read instead, which tells less"
    return [
        Issue("warning", "xplane_replaced", f"{reason}; {advice}", path)
        for path, reason in run.replaced
    ]


def others(run: RunFiles) -> list[Issue]:
    """Traces of other kinds in the run's folders: what only they say is missing."""
    message = "which is not read; export an xplane or a Chrome trace (JSON) from its profiler"
    return [
        Issue("warning", "other_container", f"{what}, {message}", path) for path, what in run.others
    ]


def missing_ranks(ranks: Iterable[tuple[int, int] | None], source: str) -> list[Issue]:
    """The finding that a run lacks ranks. ranks: rank_of each of its files."""
    told = [pair for pair in ranks if pair is not None]
    found, count = {rank for rank, _ in told}, max((world for _, world in told), default=0)
    if not told or len(found) >= count:
        return []
    message = f"{len(found)} of {count} ranks are here; ingest the ranks' files in one call, with --run NAME"
    return [Issue("info", "one_rank", message, source, count - len(found))]


def missing_devices(row: dict[str, Any], source: str) -> list[Issue]:
    """Devices that take part but have no events: their side of each transfer is unknown."""
    traced, expected = row["device_count"], row["expected_device_count"] or 0
    if not traced or traced >= expected:
        return []
    message = (
        f"{traced} of {expected} devices are traced; ingest the files of all hosts in one call, "
        "with --run NAME, to see the whole run"
    )
    return [Issue("warning", "devices_missing", message, source, expected - traced)]


def missing_hosts(manifest: Manifest | None, found: list[str], source: str) -> list[Issue]:
    """Hosts that the capture ran on and that left no trace."""
    expected = manifest.host_count if manifest else 0
    if len(found) >= expected:
        return []
    message = (
        f"{len(found)} of {expected} hosts of the capture left a trace ({', '.join(found)}); bring the "
        "others' files into the capture's folder and ingest again"
    )
    return [Issue("warning", "hosts_missing", message, source, expected - len(found))]


def distinct(sources: list[SourceFile]) -> tuple[list[SourceFile], list[Issue]]:
    """(the files without those that have the bytes of one before them; the findings about these)."""
    first: dict[str, SourceFile] = {}
    copies = []
    for source in sources:
        known = first.setdefault(source.sha256 if source.bytes else source.path, source)
        if known is not source:
            message = f"the same bytes as {known.path}, which is read; this one is not"
            copies.append(Issue("warning", "duplicate_file", message, source.path))
    return list(first.values()), copies
