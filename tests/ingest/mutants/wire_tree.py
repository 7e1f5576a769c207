"""Mutates protobuf messages by structure, without their schema: fields, numbers, texts and nesting."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from tests.ingest.build import varint
from tests.ingest.damage import damage
from tests.ingest.mutants import hostile

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_DEEPEST = 30
_MOST_FIELD = 1 << 12  # a larger field number means that bytes are not a message
_MOST_FIELDS = 1 << 20  # of a mutated message


@dataclass
class Field:
    """A field of a message: a number, bytes, or a message."""

    number: int
    kind: int
    value: int | bytes | list[Field]


Path = tuple[int, ...]


def parse(raw: bytes, depth: int = 0) -> list[Field] | None:
    """The fields of a message; None where the bytes are none."""
    found: list[Field] = []
    at = 0
    while at < len(raw):
        tag, at = _varint(raw, at)
        number, kind = tag >> 3, tag & 7
        if at < 0 or not 0 < number < _MOST_FIELD:
            return None
        if kind == VARINT:
            value, at = _varint(raw, at)
            if at < 0:
                return None
            found.append(Field(number, kind, value))
            continue
        size, at = (
            _varint(raw, at) if kind == LENGTH else ({FIXED64: 8, FIXED32: 4}.get(kind, -1), at)
        )
        if at < 0 or size < 0 or at + size > len(raw):
            return None
        part, at = raw[at : at + size], at + size
        inner = parse(part, depth + 1) if kind == LENGTH and _may_be_message(part, depth) else None
        found.append(Field(number, kind, part if inner is None else inner))
    return found


def _may_be_message(part: bytes, depth: int) -> bool:
    return depth < _DEEPEST and bool(part) and not all(31 < byte < 127 for byte in part)


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(raw):
            return 0, -1
        value |= (raw[at] & 0x7F) << shift
        at += 1
        if raw[at - 1] < 0x80:
            return value, at
    return 0, -1


def serialize(fields: list[Field]) -> bytes:
    """The bytes of a message."""
    return b"".join(map(_field, fields))


def _field(field: Field) -> bytes:
    tag = varint(field.number << 3 | field.kind)
    if isinstance(field.value, int):
        return tag + varint(field.value % (1 << 70))
    raw = field.value if isinstance(field.value, bytes) else serialize(field.value)
    return tag + (varint(len(raw)) if field.kind == LENGTH else b"") + raw


def _places(fields: list[Field], path: Path = ()) -> Iterator[tuple[Path, list[Field], Field]]:
    """(path, the message that has it, the field) of every field."""
    for field in fields:
        here = (*path, field.number)
        yield here, fields, field
        if isinstance(field.value, list):
            yield from _places(field.value, here)


def count(raw: bytes, path: Path) -> int | None:
    """How often a message has a field, by the numbers that lead to it; None where the bytes are none."""
    fields = parse(raw)
    return None if fields is None else sum(here == path for here, _, _ in _places(fields))


def mutated(raw: bytes, draw: random.Random) -> bytes:
    """A message with one or a few changes."""
    fields = parse(raw)
    if not fields:
        return damage(raw, draw)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        places = ((path, (owner, field)) for path, owner, field in _places(fields))
        alike, chosen = hostile.drawn_alike(places, draw)
        if not alike:
            break
        change, seed = draw.choice(_CHANGES), draw.randrange(1 << 32)
        for owner, field in chosen:
            change(owner, field, [each for _, each in alike], random.Random(seed))
        # Repeats of what was repeated: fields that share a message multiply.
        if sum(1 for _ in islice(_places(fields), _MOST_FIELDS)) == _MOST_FIELDS:
            return damage(raw, draw)
    return serialize(fields)


def _place(owner: list[Field], field: Field) -> int:
    return next((at for at, each in enumerate(owner) if each is field), 0)


def _drop(owner: list[Field], field: Field, alike: list[Field], draw: random.Random) -> None:
    if any(each is field for each in owner):
        del owner[_place(owner, field)]


def _double(owner: list[Field], field: Field, alike: list[Field], draw: random.Random) -> None:
    owner.insert(_place(owner, field), Field(field.number, field.kind, field.value))


def _repeat(owner: list[Field], field: Field, alike: list[Field], draw: random.Random) -> None:
    size = max(1, len(_field(field)))
    times = min(draw.choice((10, 1000, 100_000)), (1 << 20) // size)
    owner.extend([field] * times)


def _move(owner: list[Field], field: Field, alike: list[Field], draw: random.Random) -> None:
    _drop(owner, field, alike, draw)
    owner.insert(draw.randrange(len(owner) + 1), field)


def _renumber(owner: list[Field], field: Field, alike: list[Field], draw: random.Random) -> None:
    field.number = draw.choice((1, 2, 3, 4, 5, 6, 7, 11, 99, 1000, (1 << 29) - 1))


def _retype(owner: list[Field], field: Field, alike: list[Field], draw: random.Random) -> None:
    field.kind, field.value = draw.choice(
        ((VARINT, 7), (LENGTH, b"seven"), (LENGTH, b""), (FIXED64, bytes(8)), (FIXED32, b"\xff" * 4),
         (3, b""), (4, b""), (7, b""))
    )  # fmt: skip


def _other(owner: list[Field], field: Field, alike: list[Field], draw: random.Random) -> None:
    """Another value of its kind: a hostile one, or that of another field, as ids that lead in circles."""
    if field.kind in (FIXED64, FIXED32):
        size = 8 if field.kind == FIXED64 else 4
        field.value = draw.choice(
            (b"\xff" * size, bytes(size), b"\x7f\xf0"[::-1].rjust(size, b"\0"))
        )
    elif isinstance(field.value, int):
        same = [each.value for each in alike if isinstance(each.value, int)]
        field.value = draw.choice((draw.choice(same), hostile.number(draw), hostile.number(draw)))
    elif isinstance(field.value, bytes):
        field.value = _other_bytes(field.value, alike, draw)
    else:
        field.value = _other_message(field, alike, draw)


def _other_bytes(value: bytes, alike: list[Field], draw: random.Random) -> bytes:
    match draw.randrange(5):
        case 0:
            return draw.choice([each.value for each in alike if isinstance(each.value, bytes)])
        case 1:
            return damage(value, draw)
        case 2:
            return hostile.renumbered(value.decode("latin-1"), draw).encode("latin-1")
        case 3:
            return draw.randbytes(draw.choice((1, 10, 1000)))
        case _:
            return hostile.name(draw).encode("utf-8", "surrogatepass")


def _other_message(field: Field, alike: list[Field], draw: random.Random) -> bytes | list[Field]:
    match draw.randrange(3):
        case 0:
            return damage(serialize(field.value), draw) if isinstance(field.value, list) else b""
        case 1:
            return draw.choice(alike).value if isinstance(draw.choice(alike).value, list) else b""
        case _:
            raw = _field(field)
            for _ in range(draw.choice((1, 90, 200, 3000))):  # a message in itself
                raw = varint(field.number << 3 | LENGTH) + varint(len(raw)) + raw
            return raw


_CHANGES = (_drop, _double, _repeat, _move, _renumber, _retype, _other, _other, _other, _other)
