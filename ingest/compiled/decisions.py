"""What the compilers of a run's programs decided: order, costs, ways of transfers, places in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from xlahouse.ingest.compiled.backend_config import NOTHING, CompilerNotes, compiler_notes
from xlahouse.ingest.compiled.buffers import DamagedBuffersError, buffer_rows
from xlahouse.ingest.compiled.executions import executions
from xlahouse.ingest.compiled.program_memory import program_row
from xlahouse.ingest.compiled.schedule import places
from xlahouse.ingest.compiled.users import NOWHERE, Scope, scopes_by_use
from xlahouse.ingest.compiled.work import Work
from xlahouse.ingest.events.codes_of_programs import BUFFERS_UNREAD, DAMAGED_HLO
from xlahouse.ingest.events.frames import ColumnTypes, empty
from xlahouse.ingest.events.issues import Issue
from xlahouse.ingest.hlo.messages import HloInstruction
from xlahouse.ingest.hlo.program import Program
from xlahouse.ingest.hlo.program_facts import first_of_ops

_TARGET = re.compile(rb"\{(\d+(?:,\d+)*)\}x\{")  # `{1,2}x{0:7}`: slices 1 and 2
_COLLECTIVE = tuple(name for name in vars(NOTHING) if name.startswith("collective_"))
INSTRUCTION_COLUMNS: ColumnTypes = {
    "program_id": pl.UInt64,
    "op": pl.String,
    "schedule_index": pl.Int64,
    "executions": pl.Int64,
    "estimated_cycles": pl.Int64,
    "flops": pl.Int64,
    "hbm_bytes": pl.Int64,
    "collective_emitter": pl.String,
    "collective_strategy": pl.String,
    "collective_colors": pl.Int64,
    "collective_phases": pl.Int64,
    "collective_rings": pl.String,
    "collective_detail": pl.String,
    "rendezvous": pl.String,
    "slice_count": pl.Int64,
    "user_layer": pl.Int64,  # of an instruction without an op_name, those of its users
    "user_component": pl.String,
}

EXECUTED: ColumnTypes = {"program_id": pl.UInt64, "op": pl.String, "executions": pl.Int64}


@dataclass(frozen=True)
class Decisions:
    """What the compilers decided about all programs of a world."""

    instructions: pl.DataFrame  # INSTRUCTION_COLUMNS
    # EXECUTED, of the instructions that run by themselves; NULL: how often is unknown
    executed: pl.DataFrame
    buffers: list[dict[str, object]]  # rows of the buffers table, without run_id and world
    programs: list[dict[str, object]]  # rows of the programs table, likewise
    issues: list[Issue]  # findings about the programs


def decisions(programs: Iterable[Program], ops: pl.DataFrame, source: str) -> Decisions:
    """What the compilers of these programs decided; damage loses only what it is in.

    Args:
        programs: with different ids.
        ops: facts of their ops: program_id, op, and transfer_op, the instruction that an op wraps.
        source: the run, for issues.
    """
    rows: list[dict[str, object]] = []
    executed: list[dict[str, object]] = []
    buffers: list[dict[str, object]] = []
    memory: list[dict[str, object]] = []
    issues: list[Issue] = []
    known = set(ops["program_id"].unique())
    for program in programs:
        if program.program_id not in known:  # damaged: a finding says so
            continue
        try:
            order, times = places(program), executions(program)
            scopes = scopes_by_use(program, order)
            found, unread = _instructions(program, order, times, scopes)
        except Exception as error:  # damage can raise anything; it loses this program only
            detail = f"the HLO of {program.module} is inconsistent: {type(error).__name__}: {error}"
            issues.append(DAMAGED_HLO.found(source, detail=detail))
            continue
        rows += found
        executed += _executed(program, times)
        own: list[dict[str, object]] = []
        if unread and not program.loose:  # names of ops may break off
            issues.append(DAMAGED_HLO.found(source, len(unread), f"{program.module} {unread[0]}"))
        try:
            own = buffer_rows(program, order, scopes)
        except Exception as error:
            foreseen = isinstance(error, DamagedBuffersError)
            said = str(error) if foreseen else f"{type(error).__name__}: {error}"
            detail = f"{program.module}: {BUFFERS_UNREAD.meaning}: {said}"
            issues.append(BUFFERS_UNREAD.found(source, detail=detail))
        buffers += own
        memory += [] if program.loose else [program_row(program, own)]
    told, ran = empty(INSTRUCTION_COLUMNS), empty(EXECUTED)
    if rows:
        told = _with_wrapped(pl.DataFrame(first_of_ops(rows), schema=INSTRUCTION_COLUMNS), ops)
    if executed:
        ran = pl.DataFrame(first_of_ops(executed), schema=EXECUTED)
    return Decisions(told, ran, buffers, memory, issues)


def _executed(program: Program, times: dict[int, int | None]) -> list[dict[str, object]]:
    """EXECUTED of a program."""
    return [
        {
            "program_id": program.program_id,
            "op": instruction.name.decode("utf-8", "replace"),
            "executions": times[instruction.id],
        }
        for _, instruction in program.instructions()
        if instruction.id in times
    ]


def _instructions(
    program: Program,
    order: dict[int, int],
    times: dict[int, int | None],
    scopes: dict[int, Scope],
) -> tuple[list[dict[str, object]], list[str]]:
    """(rows, a line for each backend_config that cannot be read)."""
    rows, unread = [], []
    work = Work(program)
    for _, instruction in program.instructions():
        name = instruction.name.decode("utf-8", "replace")
        notes: CompilerNotes = NOTHING
        try:
            notes = compiler_notes(instruction)
        except ValueError as error:
            unread.append(f"{name}: {error}")
        scope = scopes.get(instruction.id, NOWHERE)
        told = {
            "schedule_index": order.get(instruction.id),
            "executions": times.get(instruction.id),
            "flops": work.flops(instruction) if instruction.id in order else None,
            "hbm_bytes": work.hbm_bytes(instruction) if instruction.id in order else None,
            **_between_slices(instruction),
            "user_layer": scope.layer,
            "user_component": scope.component,
        }
        if notes is not NOTHING or any(value is not None for value in told.values()):
            rows.append({"program_id": program.program_id, "op": name} | vars(notes) | told)
    return rows, unread


def _between_slices(instruction: HloInstruction) -> dict[str, object]:
    """What the attributes of a send or recv say."""
    told = {each.key: each.value for each in instruction.frontend_attributes.map}
    target = _TARGET.match(told.get(b"_xla_megascale_target", b""))
    name = told.get(b"_xla_host_transfer_rendezvous")
    return {
        "rendezvous": None if name is None else name.decode("utf-8", "replace"),
        "slice_count": None if target is None else target[1].count(b",") + 1,
    }


def _with_wrapped(table: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """An op that wraps a transfer has what the compiler says of it, unless it says it of the op itself."""
    if all(table[name].null_count() == table.height for name in _COLLECTIVE):
        return table
    keys = ["program_id", "op"]
    wrapping = ops.filter(pl.col("transfer_op") != pl.col("op")).select(*keys, "transfer_op")
    inner = table.filter(pl.col("collective_emitter").is_not_null()).select(
        "program_id", pl.col("op").alias("transfer_op"), *_COLLECTIVE
    )
    found = wrapping.join(inner, on=["program_id", "transfer_op"]).drop("transfer_op")
    joined = table.join(found, on=keys, how="full", coalesce=True, suffix="_inner")
    own = pl.col("collective_emitter").is_null()
    return joined.select(
        *keys,
        *(
            pl.when(own).then(f"{name}_inner").otherwise(name).alias(name)
            if name in _COLLECTIVE
            else name
            for name in INSTRUCTION_COLUMNS
            if name not in keys
        ),
    )
