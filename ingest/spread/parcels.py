"""Packs what one process hands to another: columns and programs whole, files by name.

What an object has worked out and keeps in mind is left out, since it is worked out again where it is
needed; so are the bytes of files that can be read again.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from google.protobuf.message import Message

from xlahouse.capture.errors import XlahouseError
from xlahouse.ingest.events.proto import message_class
from xlahouse.ingest.events.trace_bytes import SourceFile, TraceFile


def pack(value: object) -> bytes:
    """A value as bytes."""
    buffer = io.BytesIO()
    _Packer(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


@dataclass(frozen=True)
class UnpackedParcel:
    """A value of another process, and the files that are read through it."""

    value: Any  # as it was before it was packed
    files: list[TraceFile]  # in the order in which the parcel names them

    def check(self) -> None:
        """Make sure that no piece of a file was missing: readers may take that for damage.

        Raises:
            TraceChangedError: a file is not as it was when it was hashed.
            OSError: a piece of it could not be read.
        """
        for file in self.files:
            if file.fault is not None:
                raise file.fault


def unpack(raw: bytes) -> UnpackedParcel:
    """The value that was packed."""
    unpacker = _Unpacker(io.BytesIO(raw))
    return UnpackedParcel(unpacker.load(), list(unpacker.files.values()))


def computed(do: Callable[..., object], given: bytes, shared: Any) -> bytes:
    """The packed result of do(shared, *given), or the error that it raised, for `result_of`."""
    try:
        unpacked = unpack(given)
        found = do(shared, *unpacked.value)
        unpacked.check()
        return pack((found, None))
    except Exception as error:
        return _packed_error(error)


def _packed_error(error: Exception) -> bytes:
    """An error as `result_of` raises it; one that cannot pass between processes, by its name and words."""
    try:
        raw = pack((None, error))
        unpack(raw)
    except Exception:
        return pack((None, XlahouseError(f"{type(error).__name__}: {error}")))
    return raw


def result_of(raw: bytes) -> Any:
    """What `computed` packed.

    Raises:
        Exception: the error that it packed.
    """
    found, error = unpack(raw).value
    if error is not None:
        raise error
    return found


class _Packer(pickle.Pickler):
    def persistent_id(self, value: object) -> tuple[SourceFile, str] | None:
        return (value.source, value.place) if type(value) is TraceFile else None

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind is memoryview:
            return bytes, (bytes(value),)
        if isinstance(value, Message):
            return _message, (value.DESCRIPTOR.name, value.SerializeToString())
        if isinstance(value, XlahouseError) and not _says_how(kind):
            return _error, (kind, value.args, vars(value))
        if (
            "__dataclass_fields__" in kind.__dict__
            and hasattr(value, "__dict__")
            and not _says_how(kind)
        ):
            return _made, (kind, {each.name: getattr(value, each.name) for each in fields(value)})
        return NotImplemented


class _Unpacker(pickle.Unpickler):
    """Makes one TraceFile for each file, however many parts of it the value holds."""

    def __init__(self, raw: io.BytesIO) -> None:
        super().__init__(raw)
        self.files: dict[SourceFile, TraceFile] = {}

    def persistent_load(self, known: tuple[SourceFile, str]) -> TraceFile:
        return self.files.setdefault(known[0], TraceFile(*known))


def _says_how(kind: type) -> bool:
    """Whether a class says itself how its objects are packed."""
    return any(
        "__reduce__" in each.__dict__ for each in kind.__mro__[:-1] if each.__module__ != "builtins"
    )


def _message(name: str, raw: bytes) -> Message:
    return message_class(name).FromString(raw)


def _made(kind: type, values: dict[str, object]) -> object:
    made: object = object.__new__(kind)
    vars(made).update(values)
    return made


def _error(kind: type[XlahouseError], given: tuple[Any, ...], values: dict[str, Any]) -> Exception:
    error = kind.__new__(kind, *given)
    error.args = given
    vars(error).update(values)
    return error
