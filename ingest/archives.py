"""Unpacks archives of profile folders (.zip, .tar, .tar.gz, .tgz) for the time of an ingest."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePosixPath
from tempfile import TemporaryDirectory
from typing import IO, TYPE_CHECKING

from fsspec.implementations.local import LocalFileSystem

from xlahouse.capture.errors import XlahouseError
from xlahouse.capture.limits import exceeded, most
from xlahouse.capture.opening import open_regular
from xlahouse.capture.scratch import scratch_folder
from xlahouse.ingest.events.containers import ANY_RATIO
from xlahouse.ingest.events.files import open_fs
from xlahouse.ingest.events.run_files import RunFiles

if TYPE_CHECKING:
    import tarfile

ARCHIVE = re.compile(r"\.(?:zip|tar|tar\.gz|tgz)$")
_BLOCK = 1 << 22
_DEEPEST = 3  # archives, one in another: a file can hold itself


@dataclass(frozen=True)
class Given:
    """A path to look for runs in."""

    path: str  # a file, a folder or a URL
    archive: str = ""  # that was unpacked into `path`
    # a folder or archive without a trace is an error; not where others of the same argument have one
    alone: bool = True

    def own(self, text: str) -> str:
        """A text with the name that the user gave."""
        return text.replace(self.path, self.archive) if self.archive else text

    def shown(self, run: RunFiles) -> RunFiles:
        """A run under the path, which knows the names that its files have in the archive."""
        if not self.archive:
            return run
        name = PurePosixPath(self.archive).name
        own = run.name if run.name != PurePosixPath(self.path).name else ARCHIVE.sub("", name)
        return replace(run, name=own, unpacked=((f"{self.path}/", f"{self.archive}/"),))


@contextmanager
def unpacked(paths: Iterable[str], problems: list[str]) -> Iterator[list[Given]]:
    """The paths, with each archive among them or in their folders as the folder that it holds.

    Args:
        paths: that the user gives.
        problems: receives a line for each archive that cannot be unpacked.
    """
    with _removed_when_asked_to_end(), TemporaryDirectory(dir=scratch_folder()) as folder:
        yield [each for path in paths for each in _given(path, folder, problems)]


@contextmanager
def _removed_when_asked_to_end() -> Iterator[None]:
    """SIGTERM ends as Ctrl-C does: else what was unpacked would fill the disk of temporary files."""
    ours = threading.current_thread() is threading.main_thread()
    ours = ours and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _given(path: str, folder: str, problems: list[str]) -> Iterator[Given]:
    fs, root = open_fs(path) if path else (None, "")
    if fs is None or not isinstance(fs, LocalFileSystem):
        yield Given(path)
        return
    if os.path.isfile(root) and ARCHIVE.search(root):
        yield from _unpacked(root, folder, problems, alone=True)
        return
    archives = [*_archives_under(root)]
    yield Given(path, alone=not archives)
    for archive in archives:
        yield from _unpacked(archive, folder, problems, alone=False)


def _archives_under(root: str) -> Iterator[str]:
    for folder, below, names in os.walk(root):
        below[:] = sorted(name for name in below if not name.startswith("."))
        yield from (
            f"{folder}/{name}"
            for name in sorted(names)
            if ARCHIVE.search(name)
            and not name.startswith(".")
            and os.path.isfile(f"{folder}/{name}")
        )


def _unpacked(archive: str, folder: str, problems: list[str], alone: bool) -> Iterator[Given]:
    into = f"{folder}/{len(os.listdir(folder))}"
    room = _room(os.path.getsize(archive))
    if _unpack(archive, into, archive, room, problems):
        _unpack_below(into, archive, folder, room, problems)
        yield Given(into, archive, alone)


@dataclass
class _Room:
    """How much more may be unpacked of an archive and those in it."""

    bytes: int  # that may still be unpacked
    limit: str  # that states the bytes
    files: int = field(default_factory=lambda: most("archive_files"))  # that may still be unpacked


def _room(size: int) -> _Room:
    """The room of an archive of a size: a small one may not fill the disk."""
    by_ratio = max(ANY_RATIO, most("unpacked_ratio") * size)
    if by_ratio < most("archive_bytes"):
        return _Room(by_ratio, "unpacked_ratio")
    return _Room(most("archive_bytes"), "archive_bytes")


def _unpack_below(
    into: str, own: str, folder: str, room: _Room, problems: list[str], depth: int = 1
) -> None:
    """Put the folder that it holds in the place of each archive below a folder.

    Args:
        into: the folder.
        own: its name for the user.
        folder: where an archive lies meanwhile.
        room: of the outermost archive.
        problems: receives a line for each that cannot be unpacked, which is left out.
        depth: archives that hold the folder, one in another.
    """
    for archive in [*_archives_under(into)]:
        shown = f"{own}{archive.removeprefix(into)}"
        if depth == _DEEPEST:
            problems.append(
                f"{shown}: an archive within {depth} archives; unpack it and give the folder"
            )
            continue
        packed = f"{folder}/packed{ARCHIVE.findall(archive)[0]}"
        os.rename(archive, packed)
        whole = _unpack(packed, archive, shown, room, problems)
        os.remove(packed)
        if whole:
            _unpack_below(archive, shown, folder, room, problems, depth + 1)
        else:
            shutil.rmtree(archive)


def _unpack(archive: str, into: str, own: str, room: _Room, problems: list[str]) -> bool:
    """Write the regular files of an archive into a new folder; whether it could be read to its end.

    Args:
        archive: where it lies.
        into: the folder.
        own: its name for the user.
        room: for what it holds.
        problems: receives a line for each member that cannot be unpacked, or for the archive.
    """
    os.mkdir(into)
    try:
        for member in _members(archive):
            problem = _write(member, into, own, room)
            if problem is not None:
                problems.append(f"{own}/{member.name}: {problem}; it is left out")
    except XlahouseError as error:
        problems.append(str(error))
        return False
    except Exception as error:  # damage can have any shape; it costs this archive alone
        problems.append(
            f"{own}: this archive is damaged, or cannot be unpacked here: {_said(error)}; "
            "unpack it and give the folder"
        )
        return False
    return True


def _said(error: Exception) -> str:
    """What an error says, without the temporary path of a file."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


