"""The files of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from xlahouse.capture.errors import TraceFormatError


@dataclass(frozen=True)
class RunFiles:
    """The files of one run, and its manifest's place where it has one."""

    name: str
    paths: tuple[str, ...]
    manifest_path: str | None = None
    # xplane -> the Chrome trace that is read where the xplane cannot be
    spares: tuple[tuple[str, str], ...] = ()
    replaced: tuple[tuple[str, str], ...] = ()  # xplane that could not be read -> why
    card_path: str | None = None  # of the workload card beside the run
    card_problem: str = ""  # why no card is used
    others: tuple[tuple[str, str], ...] = ()  # trace of a kind that is not read -> its type
    # how the names of files begin while an archive is unpacked -> how they begin for the user
    unpacked: tuple[tuple[str, str], ...] = ()

    def shown(self, text: str) -> str:
        """A text with the names that the user knows."""
        for here, own in self.unpacked:
            text = text.replace(here, own)
        return text

    def instead_of(self, refused: Iterable[TraceFormatError]) -> RunFiles | None:
        """The run with spares for refused files; None where no refused file has a spare."""
        spares = dict(self.spares)
        reasons = {error.path: error.reason for error in refused if error.path in spares}
        if not reasons:
            return None
        paths = tuple(spares[path] if path in reasons else path for path in self.paths)
        return replace(
            self, paths=paths, spares=(), replaced=(*self.replaced, *sorted(reasons.items()))
        )
