"""HLO that a compiler dumped beside a trace: found, matched to the run's programs, and read."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

import fsspec

from xlahouse.capture.errors import XlahouseError
from xlahouse.capture.limits import exceeded, most
from xlahouse.ingest.events.codes_of_files import LIMIT_EXCEEDED
from xlahouse.ingest.events.codes_of_programs import (
    DAMAGED_HLO,
    HLO_DUMP_AMBIGUOUS,
    HLO_DUMP_UNUSED,
)
from xlahouse.ingest.events.files import is_local, open_fs, open_on
from xlahouse.ingest.events.issues import Issue
from xlahouse.ingest.hlo.file_events import FileEvents
from xlahouse.ingest.hlo.module_text import is_module_text, read_module_text
from xlahouse.ingest.hlo.names import launched_modules, missing_hlo
from xlahouse.ingest.hlo.program import FINGERPRINT, Program, parse_program
from xlahouse.ingest.hlo.same_name import choose
from xlahouse.ingest.hlo.shared_programs import lend
from xlahouse.ingest.hlo.unnumbered import is_stand_in, settle, stand_ins

# The best first: a proto states the device assignment, text does not.
_DUMP_SUFFIXES = (".hlo_proto.pb", ".hlo.pb", ".txt", ".hlo")
_MODULE_LINE = re.compile(rb"HloModule ([^\s,]+)")
# A module's own name may hold `before_`, as `jit_before_step`; the compiler adds its marks after a dot.
_OTHER_STAGE = re.compile(r"(?:\.|optimizations_)before_|\.after_(?!optimizations)|\.\d{4}\.")
_MODULE_NUMBER = re.compile(r"module_\d+")
_LARGEST_HEAD = 1 << 16
_SHOWN = 5  # names in a message


@dataclass(frozen=True)
class Dump:
    """A file that holds a module's HLO."""

    path: str  # of the file
    compilation: str  # shared by the files of one compilation
    rank: tuple[int, int]  # of the files of one compilation, the one with the lowest rank is read
    program_id: int | None = None  # where the file's name states it


def list_dumps(folder: str, below: bool = True) -> list[Dump]:
    """Files of optimized HLO in a folder and below it; files of other compiler stages are skipped.

    Args:
        folder: a folder, a file, or the URL of one.
        below: whether to look in the folder's own folders too.

    Raises:
        XlahouseError: there is no such folder or file.
    """
    fs, root = open_fs(folder)
    if not fs.exists(root):
        raise XlahouseError(f"{folder}: no such file or folder")
    files = sorted(fs.find(root, maxdepth=None if below else 1)) if fs.isdir(root) else [root]
    found = [dump for file in files if (dump := _dump(_named(fs, file))) is not None]
    if len(found) > most("dump_files"):
        raise XlahouseError(f"{folder}: {exceeded('dump_files')}")
    return found


def _named(fs: fsspec.AbstractFileSystem, path: str) -> str:
    """A file's URL, or its path on this machine."""
    return path if is_local(fs) else str(fs.unstrip_protocol(path))


def _dump(path: str) -> Dump | None:
    name = path.rpartition("/")[2]
    kind = next((n for n, suffix in enumerate(_DUMP_SUFFIXES) if name.endswith(suffix)), None)
    if kind is None or _OTHER_STAGE.search(name):
        return None
    stem = name.removesuffix(_DUMP_SUFFIXES[kind])
    number, fingerprint = _MODULE_NUMBER.search(stem), FINGERPRINT.search(stem)
    stage = (
        0 if stem.endswith("after_optimizations") or _DUMP_SUFFIXES[kind] == ".hlo_proto.pb" else 1
    )
    return Dump(
        path,
        number[0] if number else stem,
        (stage, kind),
        int(fingerprint[1]) if fingerprint else None,
    )


def fingerprint_of(dumps: list[Dump]) -> str:
    """12 hex digits that change when a dump is added, removed or rewritten."""
    digest = hashlib.sha256()
    for dump in dumps:
        fs, path = open_fs(dump.path)
        digest.update(
            f"{path.rpartition('/')[2]} {fs.checksum(path)}\n".encode(errors="surrogateescape")
        )
    return digest.hexdigest()[:12]


def match_dumps(
    dumps: list[Dump], needed: dict[int, str], source: str, known: dict[int, Program]
) -> tuple[list[Program], list[Issue]]:
    """Programs of a run that dumps hold.

    By the program id in the file's name, else by that in the proto, else by the module's name where
    only one of the dumps with that name can be the program's.

    Args:
        dumps: the files.
        needed: module name of each program id that is wanted.
        source: the run, for issues.
        known: programs in the trace, with HLO or with the names of their ops alone.
    """
    found: dict[int, Program] = {}
    issues: list[Issue] = []
    by_name: dict[str, list[Program]] = {}
    for dump in _best(dumps):
        program = _read(dump, set(needed.values()), issues)
        if program is None:
            continue
        own = dump.program_id if dump.program_id is not None else program.program_id
        if own in needed and (dump.program_id is not None or needed[own] == program.module):
            found[own] = replace(program, program_id=own)
        elif dump.program_id is None:
            by_name.setdefault(program.module, []).append(program)
    for name, programs in by_name.items():
        wanting = [number for number, module in needed.items() if module == name]
        wanting = [number for number in wanting if number not in found]
        of_name = {number: each for number, each in known.items() if each.module == name}
        chosen = choose(programs, wanting, of_name)
        found |= {number: replace(each, program_id=number) for number, each in chosen.items()}
        if missed := len(wanting) - len(chosen):
            detail = (
                f"{len(programs)} dumps have the name {name}, and neither an id nor the names and shapes "
                f"of ops single one out for {missed} programs that ran"
            )
            issues.append(HLO_DUMP_AMBIGUOUS.found(source, missed, detail))
    return list(found.values()), issues


