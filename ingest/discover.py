"""Finds the runs under a path that a user gives: the files of each run, and its manifest."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, replace

import fsspec
from fsspec.implementations.local import LocalFileSystem

from xlahouse.capture.errors import ManifestError, XlahouseError
from xlahouse.capture.manifest import TRACE_DIR, Manifest, decode_manifest
from xlahouse.ingest.card_files import CardFolder, card_folders, folder_of
from xlahouse.ingest.chrome.files import JSON, SNIFFED, host_of, is_chrome, is_copy, named_trace
from xlahouse.ingest.compiled_files import CompiledFolder, compiled_runs
from xlahouse.ingest.events.containers import unpacked_start
from xlahouse.ingest.events.files import is_local, open_fs, open_on, read_small
from xlahouse.ingest.events.misread import is_xplane, under_another_name, what_it_is
from xlahouse.ingest.events.run_files import RunFiles, ranks_of_stems, readable
from xlahouse.ingest.events.trace_bytes import SourceFile
from xlahouse.ingest.formats import XPLANE, XPLANES, xplane_stem
from xlahouse.ingest.other_containers import not_read, other_container, refuse_others

_EXAMINED = 50  # files of a folder without traces that are opened, to say what they are


class NoTraceError(XlahouseError):
    """A folder has no trace."""


@dataclass(frozen=True)
class Found:
    """The runs under a path, and a line for each file or folder that could not be read."""

    runs: list[RunFiles]  # in the order of their paths
    problems: list[str]  # a line each


def find_runs(path: str) -> Found:
    """The runs under a path or URL.

    A `trace_<timestamp>.trace` folder is one run, whatever sessions lie in it; so is a folder with a
    workload card, which gives the run its name; so is a `plugins/profile/<session>` folder, and a
    `compiled_<timestamp>` folder with a compiled.json. A trace file anywhere else is a run of its own. A
    Chrome trace beside an xplane of the same host is its spare.

    Raises:
        XlahouseError: there is no such path, or no trace under it that can be read.
    """
    fs, root = open_fs(path)
    if not fs.exists(root):
        raise XlahouseError(f"{path}: no such file or folder")
    problems: list[str] = []
    files = _files_under(fs, root, problems) if fs.isdir(root) else [root]
    odd = [file for file in files if (XPLANE in file or JSON.search(file)) and not fs.isfile(file)]
    problems += [f"{file}: not a regular file; it is left out" for file in odd]
    files = [file for file in files if file not in odd]
    xplanes = [file for file in files if file.endswith(XPLANES)]
    chrome = _chrome_traces(fs, files, problems, alone=files == [root])
    compiled = compiled_runs(files)
    if compiled and not xplanes and not chrome:
        return Found([_compiled(fs, each) for each in compiled], problems)
    if not xplanes and not chrome:
        refuse_others(files)
        _refuse_misnamed(fs, files, alone=files == [root])
    if files == [root] and not xplanes and not chrome:
        raise XlahouseError(
            f"{path}: neither an {XPLANE} file nor a Chrome trace; give one, or a folder of them"
        )
    if not xplanes and not chrome and not problems:
        raise NoTraceError(
            f"{path}: no {XPLANE} files and no Chrome traces; give a profiler's log folder"
        )
    spares = _spares(xplanes, chrome)
    cards = card_folders(fs, _beside(fs, root) if files == [root] else files)
    groups: dict[str, list[str]] = {}
    for file in sorted([*xplanes, *(file for file in chrome if file not in spares.values())]):
        groups.setdefault(_run_key(file, cards), []).append(file)
    runs = [_run(fs, key, tuple(group), spares, cards) for key, group in groups.items()]
    runs += [_compiled(fs, each) for each in compiled]
    return Found(_with_others(fs, runs, files, problems), problems)


def _refuse_misnamed(fs: fsspec.AbstractFileSystem, files: list[str], alone: bool) -> None:
    """Say what the files are where none has a trace's name.

    Raises:
        XlahouseError: one is a trace under another name, or a compiled program; or the only file that the
            user named is known to be no trace.
    """
    for file in files[:_EXAMINED]:
        try:
            with open_on(fs, file) as opened:
                head = opened.read(SNIFFED)
        except OSError:
            continue
        said = what_it_is(head, "chrome") if alone else under_another_name(head)
        if said is None and not alone and is_chrome(head):
            said = "it is a Chrome trace; rename it to end in .trace.json"
        if said is not None:
            raise XlahouseError(f"{file}: {said}")


def _with_others(
    fs: fsspec.AbstractFileSystem, runs: list[RunFiles], files: list[str], problems: list[str]
) -> list[RunFiles]:
    """Runs with the unread traces beside their files; unread traces beside no run are problems."""
    others = {_unstripped(fs, f): what for f in files if (what := other_container(f)) is not None}
    if not others:
        return runs
    found, told = [], set()
    for run in runs:
        folders = {path.rpartition("/")[0] for path in run.paths}
        beside = tuple(o for o in others.items() if o[0].rpartition("/")[0] in folders)
        told |= {path for path, _ in beside}
        found.append(replace(run, others=beside))
    problems += [not_read(path, what) for path, what in others.items() if path not in told]
    return found


def _beside(fs: fsspec.AbstractFileSystem, file: str) -> list[str]:
    """Files in a file's folder; none where it cannot be listed."""
    try:
        return [str(path) for path in fs.ls(file.rpartition("/")[0], detail=False)]
    except OSError:
        return []


