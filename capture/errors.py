"""All errors that xlahouse raises on purpose: one root, and a child for each subject."""

from __future__ import annotations

import errno
import re

# Of the loader of libraries.
_NO_ROOM = re.compile(
    r"failed to map segment|[Cc]annot allocate memory|cannot apply additional memory"
)
_CLASSES = re.compile(r"\b[A-Z]\w*(?:Error|Exception): ")


class XlahouseError(Exception):
    """A fault of the user's input or data; the message says what is wrong, where, and what to try."""


class CaptureError(XlahouseError):
    """A capture could not run, or did not leave a usable trace."""


class ManifestError(XlahouseError):
    """A manifest, plan or card violates its schema."""


class TraceFormatError(XlahouseError):
    """A trace file cannot be read.

    Args:
        path: the file, as the user named it.
        reason: what is wrong with it and what to try.
        offset: byte offset of the damage, where known.
    """

    def __init__(self, path: str, reason: str, offset: int | None = None) -> None:
        where = path if offset is None else f"{path} at byte {offset:,}"
        super().__init__(f"{where}: {reason}")
        self.path, self.reason, self.offset = path, reason, offset


class TraceChangedError(XlahouseError):
    """A trace file is no longer what it was when the ingest began.

    Args:
        path: the file, as the user named it.
    """

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path}: it changed while it was read: it was written to, cut short or replaced; "
            "ingest it again once nothing writes to it"
        )
        self.path = path

    def __reduce__(self) -> tuple[type[TraceChangedError], tuple[str]]:
        return TraceChangedError, (self.path,)


class LimitError(TraceFormatError):
    """A part of a trace file asks for more than a limit allows."""


class WarehouseError(XlahouseError):
    """A warehouse cannot be opened or written, or has no such run."""


class DamagedFileError(WarehouseError):
    """A file of a run's tables is there and cannot be read.

    Args:
        message: names it, and says how to mend its run.
        file: its path or URL.
        reason: why it cannot be read.
    """

    def __init__(self, message: str, file: str, reason: str) -> None:
        super().__init__(message)
        self.file, self.reason = file, reason

    def __reduce__(self) -> tuple[type[DamagedFileError], tuple[str, str, str]]:
        return DamagedFileError, (str(self), self.file, self.reason)


class LowMemoryError(XlahouseError):
    """Memory ran out while files were read; none of them is at fault."""

    def __init__(self) -> None:
        super().__init__("not enough memory; ask for less, or allow more memory")


class ReportError(XlahouseError):
    """A page cannot be rendered or written."""


class ViewError(XlahouseError):
    """A view's file is wrong.

    Args:
        view: the view's name.
        reason: what is wrong with it.
    """

    def __init__(self, view: str, reason: str) -> None:
        super().__init__(f"view {view}: {reason}")
        self.view = view


class QueryError(XlahouseError):
    """A query is wrong.

    Args:
        message: what is wrong and what to try.
        sql: the query.
        line: 1-based line of the fault, where known.
        column: 1-based column of the fault, where known.
    """

    def __init__(
        self, message: str, sql: str, line: int | None = None, column: int | None = None
    ) -> None:
        where = "" if line is None else f" (line {line}, column {column or 1})"
        super().__init__(f"{message}{where}")
        self.sql, self.line, self.column = sql, line, column


def one_line(error: Exception) -> str:
    """The reason that an error of any file system, or of Arrow, states, without names of classes."""
    said = error.strerror if isinstance(error, OSError) else None
    first = (said or str(error).strip() or type(error).__name__).splitlines()[0]
    return _CLASSES.sub("", first)


def lacks_memory(error: Exception) -> bool:
    """Whether memory ran out: of Python, of the system, of DuckDB, or while a library was loaded."""
    text = str(error)
    return (
        isinstance(error, (MemoryError, LowMemoryError))
        or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        or type(error).__name__ == "OutOfMemoryException"
        or (isinstance(error, ImportError) and _NO_ROOM.search(text) is not None)
        or (isinstance(error, NameError) and "'_POLARS_" in text)  # passes over such an ImportError
        or (isinstance(error, RuntimeError) and "can't start new thread" in text)
    )
