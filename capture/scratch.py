"""Where temporary files lie: in a folder of the process; if that is killed, the next one removes it."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache

PREFIX = "xlahouse-"
_LOCK = "in-use"  # held for as long as the process lives: the system releases it, however that ends
_held: list[int] = []


def scratch_folder() -> str:
    """The folder for temporary files of this process, made at the first call.

    Raises:
        OSError: there is no place for temporary files.
    """
    return _made(os.getpid())  # a fork has a folder of its own


@cache
def _made(pid: int) -> str:
    remove_abandoned()
    folder = tempfile.mkdtemp(prefix=PREFIX)
    new = f"{folder}/{_LOCK}.new"
    number = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    _held.append(number)
    # No process finds the lock before it is held. On a file system without locks none finds it at all, and
    # the folder of a killed process stays.
    with suppress(OSError):
        fcntl.flock(number, fcntl.LOCK_EX)
        os.rename(new, f"{folder}/{_LOCK}")
    atexit.register(_remove, folder, pid)
    return folder


def _remove(folder: str, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned() -> None:
    """Remove the folders of this user's processes that were killed: their locks are held no more."""
    with suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with suppress(OSError):
                    _remove_if_abandoned(entry)


def _remove_if_abandoned(entry: os.DirEntry[str]) -> None:
    if not entry.is_dir(follow_symlinks=False):
        return
    if entry.stat(follow_symlinks=False).st_uid != os.getuid():
        return
    number = os.open(f"{entry.path}/{_LOCK}", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(entry.path, ignore_errors=True)
    finally:
        os.close(number)