def _best(dumps: list[Dump]) -> list[Dump]:
    """One file a compilation."""
    best: dict[tuple[str, str], Dump] = {}
    for dump in dumps:
        key = (dump.path.rpartition("/")[0], dump.compilation)
        if key not in best or dump.rank < best[key].rank:
            best[key] = dump
    return list(best.values())


def _read(dump: Dump, names: set[str], issues: list[Issue]) -> Program | None:
    """The program in a dump; None where it is not wanted or cannot be read."""
    fs, path = open_fs(dump.path)
    try:
        with open_on(fs, path) as file:
            head = file.read(_LARGEST_HEAD)
        named = _MODULE_LINE.match(head.lstrip())
        if named is None and dump.path.endswith((".txt", ".hlo")):
            return None  # compilers dump other texts too
        called = None if named is None else named[1].decode("utf-8", "replace")
        if called is not None and called not in names and dump.program_id is None:
            return None
        if fs.size(path) > most("dump_bytes"):
            detail = f"{dump.path}: {exceeded('dump_bytes')}"
            issues.append(LIMIT_EXCEEDED.found(dump.path, detail=detail))
            return None
        return _parse(dump, fs.cat_file(path), issues)
    except (OSError, ValueError) as error:
        issues.append(DAMAGED_HLO.found(dump.path, detail=f"{dump.path}: {error}"))
        return None


def _parse(dump: Dump, raw: bytes, issues: list[Issue]) -> Program:
    if not is_module_text(raw):
        return parse_program(raw, None, dump.path.rpartition("/")[2])
    read = read_module_text(raw.decode("utf-8", "replace"), None, dump.path)
    issues += read.issues(dump.path)
    return read.program


def beside(files: list[FileEvents]) -> list[Dump]:
    """Dumps in the folders of these files."""
    folders = dict.fromkeys(file.folder or "." for file in files)
    return [dump for folder in folders for dump in list_dumps(folder, below=False)]


def attach(files: list[FileEvents], dumps: list[Dump], source: str) -> list[Issue]:
    """Add to the files of a run the programs that their traces lack and dumps hold.

    Args:
        files: those of the run; their `programs` are added to.
        dumps: where to look.
        source: the run, for issues.
    """
    issues: list[Issue] = []
    for file in files:
        needed = _needed(file)
        if not needed:
            continue
        programs, found = match_dumps(dumps, needed, source, file.programs)
        file.programs.update({program.program_id: program for program in programs})
        issues += found
    return issues


def _needed(file: FileEvents) -> dict[int, str]:
    """Module name of each program that ran and has no HLO, or only the names of its ops."""
    stood_in = {n: each.module for n, each in file.programs.items() if is_stand_in(each)}
    ran = launched_modules(file.planes) | stood_in
    return {
        number: module
        for number, module in ran.items()
        if number not in file.programs or file.programs[number].loose
    }


def _unknown(file: FileEvents) -> set[int]:
    """Programs without HLO: they ran, or a trace has the names of their ops."""
    return {*_needed(file), *(n for n, program in file.programs.items() if program.loose)}


def _unused(dumps: list[Dump], wanted: set[str], source: str) -> Issue:
    """The finding that the dumps a user gave belong to no program of the run."""
    if not dumps:
        ends = ", ".join(_DUMP_SUFFIXES)
        detail = f"--hlo-dump names no dump of optimized HLO, whose name ends in {ends}"
        return HLO_DUMP_UNUSED.found(source, detail=detail)
    names = ", ".join(sorted(wanted)[:_SHOWN]) + (", …" if len(wanted) > _SHOWN else "")
    detail = (
        f"of {len(dumps)} HLO dumps, by program id or else the module's name, none is of a program that ran "
        f"({names})"
    )
    return HLO_DUMP_UNUSED.found(source, len(dumps), detail)


def complete(files: list[FileEvents], dumps: list[Dump] | None, source: str) -> list[Issue]:
    """Add all HLO that is found to a run's files, and report programs without HLO.

    Args:
        files: those of the run; their `programs` are added to.
        dumps: files that the user named; None: look beside the traces.
        source: the run, for issues.
    """
    lend(files)
    stood_in = [stand_ins(file) for file in files]
    for file, programs in zip(files, stood_in, strict=True):
        file.programs.update(programs)
    issues = _completed(files, dumps, source)
    for file, programs in zip(files, stood_in, strict=True):
        settle(file, programs)
    return issues


def _completed(files: list[FileEvents], dumps: list[Dump] | None, source: str) -> list[Issue]:
    lacking = [(file, needed) for file in files if (needed := _needed(file))]
    if not lacking:
        return []
    found = beside([file for file, _ in lacking]) if dumps is None else dumps
    issues = attach([file for file, _ in lacking], found, source)
    if dumps is not None and not issues and all(_needed(file) == was for file, was in lacking):
        wanted = {module for _, needed in lacking for module in needed.values()}
        issues.append(_unused(dumps, wanted, source))
    return issues + missing_hlo(sum(len(_unknown(file)) for file in files), source)