@dataclass(frozen=True)
class _PackedFile:
    """A regular file of an archive."""

    name: str  # its path in the archive
    opened: Callable[[], IO[bytes]]  # opens its contents
    apart: bool  # damage within it leaves the files after it readable


def _write(member: _PackedFile, into: str, own: str, room: _Room) -> str | None:
    """Write a member of an archive below a folder; why it cannot be written.

    Raises:
        XlahouseError: the archive holds more than an ingest takes, or the file would lie outside the folder.
        Exception: the archive is damaged; zipfile and tarfile let any error of theirs through.
    """
    room.files -= 1
    if room.files < 0:
        raise XlahouseError(f"{own}: {exceeded('archive_files')}")
    target = PurePosixPath(member.name)
    if target.is_absolute() or ".." in target.parts or "\\" in member.name or "\0" in member.name:
        raise XlahouseError(
            f"{own}: {member.name!r} would lie outside its folder; unpack it yourself"
        )
    try:
        os.makedirs(f"{into}/{target.parent}", exist_ok=True)
        out = open(f"{into}/{target}", "wb")  # noqa: SIM115 (closed below)
    except (FileExistsError, IsADirectoryError, NotADirectoryError):
        return "the archive has a file and a folder of this name"
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return "the name is too long for a file here"
    with out:
        try:
            _copy(member, out, own, room)
        except (XlahouseError, OSError):
            raise
        except Exception as error:
            if not member.apart:
                raise
            os.remove(out.name)
            return f"damaged: {_said(error)}"
    return None


def _copy(member: _PackedFile, out: IO[bytes], own: str, room: _Room) -> None:
    with member.opened() as file:
        # One byte more than there is room for shows that there is too much; then no more is read.
        while block := file.read(max(1, min(_BLOCK, room.bytes + 1))):
            room.bytes -= len(block)
            if room.bytes < 0:
                raise XlahouseError(f"{own}: {exceeded(room.limit)}")
            out.write(block)


def _members(archive: str) -> Iterator[_PackedFile]:
    """The regular files of an archive, without hidden ones."""
    import tarfile  # most ingests read no archive, and do not wait for these
    import zipfile

    if archive.endswith(".zip"):
        with open_regular(archive) as raw, zipfile.ZipFile(raw) as packed:
            for info in packed.infolist():
                if not info.is_dir() and not _hidden(info.filename):
                    yield _PackedFile(info.filename, partial(packed.open, info), apart=True)
        return
    with open_regular(archive) as raw, tarfile.open(fileobj=raw, mode="r:*") as tar:
        for member in tar:
            if member.isreg() and not _hidden(member.name):
                file = tar.extractfile(member)
                if file is not None:
                    name = member.name.removeprefix("./")
                    yield _PackedFile(name, partial(_as_it_is, file), apart=False)
        _check_end(tar)


def _as_it_is(file: IO[bytes]) -> IO[bytes]:
    return file


def _check_end(tar: tarfile.TarFile) -> None:
    """Refuse a tar that ends elsewhere than at its mark, a block of zeros: tarfile takes a damaged header
    after the first member for the end, and drops all members from there on.

    Raises:
        tarfile.ReadError: it is such a tar.
    """
    from tarfile import BLOCKSIZE, ReadError

    if tar.fileobj is None:
        return
    tar.fileobj.seek(tar.offset)
    if tar.fileobj.read(BLOCKSIZE) != bytes(BLOCKSIZE):
        raise ReadError(f"no file and no end at byte {tar.offset:,}")


def _hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.removeprefix("./").split("/") if part != "..")
