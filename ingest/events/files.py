"""Opens the file systems of folders and URLs, or explains why not; reads and writes whole files."""

from __future__ import annotations

import logging
import os
import re
import uuid
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import UTC
from typing import TYPE_CHECKING, BinaryIO

import fsspec

from xlahouse.capture.errors import WarehouseError, XlahouseError, one_line
from xlahouse.capture.opening import check_regular, open_regular, read_text_bytes

if TYPE_CHECKING:
    import pyarrow as pa

# URL scheme -> what pip installs; where a package is missing, fsspec names its own extras or classes.
PACKAGES = {
    "gs": "'xlahouse[gs]'",
    "gcs": "'xlahouse[gs]'",
    "s3": "'xlahouse[s3]'",
    "s3a": "'xlahouse[s3]'",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
    "http": "aiohttp requests",
    "https": "aiohttp requests",
}


# These packages log a traceback of an error before they raise it.
_LOUD = ("gcsfs", "s3fs", "adlfs")
_SILENT = logging.NullHandler()
_SYNCED_AT_ONCE = 8  # files


@contextmanager
def reaching(url: str) -> Iterator[None]:
    """Turn any error of a file system into a WarehouseError: each kind of store has its own errors.

    Raises:
        WarehouseError: it cannot be reached, and why.
    """
    try:
        yield
    except XlahouseError:
        raise
    except Exception as error:
        raise WarehouseError(
            f"{url} cannot be reached: {one_line(error)}; check that it exists, that the "
            "credentials for it are set, and that they grant access"
        ) from error


def open_fs(url: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """The fsspec file system of a path or URL, and the path on it.

    Raises:
        WarehouseError: the text is empty, or its kind of URL is unknown, cannot be reached, or needs
            a package that is not installed.
    """
    if not url:
        raise WarehouseError("the path is empty; give a folder or a URL")
    if not is_url(url):  # fsspec would take `a::b` for b within a file system a
        system = fsspec.filesystem("file")
        return system, system._strip_protocol(url)
    found = re.search(r"(\w[\w+.-]*)://", url.rpartition("::")[2])
    kind = found[1] if found else ""
    if kind:
        for name in _LOUD:
            logging.getLogger(name).addHandler(_SILENT)
    try:
        system, path = fsspec.url_to_fs(url)
    except ImportError as error:
        package = PACKAGES.get(kind)
        advice = f"pip install {package}" if package else f"{error}"
        raise WarehouseError(
            f"{url}: {kind}:// needs a package that is not installed: {advice}"
        ) from error
    except ValueError as error:
        raise WarehouseError(
            f"{url}: {kind}:// is not a known kind of URL; give a folder, or a URL such as "
            "gs://BUCKET/FOLDER or s3://BUCKET/FOLDER"
        ) from error
    except Exception as error:  # each kind of store has its own errors, mostly about credentials
        raise WarehouseError(f"{url} cannot be opened: {one_line(error)}") from error
    return system, path


def is_url(text: str) -> bool:
    """Whether a text names a place by URL; every other text is a path of this machine."""
    return "://" in text and not text.startswith("/")


def open_given(url: str) -> BinaryIO:
    """Open a file that a user names, or that lies among a user's files, to read its bytes.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
        WarehouseError: its kind of URL cannot be opened.
    """
    return open_on(*open_fs(url))


def open_on(system: fsspec.AbstractFileSystem, path: str) -> BinaryIO:
    """The same, by the file's path on a file system.

    Raises:
        OSError: it cannot be opened, or is not a regular file.
    """
    if is_local(system):
        return open_regular(path)
    opened: BinaryIO = system.open(path, "rb")
    return opened


def read_small(url: str) -> bytes:
    """All bytes of a card, manifest or setting.

    Raises:
        OSError: it cannot be opened, is not a regular file, or is too large for text.
        WarehouseError: its kind of URL cannot be opened.
    """
    with open_given(url) as file:
        return read_text_bytes(file, url)


def is_local(system: fsspec.AbstractFileSystem) -> bool:
    """Whether a file system's paths are those of this machine."""
    return "file" in (system.protocol if isinstance(system.protocol, tuple) else ())


def open_native(system: fsspec.AbstractFileSystem, path: str) -> pa.NativeFile:
    """A file that Arrow reads without Python: from disk, or from a copy of a remote file in memory.

    One of Arrow's threads may release the bytes after the interpreter has ended; if they were a
    Python object, the process would abort.

    Raises:
        OSError: the file cannot be read.
    """
    import pyarrow as pa

    if is_local(system):
        check_regular(path)
        return pa.OSFile(path)
    copy = pa.BufferOutputStream()
    copy.write(system.cat_file(path))
    return pa.BufferReader(copy.getvalue())


def read_parquet(system: fsspec.AbstractFileSystem, path: str) -> pa.Table:
    """All rows of a small Parquet file.

    Raises:
        OSError: the file cannot be read.
        pyarrow.ArrowException: it is not a Parquet file, or is damaged.
    """
    import pyarrow.parquet as pq

    with open_native(system, path) as file:
        return pq.ParquetFile(file).read()


def write_whole(system: fsspec.AbstractFileSystem, path: str, raw: bytes) -> None:
    """Write a file whole or not at all: object stores do so; elsewhere it is renamed into place, and is
    on the disk, its name with it, when this returns.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    folder = path.rpartition("/")[0] or "/"
    if not is_local(system):
        system.makedirs(folder, exist_ok=True)
        system.pipe_file(path, raw)
        return
    if not os.path.isdir(folder):
        os.makedirs(folder, exist_ok=True)
        _sync(os.path.dirname(folder))
    beside = f"{path}.{uuid.uuid4().hex}.tmp"
    try:
        with open(beside, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
        _sync(folder)
    except OSError:
        with suppress(OSError):
            system.rm_file(beside)
        raise


def sync_files(system: fsspec.AbstractFileSystem, paths: Collection[str]) -> None:
    """Have the disk hold files of this machine, their folders and the three folders above; object stores
    hold what they have taken.

    Raises:
        OSError: it cannot.
    """
    if not is_local(system) or not paths:
        return
    folders = {path.rsplit("/", up)[0] or "/" for path in paths for up in (1, 2, 3, 4)}
    with ThreadPoolExecutor(_SYNCED_AT_ONCE) as pool:  # together they take a tenth of the time
        list(pool.map(_sync, sorted(paths)))
        list(pool.map(_sync, sorted(folders)))


def sync_folder(system: fsspec.AbstractFileSystem, path: str) -> None:
    """Have the disk hold what was renamed, made and removed in a folder of this machine.

    Raises:
        OSError: it cannot.
    """
    if is_local(system):
        _sync(path)


def _sync(path: str) -> None:
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def stored_at(system: fsspec.AbstractFileSystem, path: str) -> float | None:
    """When a file was written by the clock of what stores it, UNIX seconds; None where it does not say.

    Raises:
        FileNotFoundError: it is not there.
    """
    system.invalidate_cache(path.rpartition("/")[0])
    try:
        time = system.modified(path)
    except (NotImplementedError, KeyError):
        return None
    return float((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp())
