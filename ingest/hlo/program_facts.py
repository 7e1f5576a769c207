"""Facts of the ops of a run's programs, as columns: joined to events by (program_id, op)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

import polars as pl
from google.protobuf.unknown_fields import UnknownFieldSet

from xlahouse.ingest.events.codes_of_programs import (
    DAMAGED_HLO,
    DEVICE_ASSIGNMENT_UNKNOWN,
    HLO_FIELDS_UNKNOWN,
    KIND_INFERRED,
    OPCODE_UNKNOWN,
    SIZE_UNKNOWN,
)
from xlahouse.ingest.events.frames import ColumnTypes
from xlahouse.ingest.events.issues import Issue, issues_found
from xlahouse.ingest.hlo.group_notations import LAST_OF_INSTRUCTION
from xlahouse.ingest.hlo.group_rows import Grouped, devices_of, group_rows
from xlahouse.ingest.hlo.kernels import communicating
from xlahouse.ingest.hlo.megascale import slices_of
from xlahouse.ingest.hlo.messages import HloInstruction
from xlahouse.ingest.hlo.ops import OpFacts, is_opcode, op_facts
from xlahouse.ingest.hlo.program import Program, instruction_rows
from xlahouse.ingest.hlo.transfer import COLLECTIVE_KINDS, begun_before_loops, split_role
from xlahouse.ingest.hlo.wrapped_text import wrapped

if TYPE_CHECKING:
    from google.protobuf.message import Message

FACT_COLUMNS: ColumnTypes = {
    "program_id": pl.UInt64,
    "op": pl.String,
    "module": pl.String,
    "opcode": pl.String,
    "category": pl.String,
    "role": pl.String,
    "start_op": pl.String,
    "kind": pl.String,
    "dtype": pl.String,
    "payload_bytes": pl.Int64,
    "payload_is_bound": pl.Boolean,
    "operand_bytes": pl.Int64,  # of wrappers whose computation is not known (wrapped_text.WrapperFacts)
    "result_bytes": pl.Int64,
    "over_dcn": pl.Boolean,  # a transfer that goes between slices; NULL on other ops
    "communicates": pl.Boolean,  # a kernel that computes and transfers; NULL where it is not known
    "transfer_op": pl.String,  # the instruction that transfers: the op itself, or one that it wraps
    "layer": pl.Int64,
    "component": pl.String,
    "tick": pl.Int64,
}
_SCOPE_COLUMNS = ("layer", "component", "tick")
_SHOWN = 5  # opcodes in a finding
# The last field of each message, as of this version: hlo.proto and xla_data.proto of openxla/xla.
_LAST_FIELDS = {
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


@dataclass(frozen=True)
class ProgramFacts:
    """Facts of all programs of a world."""

    ops: pl.DataFrame  # FACT_COLUMNS
    groups: pl.DataFrame  # GROUP_COLUMNS, of the collectives
    pairs: pl.DataFrame  # PAIR_COLUMNS, of the permutes, sends and recvs
    instructions: list[dict[str, object]]  # rows of the instructions table, without run_id
    logical_ids: set[int]  # all devices that the programs name
    issues: list[Issue]  # findings about the programs
    slices: dict[int, int] = field(default_factory=dict)  # of a device, where the programs tell it


@dataclass
class _Rows:
    """Rows under construction, of one program or of many."""

    ops: list[dict[str, object]] = field(default_factory=list)  # FACT_COLUMNS
    collectives: list[Grouped] = field(default_factory=list)  # those whose groups are to be made
    # of the table instructions, without run_id
    instructions: list[dict[str, object]] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)  # findings about the programs

    def extend(self, other: _Rows) -> None:
        for name, rows in vars(self).items():
            rows.extend(getattr(other, name))


def gather(programs: Iterable[Program], source: str) -> ProgramFacts:
    """Facts of the programs; damage to an op or a program loses only that op or program.

    Of ops of one program and name the first counts, as of an op whose events have two texts.
    """
    rows = _Rows()
    logical_ids: set[int] = set()
    slices: dict[int, int] = {}
    whole: list[Program] = []
    for program in programs:
        try:
            found = _of_program(program, source)
        except Exception as error:  # damage can raise anything; it loses this program only
            detail = f"the HLO of {program.module} is inconsistent: {type(error).__name__}: {error}"
            rows.issues.append(DAMAGED_HLO.found(source, detail=detail))
            continue
        rows.extend(found)
        rows.issues += _wrapper_issues(program, found, source)
        rows.issues += _size_issues(program, found, source)
        rows.issues += _later_issues(program, found, source)
        slices |= _slices(program)
        logical_ids.update(device for devices in devices_of(program) for device in devices)
        whole.append(program)
    first: dict[tuple[int, str], Grouped] = {}
    for each in rows.collectives:
        first.setdefault((each.program.program_id, each.op), each)
    grouped = group_rows(first.values(), source)
    rows.issues += grouped.issues
    groups = grouped.group_frame
    rows.issues += _assignment_issues(
        [program for program in whole if program.program_id in grouped.known],
        groups,
        grouped.pair_frame,
        source,
    )
    logical_ids.update(groups["logical_id"].unique())
    return ProgramFacts(
        ops=pl.DataFrame(first_of_ops(rows.ops), schema=FACT_COLUMNS),
        groups=groups,
        pairs=grouped.pair_frame,
        instructions=rows.instructions,
        logical_ids=logical_ids,
        issues=rows.issues,
        slices=slices,
    )


def first_of_ops(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first row of each program_id and op."""
    found: dict[tuple[int, str], dict[str, Any]] = {}
    for row in rows:
        found.setdefault((row["program_id"], row["op"]), row)
    return list(found.values())


