"""The types of HLO messages, against the tables of fields that their classes are made from."""

from __future__ import annotations

from typing import get_args, get_origin, get_type_hints

from xlahouse.ingest.events.proto import MESSAGES
from xlahouse.ingest.hlo import messages

SCALARS = {"int64": int, "int32": int, "bool": bool, "bytes": bytes}


def fields_of(table: str) -> dict[str, str]:
    """Field -> type, `*` after a repeated one."""
    lines = (line.split() for line in MESSAGES[table].splitlines() if line.strip())
    return {name: kind for _, name, kind in lines}


def test_the_types_are_those_of_the_tables():
    pending = [(getattr(messages, name), name) for name in ("HloModule", "BufferAssignment")]
    seen = {}
    while pending:
        protocol, table = pending.pop()
        assert seen.setdefault(protocol, table) == table
        fields, hints = fields_of(table), get_type_hints(protocol, vars(messages))
        assert hints.keys() <= fields.keys(), protocol
        for name, hint in hints.items():
            kind = fields[name]
            if kind.endswith("*"):
                is_scalar = kind[:-1] in SCALARS
                assert get_origin(hint) is (
                    messages.ScalarList if is_scalar else messages.MessageList
                )
                (hint,), kind = get_args(hint), kind[:-1]
            if kind in SCALARS:
                assert hint is SCALARS[kind], (protocol, name)
            elif hint not in seen:
                pending.append((hint, kind))
    declared = {
        each
        for each in vars(messages).values()
        if isinstance(each, type) and messages.Message in each.__mro__[1:]
    }
    assert set(seen) == declared
