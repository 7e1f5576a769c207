"""What is said of the clocks of a run: their names, their rows, and findings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from xlahouse.capture.errors import ManifestError
from xlahouse.ingest.clocks.clocks import AMBIGUOUS, UNCONNECTED, Clock
from xlahouse.ingest.events.codes_of_devices import CLOCKS_AMBIGUOUS, CLOCKS_UNCONNECTED
from xlahouse.ingest.events.issues import Issue
from xlahouse.ingest.hlo.file_events import FileEvents
from xlahouse.ingest.tables.worlds import World

_ENDING = re.compile(r"\.xplane\.pb$|(?:\.pt)?(?:\.trace)?\.json(?:\.gz)?$")


def clock_names(files: Sequence[FileEvents]) -> dict[str, str]:
    """Path -> name of the file's clock: its host where no other file is of it, else the file's stem, else
    the path."""
    hosts = Counter(file.host for file in files)
    stems = Counter(_stem(file.path) for file in files)
    names = {}
    for file in files:
        stem = _stem(file.path)
        known = file.host if file.host and hosts[file.host] == 1 else None
        names[file.path] = known or (stem if stems[stem] == 1 else file.path)
    return names


def _stem(path: str) -> str:
    return _ENDING.sub("", PurePosixPath(path).name)


def offsets_by_file(
    world: World, names: Mapping[str, str], given: Mapping[str, int]
) -> dict[int, int]:
    """The offsets that the user states, by a file's place in its world."""
    return {
        number: given[names[file.path]]
        for number, file in enumerate(world.files)
        if names[file.path] in given
    }


def check_names(names: Mapping[str, str], given: Mapping[str, int]) -> None:
    """Refuse an offset of a clock that the run lacks.

    Raises:
        ManifestError: names the clocks that it has.
    """
    unknown = sorted(set(given) - set(names.values()))
    if unknown:
        known = ", ".join(sorted(names.values()))
        raise ManifestError(f"--clock {unknown[0]}: the run has no such clock; it has {known}")


def clock_rows(
    world: World, clocks: Sequence[Clock], names: Mapping[str, str]
) -> list[dict[str, object]]:
    """Rows of the table `clocks`, without run_id."""
    of_file = [names[file.path] for file in world.files]
    return [
        {
            "clock": of_file[clock.file],
            "host": world.files[clock.file].host,
            "world": world.number,
            "reference": of_file[clock.component],
            "clock_offset_ps": -clock.move.later_ps,
            "drift_ppm": clock.move.drift * 1e6,
            "spread_ps": clock.spread_ps,
            "pairs": clock.pairs,
            "evidence": clock.evidence,
            "state": clock.state,
        }
        for clock in clocks
    ]


def clock_issues(
    world: World, clocks: Sequence[Clock], names: Mapping[str, str], source: str
) -> list[Issue]:
    """The findings that clocks cannot be compared."""
    codes = ((AMBIGUOUS, CLOCKS_AMBIGUOUS), (UNCONNECTED, CLOCKS_UNCONNECTED))
    found = []
    for state, code in codes:
        some = [names[world.files[clock.file].path] for clock in clocks if clock.state == state]
        if some:
            detail = f"{code.meaning} ({', '.join(some[:3])}{', …' if len(some) > 3 else ''})"
            found.append(code.found(source, len(some), detail))
    return found
