"""The files of a run, and the identity of each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from xlahouse.capture.errors import TraceFormatError


@dataclass(frozen=True)
class RunFiles:
    """The files of one run, and its manifest's place where it has one.

    spares: Chrome traces that say less of what an xplane says, by the xplane's path: read where that
    cannot be. replaced: such xplanes, by path, and why they could not be. card_path: the workload card
    beside it; card_problem: why it has no card. others: traces in its folders that are of kinds that are not
    read, by path, and what they are.
    """

    name: str
    paths: tuple[str, ...]
    manifest_path: str | None = None
    spares: tuple[tuple[str, str], ...] = ()
    replaced: tuple[tuple[str, str], ...] = ()
    card_path: str | None = None
    card_problem: str = ""
    others: tuple[tuple[str, str], ...] = ()

    def instead_of(self, refused: Iterable[TraceFormatError]) -> RunFiles | None:
        """The run with spares for files that were refused; None where there is no spare for any."""
        spares = dict(self.spares)
        reasons = {error.path: error.reason for error in refused if error.path in spares}
        if not reasons:
            return None
        paths = tuple(spares[path] if path in reasons else path for path in self.paths)
        return replace(
            self, paths=paths, spares=(), replaced=(*self.replaced, *sorted(reasons.items()))
        )


@dataclass(frozen=True)
class SourceFile:
    """A file's identity."""

    path: str
    bytes: int
    sha256: str
