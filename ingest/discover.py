"""Finds the runs in what a user points at: which files belong together, and their manifest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass

import fsspec
from fsspec.implementations.local import LocalFileSystem

from xlahouse.capture.errors import ManifestError, XlahouseError
from xlahouse.capture.manifest import TRACE_DIR, Manifest, decode_manifest
from xlahouse.ingest.files import open_fs

XPLANE = ".xplane.pb"
CHROME = (".trace.json.gz", ".trace.json")
_CHUNK = 1 << 22


@dataclass(frozen=True)
class RunFiles:
    """The files of one run, and its manifest's place where it has one."""

    name: str
    paths: tuple[str, ...]
    manifest_path: str | None = None


@dataclass(frozen=True)
class Source:
    """A file's identity."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Found:
    """The runs under a path, and what could not be looked at."""

    runs: list[RunFiles]
    problems: list[str]


def find_runs(path: str) -> Found:
    """The runs under a path or URL.

    A `trace_<timestamp>.trace` folder is one run, whatever sessions lie in it; so is a
    `plugins/profile/<session>` folder. An xplane file anywhere else is a run of its own.

    Raises:
        XlahouseError: nothing is there, or nothing that can be read.
    """
    fs, root = open_fs(path)
    if not fs.exists(root):
        raise XlahouseError(f"{path}: no such file or folder")
    problems: list[str] = []
    files = _files_under(fs, root, problems) if fs.isdir(root) else [root]
    traces = [file for file in files if file.endswith(XPLANE) or file == root]
    odd = [file for file in traces if not fs.isfile(file)]
    problems += [f"{file}: not a regular file; it is left out" for file in odd]
    traces = [file for file in traces if file not in odd]
    if traces == [root] and not root.endswith(XPLANE):
        raise XlahouseError(f"{path}: not an {XPLANE} file; point at one or at a folder of them")
    if not traces and not problems:
        chrome = sum(file.endswith(CHROME) for file in files)
        found = f"{chrome} Chrome traces, which are not read yet, but " if chrome else ""
        raise XlahouseError(f"{path}: {found}no {XPLANE} files; point at a profiler's log folder")
    groups: dict[str, list[str]] = {}
    for file in traces:
        groups.setdefault(_run_key(file), []).append(file)
    return Found([_run(fs, key, tuple(group)) for key, group in groups.items()], problems)


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


def _denied(error: OSError) -> str:
    return f"{error.filename}: {error.strerror}; it is left out"


def _hidden(path: str) -> bool:
    """Whether a name on the path begins with a dot: a capture that is still running is such a folder."""
    return any(part.startswith(".") for part in path.split("/"))


def _run_key(path: str) -> str:
    """The folder or file that stands for the run that a trace file belongs to."""
    parts = path.split("/")
    for depth, part in enumerate(parts[:-1], start=1):
        if TRACE_DIR.match(part):
            return "/".join(parts[:depth])
    if len(parts) > 3 and parts[-4:-2] == ["plugins", "profile"]:
        return "/".join(parts[:-1])
    return path


def _run(fs: fsspec.AbstractFileSystem, key: str, members: tuple[str, ...]) -> RunFiles:
    folder, _, last = key.rpartition("/")
    paths = tuple(fs.unstrip_protocol(file).removeprefix("file://") for file in members)
    match = TRACE_DIR.match(last)
    manifest = f"{folder}/metadata_{match['timestamp']}.json" if match else None
    if manifest is None or not fs.exists(manifest):
        name = members[0].rpartition("/")[2].removesuffix(XPLANE)
        return RunFiles(name if match is None else last, paths)
    return RunFiles(last, paths, fs.unstrip_protocol(manifest).removeprefix("file://"))


def read_manifest(run: RunFiles) -> tuple[Manifest | None, bytes]:
    """(manifest, its bytes); (None, b"") where the run has none.

    Raises:
        ManifestError: it is not valid.
    """
    if run.manifest_path is None:
        return None, b""
    with fsspec.open(run.manifest_path, "rb") as file:
        raw = file.read()
    try:
        return decode_manifest(raw, run.manifest_path), raw
    except UnicodeDecodeError as error:
        raise ManifestError(f"{run.manifest_path}: not text: {error}") from error


def identify(paths: Iterable[str]) -> list[Source]:
    """Size and SHA-256 of each file."""
    sources = []
    for path in paths:
        digest, size = hashlib.sha256(), 0
        with fsspec.open(path, "rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                size += len(chunk)
        sources.append(Source(path, size, digest.hexdigest()))
    return sources


def run_id_of(sources: list[Source], manifest: bytes) -> str:
    """12 hex digits that stand for the contents of the run, wherever its files lie."""
    digest = hashlib.sha256(manifest)
    for sha256 in sorted(source.sha256 for source in sources):
        digest.update(sha256.encode())
    return digest.hexdigest()[:12]
