"""The files of a run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from xlahouse.capture.errors import TraceFormatError

# `<host>_<rank>`: one file per rank on one host, as torch_tpu names them.
_RANKED = re.compile(r"^(.+)_(\d{1,6})$")


def readable(name: str) -> str:
    """A file's name as text: bytes that are not UTF-8 are written `\\xff`."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class RunFiles:
    """The files of one run, and its manifest's place where it has one."""

    name: str  # of the run
    paths: tuple[str, ...]  # of its trace files
    manifest_path: str | None = None  # None without a manifest
    # xplane -> the Chrome trace that is read where the xplane cannot be
    spares: tuple[tuple[str, str], ...] = ()
    replaced: tuple[tuple[str, str], ...] = ()  # xplane that could not be read -> why
    card_path: str | None = None  # of the workload card beside the run
    card_problem: str = ""  # why no card is used
    others: tuple[tuple[str, str], ...] = ()  # trace of a kind that is not read -> its type
    # how the names of files begin while an archive is unpacked -> how they begin for the user
    unpacked: tuple[tuple[str, str], ...] = ()
    compiled_path: str | None = None  # compiled.json of programs that did not run

    def own_name(self, stated: str | None) -> str:
        """The run's name. stated: by its manifest, which a compiled run may share with its capture."""
        if stated is None:
            return self.name
        return stated if self.compiled_path is None else f"{stated}.compiled"

    def shown(self, text: str) -> str:
        """A text with the names that the user knows."""
        for here, own in self.unpacked:
            text = text.replace(here, own)
        return readable(text)

    def instead_of(self, refused: Iterable[TraceFormatError]) -> RunFiles | None:
        """The run with spares for refused files; None where no refused file has a spare."""
        spares = dict(self.spares)
        said = {error.path: error.reason for error in refused}
        reasons = {path: said[readable(path)] for path in spares if readable(path) in said}
        if not reasons:
            return None
        paths = tuple(spares[path] if path in reasons else path for path in self.paths)
        return replace(
            self, paths=paths, spares=(), replaced=(*self.replaced, *sorted(reasons.items()))
        )


@dataclass(frozen=True)
class RankInName:
    """What the name of a file states about its process."""

    host: str  # name of the host
    first_number: int  # of its devices, where their planes do not state it


def ranks_of_stems(stems: Mapping[str, str]) -> tuple[str, dict[str, int]] | None:
    """(host, path -> rank) of files that are one a rank; None where their names do not say so.

    Args:
        stems: path -> name without its ending. Several files, all in one folder, of one host and with
            the ranks from 0 on.
    """
    found = {path: _RANKED.match(stem) for path, stem in stems.items()}
    if len(found) < 2 or not all(found.values()) or len({p.rpartition("/")[0] for p in found}) > 1:
        return None
    hosts = {match[1] for match in found.values() if match}
    ranks = {path: int(match[2]) for path, match in found.items() if match}
    if len(hosts) > 1 or sorted(ranks.values()) != list(range(len(ranks))):
        return None
    return hosts.pop(), ranks
