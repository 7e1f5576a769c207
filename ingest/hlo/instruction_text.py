"""Reads one instruction of HLO text into the message that HLO protos have for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from xlahouse.ingest.hlo.group_text import numbers, read_groups, read_pairs
from xlahouse.ingest.hlo.messages import HloInstruction, new_shape
from xlahouse.ingest.hlo.scan import (
    HloTextError,
    closing,
    is_closed,
    shown,
    split_commas,
    unquoted,
    without_comments,
)
from xlahouse.ingest.hlo.shape_text import ReadShape, end_of_shape, read_shape

_NAME_PART = re.compile(r"\s*(ROOT\s+)?%?([^\s=]+)\s*=\s*")
_OPCODE = re.compile(r"\s*([a-z][\w-]*)\(")
_LATER_OPCODE = re.compile(r'[^"]*?\s([a-z][\w-]*)\(')
_WORD = re.compile(r"([\w-]+)=")
_METADATA_ENTRY = re.compile(
    r'(op_type|op_name|source_file|source_line|stack_frame_id)=("(?:[^"\\]|\\.)*"|\d+)'
)
# Attributes that name computations.
_CALLING_ATTRIBUTES = (
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
_BACKEND = ", backend_config="  # the last attribute, and a long one
_NO_OPERANDS = ("parameter", "constant", "iota")
# Attributes that state which devices take part; without one of them the others mislead.
_PARTICIPANT_ATTRIBUTES = (
    "replica_groups",
    "source_target_pairs",
    "channel_id",
    "use_global_device_ids",
)
# Attributes after the ones above: text that breaks off in one of these still has all of the ones above.
_LATE_ATTRIBUTES = ("metadata", "backend_config", "sharding")
_MOST_DIGITS = 9  # of numbers in metadata, which have 32 bits
_UNKNOWN = -1  # an index that cannot be read
_FIELDS_OF_ATTRIBUTE = {
    "replica_groups": (
        "replica_groups",
        "collective_device_list",
        "mesh_axes_replica_group_list",
    ),
    "index": ("tuple_index",),
}


@dataclass(frozen=True)
class InstructionLine:
    """The names that an instruction's text holds, to be resolved where the other instructions are known."""

    name: str  # of the instruction
    is_root: bool  # whether its computation returns it
    # (name, text of the shape); "" for one that is not stated
    operands: tuple[tuple[str, str], ...]
    called: tuple[str, ...]  # names of the computations that it calls
    problems: tuple[str, ...] = ()  # a line for each part that could not be read
    knows_groups: bool = True  # whether its groups and pairs could be read
    ends: bool = True  # whether the text does not break off
    keys: frozenset[str] = frozenset()  # of its attributes


def read_instruction(text: str, into: HloInstruction) -> InstructionLine:
    """Read `%all-reduce.1 = f32[8]{0} all-reduce(f32[8]{0} %x), channel_id=1, to_apply=%add`.

    A shape, operands or an attribute that cannot be read are left out and reported as problems.

    Args:
        text: the instruction, with or without `ROOT`, `%` and the shapes of its operands.
        into: an empty HloInstruction message to fill; ids are left to the caller.

    Raises:
        HloTextError: the text is not an instruction: it has no name or no opcode.
    """
    text = without_comments(text)
    head = _NAME_PART.match(text)
    if head is None:
        raise HloTextError(f"not an instruction: {shown(text.strip())}")
    shape, opcode = _shape_and_opcode(text, head.end())
    if opcode is None:
        raise HloTextError(f"{head[2]} has no opcode: {shown(text[head.end() :].strip())}")
    into.name, into.opcode = head[2].encode(), opcode[1].encode()
    into.shape.CopyFrom(shape.proto)
    problems = list(shape.problems)
    try:
        last = closing(text, opcode.end() - 1)
    except HloTextError as error:
        return InstructionLine(
            head[2], bool(head[1]), (("", ""),), (), (*problems, str(error)), False, False
        )
    inside = text[opcode.end() : last]
    operands = () if opcode[1] in _NO_OPERANDS else _operands(inside)
    return _attributes(
        text[last + 1 :],
        into,
        InstructionLine(head[2], bool(head[1]), operands, (), tuple(problems)),
    )


