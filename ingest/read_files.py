"""Reads the files of a run, each by itself."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from xlahouse.capture.errors import TraceFormatError
from xlahouse.ingest.events.run_files import RankInName, readable
from xlahouse.ingest.events.trace_bytes import (
    FilePart,
    SourceFile,
    TraceFile,
    identify,
    open_trace,
)
from xlahouse.ingest.formats import XPLANE, read_trace
from xlahouse.ingest.hlo.file_events import FileEvents
from xlahouse.ingest.rank_files import ranks_in_names
from xlahouse.ingest.spread.parts import RunPart, Spread

NO_RANKS: dict[str, RankInName] = {}


def identified(paths: Sequence[str], spread: Spread) -> list[SourceFile]:
    """Size and SHA-256 of each file or URL.

    Raises:
        TraceChangedError: one is written to meanwhile.
    """
    parts = [RunPart(path, (path,)) for path in paths]
    return list(spread.each(_identify, None, parts, in_turn=True))


def _identify(_: None, path: str) -> SourceFile:
    return identify(path)


def check_files(files: Sequence[TraceFile], spread: Spread) -> None:
    """Make sure that all that was read is what was hashed.

    Raises:
        TraceChangedError: a file is not as it was when it was hashed.
        OSError: a piece of it could not be read.
    """
    parts = [RunPart(file.source.path, (file,)) for file in files]
    deque(spread.each(_check, None, parts, in_turn=True), maxlen=0)


def _check(_: None, file: TraceFile) -> None:
    file.check()


def read_files(
    sources: list[SourceFile], spread: Spread, ranks: Mapping[str, RankInName] = NO_RANKS
) -> tuple[list[FileEvents], list[TraceFormatError], list[TraceFile]]:
    """(files that could be read, an error for each other file, the files of which parts are read later).

    ranks: by path, as names of files state them.
    """
    files: list[FileEvents] = []
    refused: list[TraceFormatError] = []
    parted: list[TraceFile] = []
    last = None if spread.apart else sources[-1:]
    parts = [
        RunPart(source.path, (source, ranks.get(source.path), [source] == last), source.bytes)
        for source in sources
    ]
    for found, file in spread.each(_read_one, None, parts, in_turn=True):
        if isinstance(found, TraceFormatError):
            refused.append(found)
        else:
            files.append(found)
        parted += [file] if file is not None else []
    if not ranks and not refused and (named := ranks_in_names(files)):
        files, refused, again = read_files(sources, spread, named)
        parted += again
    return files, refused, parted


def _read_one(
    _: None, source: SourceFile, rank: RankInName | None, keep: bool
) -> tuple[FileEvents | TraceFormatError, TraceFile | None]:
    """(the file or its error, and it again if parts of it are read later).

    keep: whether what is decoded ahead of its use is kept, as one file of a run at most may.
    """
    raw = open_trace(source, by_parts=source.path.endswith(XPLANE))
    file = raw.file if isinstance(raw, FilePart) else None
    try:
        read = read_trace(raw, readable(source.path), rank)
    except TraceFormatError as error:
        if file is not None:
            file.check()
        return error, file
    read.folder = source.path.rpartition("/")[0]
    if not keep:
        read.forget_decoded()
    return read, file
