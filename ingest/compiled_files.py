"""Reads the files of a compiled run: compiled.json, and the HloProto of each program."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from xlahouse.capture.compiled_facts import COMPILED_DIR, FACTS, HLO, PROGRAMS, CompiledRun
from xlahouse.capture.decoding import JSON_FAULTS
from xlahouse.capture.errors import ManifestError, TraceFormatError
from xlahouse.ingest.compiled_run import Said
from xlahouse.ingest.events.files import read_small
from xlahouse.ingest.events.run_files import RunFiles
from xlahouse.ingest.events.trace_bytes import SourceFile, open_trace
from xlahouse.ingest.hlo.file_events import FileEvents
from xlahouse.ingest.hlo.program import parse_program


@dataclass(frozen=True)
class CompiledFolder:
    """A folder compiled_<timestamp>, by paths."""

    folder: str  # the folder itself
    facts: str  # compiled.json, written last: without it the folder is not finished
    programs: tuple[str, ...]  # <phase>.hlo.pb
    manifest: str  # its place, beside the folder


FORMAT = "compiled"  # FileEvents.format, and runs.source


def compiled_runs(files: Sequence[str]) -> list[CompiledFolder]:
    """The compiled runs among files, by folder."""
    found = []
    for facts in files:
        folder, _, name = facts.rpartition("/")
        parent, _, last = folder.rpartition("/")
        match = COMPILED_DIR.match(last)
        if name != FACTS or match is None:
            continue
        programs = tuple(f"{folder}/{phase}{HLO}" for phase in PROGRAMS)
        own = tuple(path for path in programs if path in files)
        manifest = f"{parent}/metadata_{match['timestamp']}.json"
        found.append(CompiledFolder(folder, facts, own, manifest))
    return found


def read_compiled(
    run: RunFiles, sources: Sequence[SourceFile]
) -> tuple[list[FileEvents], list[TraceFormatError], Said]:
    """(programs that could be read, an error for each other file, what the compiler said).

    All programs are of one file: they share their devices, and have no clock. Two programs may have one
    id, as each was compiled alone: they are numbered by their contents.

    Raises:
        ManifestError: compiled.json cannot be read.
    """
    said = _facts(run.compiled_path or "")
    read = FileEvents(path=run.name, host="", format=FORMAT)
    refused: list[TraceFormatError] = []
    phases: dict[int, str] = {}
    for source in sources:
        phase = source.path.rpartition("/")[2].removesuffix(HLO)
        raw = bytes(open_trace(source, by_parts=False))
        number = int.from_bytes(hashlib.sha256(phase.encode() + raw).digest()[:8], "big")
        try:
            program = parse_program(raw, number, phase)
        except ValueError as error:
            refused.append(TraceFormatError(source.path, str(error)))
            continue
        if not program.by_id:
            refused.append(TraceFormatError(source.path, "it holds no program; compile again"))
            continue
        read.programs[number], phases[number] = program, phase
    if not sources:
        refused.append(
            TraceFormatError(run.compiled_path or "", "no program is beside it; compile again")
        )
    return [read] if read.programs else [], refused, Said(said, phases)


def _facts(path: str) -> CompiledRun:
    try:
        return msgspec.json.decode(read_small(path), type=CompiledRun)
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror or error}; compile again") from error
    except JSON_FAULTS as error:
        raise ManifestError(f"{path}: {error}; compile again, with this version") from error
