"""Where exports, reports and results go: how files are named, and what may be written over.

A file is ours if it is still as we left it, which a record in the user's state folder says; a folder, if
it has our mark in it. Whatever else is there belongs to the user.
"""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from xlahouse.capture.errors import WarehouseError

MARK = ".xlahouse"
# Files that only we write, in folders of an xlahouse without the mark.
OWN_FILES = (MARK, "site.json", "dictionary.json", "comm_groups.json")
MARK_TEXT = "xlahouse wrote this folder, and may write over its files.\n"
MOST_RECORDED = 2000  # files; the oldest records go first
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def state_folder() -> Path:
    """Where what xlahouse remembers of a user is, by the XDG directories."""
    state = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "xlahouse"


@contextmanager
def writing_file(path: Path | None, force: bool = False, streams: bool = False) -> Iterator[None]:
    """Write a file within; refuse first where that would lose a file of the user's.

    None is stdout. streams: whether the writer can write into a pipe or a device; a file that is moved
    into its place would replace it.

    Raises:
        WarehouseError: the file is in a warehouse, is a folder, or is there and not ours and not forced;
            or it is a pipe or a device, and the writer takes none.
    """
    if streams and (path is None or is_stdout(path) or is_stream(path)):
        yield
        return
    if path is None or is_stream(path):
        raise WarehouseError(f"{path or 'stdout'} is a pipe or a device; name a file with -o")
    outside_warehouses(path)
    if path.is_file() and not force and _recorded().get(_key(path)) != _stamp(path):
        raise WarehouseError(
            f"{path} exists and is not as xlahouse left it; give --force to write over it, or another -o"
        )
    if path.is_dir():
        raise WarehouseError(f"{path} is a folder; name a file with -o")
    yield
    if path.is_file():
        _record(path)


@contextmanager
def writing_folder(path: Path, force: bool = False) -> Iterator[None]:
    """Write files into a folder within; refuse first where it holds files of the user's.

    Raises:
        WarehouseError: the folder is in a warehouse, is a file, or has no mark of ours and files that
            are not ours, and is not forced.
    """
    outside_warehouses(path)
    if path.exists() and not path.is_dir():
        raise WarehouseError(f"{path} is a file; name a folder with -o")
    names = set(os.listdir(path)) if path.is_dir() else set()
    foreign = not names & set(OWN_FILES) and not _all_ours(path, names)
    if foreign and not force:
        raise WarehouseError(
            f"{path} has files that xlahouse did not write; give --force to write into it, or another -o"
        )
    try:
        yield
    finally:
        # Where the user's files are, each writing has to be forced.
        if not foreign and path.is_dir() and os.listdir(path):
            (path / MARK).write_text(MARK_TEXT, "utf-8")


def outside_warehouses(path: Path) -> None:
    """Refuse a path in a warehouse.

    Raises:
        WarehouseError: it is in one.
    """
    whole = path.resolve()
    for folder in (whole, *whole.parents):
        if (folder / "warehouse.json").is_file():
            raise WarehouseError(
                f"{path} is in the warehouse {folder}, which has no place for other files; name a path "
                "outside it with -o"
            )


def _all_ours(folder: Path, names: set[str]) -> bool:
    """Whether everything in a folder is a file as we left it; so it is without any."""
    known = _recorded() if names else {}
    files = [folder / name for name in names]
    return all(file.is_file() and known.get(_key(file)) == _stamp(file) for file in files)


def is_stream(path: Path) -> bool:
    """Whether a path is a pipe, a device or a socket."""
    return path.exists() and not path.is_file() and not path.is_dir()


def is_stdout(path: Path) -> bool:
    """Whether a path such as /dev/stdout is another name of where stdout goes."""
    try:
        return path.samefile(f"/dev/fd/{sys.stdout.fileno()}")
    except (OSError, ValueError):  # no such file yet, or a stdout without a file
        return False


def open_stream(path: Path) -> TextIO:
    """Open a pipe or a device to write; a pipe without a reader would be waited for without end.

    Raises:
        WarehouseError: no process reads from it.
        OSError: it cannot be opened.
    """
    try:
        number = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise WarehouseError(
            f"{path}: no process reads from it; start its reader first, or name a file with -o"
        ) from error
    os.set_blocking(number, True)
    return open(number, "w", encoding="utf-8", newline="")


def _key(path: Path) -> str:
    return str(path.resolve())


def _stamp(path: Path) -> list[int]:
    found = path.stat()
    return [found.st_size, found.st_mtime_ns, found.st_ino]


def _recorded() -> dict[str, list[int]]:
    try:
        found = json.loads((state_folder() / "written.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _record(path: Path) -> None:
    """Remember a file; where that fails, the next writing needs --force, and no harm is done."""
    found = _recorded()
    found.pop(_key(path), None)
    found[_key(path)] = _stamp(path)
    latest = dict(list(found.items())[-MOST_RECORDED:])
    record = state_folder() / "written.json"
    beside = record.with_name(f".written.{os.getpid()}")
    with suppress(OSError):
        record.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(json.dumps(latest), "utf-8")
        os.replace(beside, record)


def file_stems(names: Mapping[str, str | None]) -> dict[str, str]:
    """run_id -> the start of its files' names: the run's name, with the start of its id where names clash.

    Args:
        names: run_id -> name, of all runs with files in one folder.
    """
    slugs = {
        run_id: _UNSAFE.sub("-", name or "").strip("-.")[:80] for run_id, name in names.items()
    }
    folded = [slug.lower() for slug in slugs.values()]  # some file systems ignore case
    return {
        run_id: slug if slug and folded.count(slug.lower()) == 1 else _with_id(slug, run_id)
        for run_id, slug in slugs.items()
    }


def _with_id(slug: str, run_id: str) -> str:
    return "-".join(part for part in (slug, _UNSAFE.sub("-", run_id)[:12]) if part)
