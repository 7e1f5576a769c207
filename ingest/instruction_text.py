"""Reads one instruction of HLO text into the message that HLO protos have for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from xlahouse.ingest.group_text import numbers, read_groups, read_pairs
from xlahouse.ingest.hlo_scan import (
    HloTextError,
    closing,
    shown,
    split_commas,
    unquoted,
    without_comments,
)
from xlahouse.ingest.shape_text import end_of_shape, read_shape

_HEAD = re.compile(r"\s*(ROOT\s+)?%?([^\s=]+)\s*=\s*")
_OPCODE = re.compile(r"\s*([a-z][\w-]*)\(")
_WORD = re.compile(r"([\w-]+)=")
_METADATA = re.compile(
    r'(op_type|op_name|source_file|source_line|stack_frame_id)=("(?:[^"\\]|\\.)*"|\d+)'
)
# Attributes that name computations.
_CALLS = (
    "calls",
    "to_apply",
    "condition",
    "body",
    "select",
    "scatter",
    "branch_computations",
    "true_computation",
    "false_computation",
    "called_computations",
)
_BACKEND = ", backend_config="  # the last attribute, long, and of no use here
_NO_OPERANDS = ("parameter", "constant", "iota")


@dataclass(frozen=True)
class Line:
    """What names an instruction's text holds, to be resolved where the others are known.

    operands: (name, text of its shape or "" where the text leaves it out).
    """

    name: str
    is_root: bool
    operands: tuple[tuple[str, str], ...]
    called: tuple[str, ...]


def read_instruction(text: str, into: Any) -> Line:
    """Read `%all-reduce.1 = f32[8]{0} all-reduce(f32[8]{0} %x), channel_id=1, to_apply=%add`.

    Args:
        text: the instruction, with or without `ROOT`, `%` and the shapes of its operands.
        into: an empty HloInstruction message to fill; ids are left to the caller.

    Raises:
        HloTextError: the text is no instruction, or breaks off.
    """
    text = without_comments(text)
    head = _HEAD.match(text)
    if head is None:
        raise HloTextError(f"no instruction: {shown(text.strip())}")
    end = end_of_shape(text, head.end())
    opcode = _OPCODE.match(text, end)
    if opcode is None:
        raise HloTextError(f"{head[2]} has no opcode: {shown(text[end:].strip())}")
    into.name, into.opcode = head[2].encode(), opcode[1].encode()
    into.shape.CopyFrom(read_shape(text[head.end() : end]))
    last = closing(text, opcode.end() - 1)
    inside = text[opcode.end() : last]
    operands = () if opcode[1] in _NO_OPERANDS else _operands(inside)
    if opcode[1] == "parameter" and inside.isdigit():
        into.parameter_number = int(inside)
    return Line(head[2], bool(head[1]), operands, _attributes(text[last + 1 :], into))


def _operands(text: str) -> tuple[tuple[str, str], ...]:
    found = []
    for piece in split_commas(text):
        shape, _, name = piece.rpartition(" ")
        found.append((name.removeprefix("%"), shape.strip()))
    return tuple(found)


def _attributes(text: str, into: Any) -> tuple[str, ...]:
    """Read `, key=value` after `key=value`; returns the names of the computations that it calls."""
    called: list[str] = []
    for key, value in _pairs(text):
        reader = _READERS.get(key)
        if key in _CALLS:
            called += [name.lstrip("%") for name in split_commas(value.strip("{}"))]
        elif reader is not None:
            reader(into, value)
    return tuple(called)


def _pairs(text: str) -> list[tuple[str, str]]:
    cut = text.find(_BACKEND)
    if cut >= 0 and text.count('"', 0, cut) % 2 == 0:
        text = text[:cut]
    found: list[tuple[str, str]] = []
    for piece in split_commas(text.strip().removeprefix(",")):
        key = _WORD.match(piece)
        if key is None:
            continue
        if key[1] == "device_ids" and found:  # the rest of a mesh in replica_groups
            found[-1] = (found[-1][0], f"{found[-1][1]}, {piece}")
        else:
            found.append((key[1], piece[key.end() :]))
    return found


def _read_metadata(into: Any, text: str) -> None:
    for key, value in _METADATA.findall(text):
        if value.isdigit():
            if key in ("source_line", "stack_frame_id"):
                setattr(into.metadata, key, min(int(value), 2**31 - 1))
        elif value.startswith('"') and key in ("op_type", "op_name", "source_file"):
            setattr(into.metadata, key, unquoted(value).encode())


def _read_frontend(into: Any, text: str) -> None:
    for piece in split_commas(text[1:-1]):
        key, _, value = piece.partition("=")
        into.frontend_attributes.map.add(key=key.encode(), value=unquoted(value).encode())


def _read_integer(field: str) -> Callable[[Any, str], None]:
    def read(into: Any, text: str) -> None:
        (number,) = numbers(text) or [0]
        if not -1 << 63 <= number < 1 << 63:
            raise HloTextError(f"{field}={shown(text)} is beyond 64 bits")
        setattr(into, field, number)

    return read


def _read_flag(field: str) -> Callable[[Any, str], None]:
    return lambda into, text: setattr(into, field, text == "true")


def _read_text(field: str) -> Callable[[Any, str], None]:
    return lambda into, text: setattr(into, field, unquoted(text).encode())


_READERS: dict[str, Callable[[Any, str], None]] = {
    "channel_id": _read_integer("channel_id"),
    "index": _read_integer("tuple_index"),
    "dimensions": lambda into, text: into.dimensions.extend(numbers(text.strip("{}"))),
    "replica_groups": read_groups,
    "source_target_pairs": read_pairs,
    "use_global_device_ids": _read_flag("use_global_device_ids"),
    "is_host_transfer": _read_flag("is_host_transfer"),
    "custom_call_target": _read_text("custom_call_target"),
    "async_execution_thread": _read_text("async_execution_thread"),
    "metadata": _read_metadata,
    "frontend_attributes": _read_frontend,
}
