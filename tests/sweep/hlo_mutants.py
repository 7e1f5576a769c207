"""Mutants of compiled programs: each word of HLO text renamed, each field of a proto under another number.

To drop a field of a proto is not a mutant: it then has its default, which is another program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from google.protobuf.internal.decoder import _DecodeVarint

from tests.sweep.mutants import Mutant
from tests.synth.protos import XSpace
from tests.synth.varints import varint
from xlahouse.ingest.events.proto import message_class

_FAR = 1000  # added to a field's number: one that a later compiler may use
# What a text depends on: attributes, opcodes, types of elements, keys of JSON, words of its frame.
_WORDS = {
    "attribute": re.compile(r"(?<![\w\"])[a-z_][a-z_]*(?==)"),
    "opcode": re.compile(r"(?<= )[a-z][a-z-]*(?=\()"),
    "type": re.compile(r"\b[a-z]+\d*(?=\[)"),
    "key": re.compile(r"(?<=\")\w+(?=\":)"),
    "keyword": re.compile(r"\b(?:ENTRY|ROOT|HloModule)\b"),
}
Fields = set[tuple[str, str]]  # message, field


def of_text(raw: bytes) -> Iterator[Mutant]:
    """The mutants of a module's text."""
    text = raw.decode()
    for what, pattern in _WORDS.items():
        for word in sorted(set(pattern.findall(text))):
            changed = pattern.sub(
                lambda found, w=word: f"q{w[::-1]}" if found[0] == w else found[0], text
            )
            yield Mutant(f"text {what}", word, "renamed", changed.encode())


def of_programs(raw: bytes) -> Iterator[Mutant]:
    """The mutants of the programs in an xplane: each field of their protos under another number."""
    root = message_class("HloProto").DESCRIPTOR
    fields: Fields = set()
    for stat in _programs(XSpace.FromString(raw)):
        fields |= _fields(stat.bytes_value, root)
    for message, field in sorted(fields):
        space = XSpace.FromString(raw)
        for stat in _programs(space):
            stat.bytes_value = _moved(stat.bytes_value, root, message, field)
        yield Mutant(f"field of {message}", field, "renamed", space.SerializeToString())


def _programs(space: Any) -> Iterator[Any]:
    for plane in space.planes:
        named = {entry.key for entry in plane.stat_metadata if entry.value.name == "Hlo Proto"}
        for entry in plane.event_metadata:
            yield from (stat for stat in entry.value.stats if stat.metadata_id in named)


def _fields(raw: bytes, message: Any) -> Fields:
    """All fields that a serialized message and those in it have."""
    found: Fields = set()
    for number, _, content in _parts(raw):
        field = message.fields_by_number.get(number)
        if field is None:
            continue
        found.add((message.name, field.name))
        if field.message_type is not None:
            found |= _fields(content, field.message_type)
    return found


def _moved(raw: bytes, message: Any, of: str, name: str) -> bytes:
    """A serialized message in which that field of all messages of a type has another number."""
    out = b""
    for number, wire, content in _parts(raw):
        field = message.fields_by_number.get(number)
        if field is not None and (message.name, field.name) == (of, name):
            number += _FAR
        elif field is not None and field.message_type is not None:
            content = _moved(content, field.message_type, of, name)
        size = varint(len(content)) if wire == 2 else b""
        out += varint(number << 3 | wire) + size + content
    return out


def _parts(raw: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(number, wire type, content) of each field."""
    at = 0
    while at < len(raw):
        tag, at = _DecodeVarint(raw, at)
        wire, start = tag & 7, at
        if wire == 0:
            _, at = _DecodeVarint(raw, at)
        elif wire == 2:
            size, start = _DecodeVarint(raw, at)
            at = start + size
        else:
            at += {1: 8, 5: 4}[wire]
        yield tag >> 3, wire, raw[start:at]
