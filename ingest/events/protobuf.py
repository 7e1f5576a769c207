"""Protobuf messages from tables of field numbers: their types, classes for one message, Arrow for many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, Self, TypeVar, overload

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

if TYPE_CHECKING:
    import pyarrow as pa
    from google.protobuf.descriptor import Descriptor
    from google.protobuf.message import Message as GoogleMessage

Item = TypeVar("Item")

_FIELD = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "int64": _FIELD.TYPE_INT64,
    "int32": _FIELD.TYPE_INT32,
    "uint64": _FIELD.TYPE_UINT64,
    "uint32": _FIELD.TYPE_UINT32,
    "fixed64": _FIELD.TYPE_FIXED64,
    "double": _FIELD.TYPE_DOUBLE,
    "float": _FIELD.TYPE_FLOAT,
    "bool": _FIELD.TYPE_BOOL,
    "bytes": _FIELD.TYPE_BYTES,
}


class Repeated(Protocol[Item]):
    """A repeated field."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Item]: ...
    def __contains__(self, item: object, /) -> bool: ...
    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> list[Item]: ...
    def __delitem__(self, place: int) -> None: ...


class ScalarList(Repeated[Item], Protocol[Item]):
    """A repeated field of numbers, truths or bytes."""

    def append(self, value: Item) -> None: ...
    def extend(self, values: Iterable[Item]) -> None: ...


class MessageList(Repeated[Item], Protocol[Item]):
    """A repeated field of messages."""

    def add(self, **fields: object) -> Item:
        """Append a message with these fields."""
        ...


class Message(Protocol):
    """Methods of every message."""

    def Clear(self) -> None: ...
    def ClearField(self, name: str) -> None: ...
    def CopyFrom(self, other: Self) -> None: ...
    def HasField(self, name: str) -> bool: ...
    def SetInParent(self) -> None: ...
    def SerializeToString(self, *, deterministic: bool) -> bytes: ...


class ColumnCodec(Protocol):
    """Decodes and encodes many messages of one type at once, in Rust (ptars)."""

    def array_to_record_batch(self, column: pa.BinaryArray) -> pa.RecordBatch:
        """Serialized messages, an Arrow column -> a row each."""

    def list_to_record_batch(self, messages: list[bytes]) -> pa.RecordBatch:
        """Serialized messages -> a row each."""

    def record_batch_to_array(self, batch: pa.RecordBatch) -> pa.BinaryArray:
        """Rows -> a serialized message each."""


class Messages:
    """GoogleMessage types of one protobuf package.

    Args:
        tables: message -> lines of `number name type`; `*` marks a repeated field, `?` one of the
            message's oneof. A type that is not a scalar is another message of the tables.
        package: its name, one for each Messages in a process.
    """

    def __init__(self, tables: Mapping[str, str], package: str) -> None:
        self._tables, self._package = tables, package

    def message(self, name: str) -> type[GoogleMessage]:
        """The class of a message, to parse or to build one."""
        made: type[GoogleMessage] = message_factory.GetMessageClass(self._descriptor(name))
        return made

    def columns(self, name: str) -> ColumnCodec:
        """The decoder and encoder of many messages of a type at once."""
        import ptars

        descriptor = self._descriptor(name)
        codec: ColumnCodec = ptars.HandlerPool([descriptor.file]).get_for_message(descriptor)
        return codec

    def _descriptor(self, name: str) -> Descriptor:
        return self._pool.FindMessageTypeByName(f"{self._package}.{name}")

    @cached_property
    def _pool(self) -> descriptor_pool.DescriptorPool:
        file = descriptor_pb2.FileDescriptorProto(
            name=f"{self._package}.proto", package=self._package, syntax="proto3"
        )
        for name, lines in self._tables.items():
            message = file.message_type.add(name=name)
            for line in lines.splitlines():
                if line.strip():
                    self._add_field(message, *line.split())
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        return pool

    def _add_field(
        self, message: descriptor_pb2.DescriptorProto, number: str, name: str, kind: str
    ) -> None:
        field = message.field.add(name=name, number=int(number))
        bare = kind.rstrip("*?")
        field.label = _FIELD.LABEL_REPEATED if kind.endswith("*") else _FIELD.LABEL_OPTIONAL
        if bare in _SCALARS:
            field.type = _SCALARS[bare]
        else:
            field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{self._package}.{bare}"
        if kind.endswith("?"):
            if not message.oneof_decl:
                message.oneof_decl.add(name="value")
            field.oneof_index = 0