def _chrome_traces(
    fs: fsspec.AbstractFileSystem, files: list[str], problems: list[str], alone: bool
) -> list[str]:
    """Chrome traces among files: by name, or by their first bytes where the name says no more than JSON.

    Args:
        fs: where the files are.
        files: all files.
        problems: receives a line for each that cannot be read.
        alone: whether the user named the file; it may then have any name.

    Raises:
        OSError: the file that the user named cannot be read.
    """
    found = []
    for file in files:
        if file.endswith(XPLANES) or not (alone or JSON.search(file)):
            continue
        if named_trace(file):
            found.append(file)
            continue
        try:
            with open_on(fs, file) as opened:
                head = opened.read(SNIFFED)
        except OSError as error:
            if alone:
                raise
            problems.append(_denied(error, file))
            continue
        # An xplane under a name of JSON is refused by its reader.
        if is_chrome(head) or is_xplane(unpacked_start(head, SNIFFED)):
            found.append(file)
    traces = [*found, *(file for file in files if file.endswith(XPLANES))]
    return [file for file in found if not is_copy(file, traces)]


def _spares(xplanes: list[str], chrome: list[str]) -> dict[str, str]:
    """xplane -> the Chrome trace of the same host in its folder."""
    by_host = {(file.rpartition("/")[0], host_of(file)): file for file in chrome}
    stems = {file: xplane_stem(file) for file in xplanes}
    keys = {file: (file.rpartition("/")[0], stem) for file, stem in stems.items()}
    return {file: by_host[key] for file, key in keys.items() if key in by_host}


def _files_under(fs: fsspec.AbstractFileSystem, root: str, problems: list[str]) -> list[str]:
    """Files below a folder, without hidden ones; folders that cannot be listed are problems."""
    if isinstance(fs, LocalFileSystem):
        found = []
        for folder, _, names in os.walk(
            root, onerror=lambda error: problems.append(_denied(error))
        ):
            found += [f"{folder}/{name}" for name in names]
    else:
        found = fs.find(root)
    return sorted(file for file in found if not _hidden(file.removeprefix(root)))


def _denied(error: OSError, file: str = "") -> str:
    return f"{error.filename or file}: {error.strerror or error}; it is left out"


def _hidden(path: str) -> bool:
    """Whether a name on the path begins with a dot: a capture that is still running is such a folder."""
    return any(part.startswith(".") for part in path.split("/"))


def _run_key(path: str, cards: dict[str, CardFolder]) -> str:
    """The folder or file that identifies the run of a trace file."""
    parts = path.split("/")
    for depth, part in enumerate(parts[:-1], start=1):
        if TRACE_DIR.match(part):
            return "/".join(parts[:depth])
    row = folder_of(path, cards)
    if row is not None:
        return row
    if len(parts) > 3 and parts[-4:-2] == ["plugins", "profile"]:
        return "/".join(parts[:-1])
    return path


def _run(
    fs: fsspec.AbstractFileSystem,
    key: str,
    members: tuple[str, ...],
    spares: dict[str, str],
    cards: dict[str, CardFolder],
) -> RunFiles:
    folder, _, last = key.rpartition("/")
    paths = tuple(_unstripped(fs, file) for file in members)
    match = TRACE_DIR.match(last)
    manifest = f"{folder}/metadata_{match['timestamp']}.json" if match else None
    if manifest is not None and not fs.exists(manifest):
        manifest = None
    card = cards.get(folder_of(members[0], cards) or "")
    ranked = ranks_of_stems({file: xplane_stem(file) for file in members})
    traced = host_of(ranked[0] if ranked is not None else xplane_stem(members[0]))
    own_name = card.name if card is not None else traced
    name = last if match else own_name
    return RunFiles(
        readable(name),
        paths,
        manifest and _unstripped(fs, manifest),
        tuple((_unstripped(fs, f), _unstripped(fs, spares[f])) for f in members if f in spares),
        card_path=_unstripped(fs, card.path) if card is not None and card.path else None,
        card_problem=card.problem if card is not None else "",
    )


def _compiled(fs: fsspec.AbstractFileSystem, found: CompiledFolder) -> RunFiles:
    """The run of programs that were compiled and did not run."""
    manifest = found.manifest if fs.exists(found.manifest) else None
    return RunFiles(
        readable(found.folder.rpartition("/")[2]),
        tuple(_unstripped(fs, path) for path in found.programs),
        manifest and _unstripped(fs, manifest),
        compiled_path=_unstripped(fs, found.facts),
    )


def _unstripped(fs: fsspec.AbstractFileSystem, path: str) -> str:
    return path if is_local(fs) else str(fs.unstrip_protocol(path))


def read_manifest(run: RunFiles) -> tuple[Manifest | None, bytes]:
    """(manifest, its bytes); (None, b"") where the run has none.

    Raises:
        ManifestError: it is not valid.
    """
    if run.manifest_path is None:
        return None, b""
    raw = _manifest_bytes(run.manifest_path)
    try:
        return decode_manifest(raw, run.manifest_path), raw
    except UnicodeDecodeError as error:
        raise ManifestError(f"{run.manifest_path}: not text: {error}") from error


def _manifest_bytes(path: str) -> bytes:
    try:
        return read_small(path)
    except OSError as error:
        raise ManifestError(
            f"{path}: {error.strerror or error}; correct the manifest, or move it away"
        ) from error


def run_id_of(sources: list[SourceFile], manifest: bytes) -> str:
    """12 hex digits of a hash of the run's contents, wherever its files are."""
    digest = hashlib.sha256(manifest)
    for sha256 in sorted(source.sha256 for source in sources):
        digest.update(sha256.encode())
    return digest.hexdigest()[:12]
