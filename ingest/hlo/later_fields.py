"""Finds fields that a later compiler added to HLO protos: they may state what known ones no longer do."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, cast

from google.protobuf.unknown_fields import UnknownFieldSet

from xlahouse.ingest.hlo.group_notations import LAST_OF_INSTRUCTION
from xlahouse.ingest.hlo.messages import HloInstruction
from xlahouse.ingest.hlo.program import Program
from xlahouse.ingest.hlo.transfer import COLLECTIVE_KINDS, split_role

if TYPE_CHECKING:
    from google.protobuf.message import Message

# The last field of each message, as of this version: hlo.proto and xla_data.proto of openxla/xla.
_LAST = {
    "HloInstruction": LAST_OF_INSTRUCTION,
    "ShapeProto": 6,
    "LayoutProto": 17,
    "TileProto": 1,
    "ReplicaGroup": 1,
    "SourceTarget": 2,
    "CollectiveDeviceList": 3,
    "IotaReplicaGroupList": 4,
}
_FEW = 16  # instructions of each sort that are looked at: a compiler writes all alike


def later_fields(program: Program) -> int:
    """Number of instructions with such a field: of a few collectives, and a few at both ends of the entry."""
    return sum(_has_later(cast("Message", each)) for each in _looked_at(program))


def _looked_at(program: Program) -> list[HloInstruction]:
    entry = program.computations.get(program.proto.entry_computation_id)
    outer = (
        [] if entry is None else [*entry.instructions[:_FEW], *entry.instructions[_FEW:][-_FEW:]]
    )
    collectives = (
        each
        for _, each in program.instructions()
        if split_role(each.opcode.decode("utf-8", "replace"))[0] in COLLECTIVE_KINDS
    )
    return [*outer, *islice(collectives, _FEW)]


def _has_later(message: Message) -> bool:
    last = _LAST.get(message.DESCRIPTOR.name)
    if last is None:
        return False
    if any(field.field_number > last for field in UnknownFieldSet(message)):
        return True
    parts = (value for field, value in message.ListFields() if field.message_type is not None)
    each = (one for part in parts for one in ([part] if hasattr(part, "DESCRIPTOR") else part))
    return any(_has_later(one) for one in each)