def _of_program(program: Program, source: str) -> _Rows:
    rows = _Rows(instructions=instruction_rows(program))
    begun, kernels = begun_before_loops(program), communicating(program)
    for row, (_, instruction) in zip(rows.instructions, program.instructions(), strict=True):
        if instruction.id in program.opaque:  # its computation is unknown
            rows.ops.append(_opaque_row(program, instruction, row))
            continue
        facts = op_facts(program, instruction)
        if instruction.id in begun:
            facts = replace(facts, start_op=begun[instruction.id])
        goes_on = instruction.id in program.begun_elsewhere
        told = {
            "communicates": instruction.id in kernels,
            "over_dcn": True if instruction.id in program.dcn_parts else None,
        }
        rows.ops.append(_fact_row(facts, row, goes_on) | told)
        if facts.collective is None or goes_on:
            continue
        rows.collectives.append(Grouped(program, facts.op, facts.collective, facts.kind))
    return rows


def _opaque_row(
    program: Program, instruction: HloInstruction, row: dict[str, object]
) -> dict[str, object]:
    """Facts in the text of a wrapper; its category is decided from the op's event."""
    taken = {name: row[name] for name in ("program_id", "module", "op", "opcode", *_SCOPE_COLUMNS)}
    return dict.fromkeys(FACT_COLUMNS) | taken | vars(wrapped(program, instruction))


def _wrapper_issues(program: Program, rows: _Rows, source: str) -> list[Issue]:
    """Transfers whose kind no HLO states."""
    count = sum(row["kind"] is not None and row["category"] is None for row in rows.ops)
    detail = (
        f"{program.module}: ops that wrap a transfer which the trace lacks: its kind and size are those in "
        "the wrapper's name and shapes"
    )
    return issues_found(source, (KIND_INFERRED, count, detail))


def _assignment_issues(
    programs: Iterable[Program], groups: pl.DataFrame, pairs: pl.DataFrame, source: str
) -> list[Issue]:
    """The finding that no device assignment is stated, so groups use partition numbers.

    A group of all devices is the same under any assignment; a part of them, or a pair, may be others.

    Args:
        programs: that have groups.
        groups: GROUP_COLUMNS of all programs.
        pairs: PAIR_COLUMNS of all programs.
        source: the run.
    """
    found = []
    for program in programs:
        is_known = program.names_ranks or program.assignment is not None
        if is_known and not program.assignment_assumed:
            continue
        mine = pl.col("program_id") == program.program_id
        own = groups.filter(mine)
        devices = {*own["logical_id"].unique(), *(d for some in devices_of(program) for d in some)}
        least = own.group_by("op", "group_index").len()["len"].min()
        info = least == len(devices) and pairs.filter(mine).is_empty()
        detail = f"{program.module}: {DEVICE_ASSIGNMENT_UNKNOWN.meaning}"
        found.append(DEVICE_ASSIGNMENT_UNKNOWN.found(source, detail=detail, info=info))
    return found


def _size_issues(program: Program, rows: _Rows, source: str) -> list[Issue]:
    """Values whose sizes are unknown before the program runs."""
    count = sum("?" in str(row["shape"]) for row in rows.instructions)
    if program.names_ranks:  # a rank's trace may state its own sizes
        return []
    return issues_found(source, (SIZE_UNKNOWN, count, f"{program.module}: {SIZE_UNKNOWN.meaning}"))


def _later_issues(program: Program, rows: _Rows, source: str) -> list[Issue]:
    """Opcodes and fields that this version does not know."""
    unknown = [str(row["opcode"]) for row in rows.instructions if not is_opcode(str(row["opcode"]))]
    names = ", ".join(list(dict.fromkeys(unknown))[:_SHOWN])
    return issues_found(
        source,
        (OPCODE_UNKNOWN, len(unknown), f"{program.module}: {OPCODE_UNKNOWN.meaning}: {names}"),
        (HLO_FIELDS_UNKNOWN, _later_fields(program)),
    )


def _later_fields(program: Program) -> int:
    """Instructions with fields of a later compiler: of a few collectives, and at both ends of the entry."""
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
    last = _LAST_FIELDS.get(message.DESCRIPTOR.name)
    if last is None:
        return False
    if any(field.field_number > last for field in UnknownFieldSet(message)):
        return True
    parts = (value for field, value in message.ListFields() if field.message_type is not None)
    each = (one for part in parts for one in ([part] if hasattr(part, "DESCRIPTOR") else part))
    return any(_has_later(one) for one in each)


def _fact_row(facts: OpFacts, instruction: dict[str, object], goes_on: bool) -> dict[str, object]:
    """FACT_COLUMNS of an op. goes_on: it is a part of a transfer that another instruction starts."""
    taken = {name: instruction[name] for name in ("program_id", "module", *_SCOPE_COLUMNS)}
    found = None if facts.collective is None else facts.collective.name.decode("utf-8", "replace")
    taken["transfer_op"] = None if goes_on else found
    own = {name: getattr(facts, name, None) for name in FACT_COLUMNS if name not in taken}
    return taken | own


def _slices(program: Program) -> dict[int, int]:
    """The slice of each device of a program with transfers between slices."""
    targets = {part.target for part in program.dcn_parts.values()}
    found = [slices_of(t, devices) for t in targets for devices in devices_of(program)]
    return {device: n for of_place in found for n, one in enumerate(of_place) for device in one}
