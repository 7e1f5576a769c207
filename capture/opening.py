"""Opens the files that users name: only regular files, as a pipe may never begin and a device never end."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

from xlahouse.capture.limits import exceeded, most

_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def check_regular(path: str | os.PathLike[str]) -> None:
    """Refuse what is not a regular file, for libraries that open files themselves.

    Raises:
        OSError: it is a folder, pipe, device or socket, or is not there.
    """
    _check(os.stat(path).st_mode, path)


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a local file to read its bytes.

    Raises:
        OSError: it cannot be opened, or is a folder, pipe, device or socket.
    """
    check_regular(path)  # opening some devices does something
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check(os.fstat(number).st_mode, path)  # it may have been replaced meanwhile
        return os.fdopen(number, "rb")
    except BaseException:
        os.close(number)
        raise


def read_regular(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a local file of text: a plan, card, manifest, setting, view or query.

    Raises:
        OSError: as open_regular; or it has more than `text_bytes`.
    """
    with open_regular(path) as file:
        return read_text_bytes(file, os.fspath(path))


def read_text_bytes(file: BinaryIO, path: str) -> bytes:
    """All bytes of an opened file of text.

    Raises:
        OSError: it has more than `text_bytes`.
    """
    raw = file.read(most("text_bytes") + 1)
    if len(raw) > most("text_bytes"):
        raise OSError(errno.EFBIG, exceeded("text_bytes"), path)
    return raw


def _check(mode: int, path: str | os.PathLike[str]) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    kind = next((name for is_kind, name in _KINDS if is_kind(mode)), "something else")
    raise OSError(errno.EINVAL, f"{kind}, not a regular file", os.fspath(path))