def _shape_and_opcode(text: str, start: int) -> tuple[ReadShape, re.Match[str] | None]:
    """The shape at `start` and the opcode after it, even where the shape has no end."""
    try:
        end = end_of_shape(text, start)
    except HloTextError as error:
        return ReadShape(new_shape(), (str(error),)), _LATER_OPCODE.match(text, start)
    return read_shape(text[start:end]), _OPCODE.match(text, end)


def _operands(text: str) -> tuple[tuple[str, str], ...]:
    found = []
    for piece in split_commas(text):
        shape, _, name = piece.rpartition(" ")
        found.append((name.removeprefix("%"), shape.strip()))
    return tuple(found)


def _attributes(text: str, into: HloInstruction, line: InstructionLine) -> InstructionLine:
    """Read `, key=value` after `key=value`; returns the line with the names in them."""
    called: list[str] = []
    problems = list(line.problems)
    lost: list[str] = []
    text, backend = _split_backend(text)
    if backend:
        into.backend_config = unquoted(backend).encode()
    pairs = _pairs(text)
    for key, value in pairs:
        if key in _CALLING_ATTRIBUTES:
            called += [name.lstrip("%") for name in split_commas(value.strip("{}"))]
        elif key in _READERS:
            try:
                _READERS[key](into, value)
            except ValueError as error:  # ours, or protobuf's where a number is beyond its field
                lost.append(key)
                _forget(into, key)
                problems.append(f"{key} of {line.name}: {error}")
    ends = is_closed(text)
    if not ends:
        problems.append(f"{line.name} breaks off: {shown(text)}")
    breaks_off_late = not ends and bool(pairs) and pairs[-1][0] in _LATE_ATTRIBUTES
    knows_groups = (ends or breaks_off_late) and not set(lost) & set(_PARTICIPANT_ATTRIBUTES)
    return replace(
        line,
        called=tuple(called),
        problems=tuple(problems),
        knows_groups=knows_groups,
        ends=ends,
        keys=frozenset(key for key, _ in pairs),
    )


def _forget(into: HloInstruction, key: str) -> None:
    """Clear the fields of an attribute that cannot be read; parts of metadata are independent and stay."""
    if key == "metadata":
        return
    for name in _FIELDS_OF_ATTRIBUTE.get(key, (key,)):
        into.ClearField(name)
    if key == "index":
        into.tuple_index = _UNKNOWN


def _split_backend(text: str) -> tuple[str, str]:
    """(attributes, backend_config)."""
    cut = text.find(_BACKEND)
    if cut < 0 or text.count('"', 0, cut) % 2:
        return text, ""
    return text[:cut], text[cut + len(_BACKEND) :].strip()


def _pairs(text: str) -> list[tuple[str, str]]:
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


def _read_metadata(into: HloInstruction, text: str) -> None:
    beyond = []
    for key, value in _METADATA_ENTRY.findall(text):
        if value.isdigit():
            if len(value) > _MOST_DIGITS:
                beyond.append(key)
            elif key in ("source_line", "stack_frame_id"):
                setattr(into.metadata, key, int(value))
        elif value.startswith('"') and key in ("op_type", "op_name", "source_file"):
            setattr(into.metadata, key, unquoted(value).encode())
    if beyond:
        raise HloTextError(f"numbers of more than 32 bits: {', '.join(beyond)}")


def _read_frontend(into: HloInstruction, text: str) -> None:
    for piece in split_commas(text[1:-1]):
        key, _, value = piece.partition("=")
        into.frontend_attributes.map.add(key=key.encode(), value=unquoted(value).encode())


def _read_integer(field: str) -> Callable[[HloInstruction, str], None]:
    def read(into: HloInstruction, text: str) -> None:
        found = numbers(text)
        if len(found) != 1 or not -1 << 63 <= found[0] < 1 << 63:
            raise HloTextError(f"not a number of 64 bits: {shown(text)}")
        setattr(into, field, found[0])

    return read


def _read_flag(field: str) -> Callable[[HloInstruction, str], None]:
    def read(into: HloInstruction, text: str) -> None:
        if text not in ("true", "false"):
            raise HloTextError(f"neither true nor false: {shown(text)}")
        setattr(into, field, text == "true")

    return read


def _read_text(field: str) -> Callable[[HloInstruction, str], None]:
    return lambda into, text: setattr(into, field, unquoted(text).encode())


_READERS: dict[str, Callable[[HloInstruction, str], None]] = {
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
