"""What the instructions of a compiled program cost at least and at most, and where each cost comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from xlahouse.capture.errors import WarehouseError
from xlahouse.ingest.replay.programs import Instruction, InstructionTime, Timeline
from xlahouse.sql.predict.changes import Change
from xlahouse.sql.predict.clocks import ChipClock
from xlahouse.sql.predict.costs import Chip
from xlahouse.sql.predict.fits import PS, Fits, Key, ring_steps

if TYPE_CHECKING:
    from xlahouse.sql.warehouse import Warehouse

_INSTRUCTIONS = """
    select op, computation, opcode, called, operands, shape, executions, estimated_cycles, flops, hbm_bytes
    from instructions
    where run_id = $run and program_id = $program and schedule_index is not null
    order by schedule_index
"""
# One row a transfer of a program: the most that a member sends, and the least time over its groups' links.
_TRANSFERS = """
    select
        w.op, min(w.kind) as kind, min(w.axis) as axis, min(i.collective_strategy) as strategy,
        max(w.group_size) as group_size, bool_or(w.is_async) as is_async,
        case when count(w.wire_bytes) = count(*) then max(w.wire_bytes) end as wire_bytes,
        max(g.peak_ici_bytes_per_s) as link_bytes_per_s,
        max(
            w.wire_bytes * case
                when w.kind in ('collective-permute', 'send-recv') then g.pairs
                when w.kind = 'collective-broadcast' then w.group_size - 1
                else w.group_size
            end / nullif(g.ici_link_count * g.peak_ici_bytes_per_s, 0)
        ) * 1e12 as ici_ps
    from _wire_v1 w
    left join _group_link_v2 g
        on g.run_id = w.run_id and g.world = w.world and g.program_id = w.program_id and g.op = w.op
        and g.group_index = w.group_index
    left join instructions i
        on i.run_id = w.run_id and i.world = w.world and i.program_id = w.program_id and i.op = w.op
    where w.run_id = $run and w.program_id = $program and not w.is_measured
    group by w.op order by w.op
"""


class Range(NamedTuple):
    """The least and the most that something takes, and what the most rests on."""

    least: InstructionTime  # of one execution
    most: InstructionTime  # of one execution
    part: str  # compute, copy, or axis and kind of a transfer
    origin: str  # what the most rests on
    executions: int | None  # in one execution of the program; None: decided at run time


@dataclass(frozen=True)
class Ground:
    """What costs of compiled instructions rest on."""

    name: str  # of the run
    chip: Chip  # peaks
    clock: ChipClock  # turns cycles into time
    fits: Fits  # of measured transfers
    change: Change = field(default_factory=Change)  # of links and latency


class CostedProgram(NamedTuple):
    """A compiled program with the costs of its instructions."""

    timeline: Timeline  # its instructions
    entry: str  # name of its entry computation
    ranges: Mapping[str, Range]  # instruction -> its cost
    flops: float  # of all executions
    hbm_bytes: float  # of all executions

    def costs(self, most: bool) -> dict[str, InstructionTime]:
        """Op -> what it takes."""
        return {op: each.most if most else each.least for op, each in self.ranges.items()}


def read_program(
    warehouse: Warehouse, run_id: str, program_id: int, ground: Ground
) -> CostedProgram:
    """Read a compiled program.

    Raises:
        WarehouseError: its schedule, or what an instruction does, is not known.
    """
    given = {"run": run_id, "program": program_id}
    rows = warehouse.query(_INSTRUCTIONS, given).pl()
    if rows.is_empty():
        raise WarehouseError(
            f"{ground.name}: its program states no schedule, so the order of its instructions is not known"
        )
    instructions = [
        Instruction(
            row["op"],
            row["computation"],
            row["opcode"],
            tuple((row["called"] or "").split(",")) if row["called"] else (),
            tuple((row["operands"] or "").split(",")),
            row["shape"] or "",
            row["executions"],
        )
        for row in rows.iter_rows(named=True)
    ]
    timeline = Timeline.of(ground.name, instructions)
    transfers = {row["op"]: row for row in warehouse.query(_TRANSFERS, given).dicts()}
    _check_work(ground.name, rows.filter(~pl.col("op").is_in(list(transfers))))
    ranges = {}
    for row in rows.iter_rows(named=True):
        moved = transfers.get(row["op"])
        found = (
            _of_work(ground, row, row["op"] in timeline.starts)
            if moved is None
            else _of_transfer(ground, moved, row["executions"], row["op"] in timeline.starts)
        )
        if found is not None:
            ranges[row["op"]] = found
    often = pl.col("executions").fill_null(0)
    total = rows.filter(~pl.col("op").is_in(list(transfers))).select(
        flops=(pl.col("flops").fill_null(0) * often).sum().cast(pl.Float64),
        hbm_bytes=(pl.col("hbm_bytes").fill_null(0) * often).sum().cast(pl.Float64),
    )
    # The entry's last instruction is the last of all.
    return CostedProgram(timeline, instructions[-1].computation, ranges, *total.row(0))


def _check_work(name: str, rows: pl.DataFrame) -> None:
    """Refuse a program whose work is not stated."""
    unknown = rows.filter(
        (pl.col("flops").is_null() & pl.col("estimated_cycles").is_null())
        | pl.col("hbm_bytes").is_null()
    )
    if unknown.height:
        some = ", ".join(unknown["op"].head(3).to_list())
        raise WarehouseError(
            f"{name}: neither the compiler nor the HLO says what {unknown.height} of its instructions "
            f"cost ({some}), so its step cannot be forecast"
        )


def _of_work(ground: Ground, row: Mapping[str, object], is_start: bool) -> Range | None:
    """The range of an instruction that computes or copies; None of one that takes no time."""
    chip = ground.chip
    math = PS * _number(row["flops"]) / chip.flops_per_s
    hbm = PS * _number(row["hbm_bytes"]) / chip.hbm_bytes_per_s
    cycles = row["estimated_cycles"]
    least = max(math, hbm)
    if cycles is None:
        most, origin = math + hbm, "peaks"
    else:
        most, origin = max(least, PS * _number(cycles) / ground.clock.hz), "cycles"
    if not most:
        return None
    opcode, executions = str(row["opcode"]), row["executions"]
    assert executions is None or isinstance(executions, int)
    part = "copy" if opcode.startswith("copy") or is_start else "compute"
    if is_start:
        return Range(InstructionTime(0, least), InstructionTime(0, most), part, origin, executions)
    return Range(InstructionTime(least), InstructionTime(most), part, origin, executions)


def _of_transfer(
    ground: Ground, row: Mapping[str, object], executions: int | None, is_start: bool
) -> Range | None:
    """The range of a transfer between devices; None where nothing moves."""
    wire, size, kind = row["wire_bytes"], row["group_size"], str(row["kind"])
    if wire == 0:
        return None
    axis, strategy = (
        None if row[name] is None else str(row[name]) for name in ("axis", "strategy")
    )
    key = (axis, kind, strategy, None if size is None else int(_number(size)))
    found = _moved(ground, row, key)
    if found is None:
        raise WarehouseError(
            f"{ground.name}: what transfer {row['op']} takes is not known: its bytes or the peak of its "
            "links are not, and no transfers like it are measured in this warehouse"
        )
    least, most, origin = found
    most = max(least, most)
    part = f"{axis} {kind}"
    if is_start:
        ranges = InstructionTime(0, least, True), InstructionTime(0, most, True)
    elif row["is_async"]:  # where it must have ended is not known: hidden at best
        ranges = InstructionTime(0, None, True), InstructionTime(most, None, True)
    else:
        ranges = InstructionTime(least, None, True), InstructionTime(most, None, True)
    return Range(*ranges, part, origin, executions)


def _moved(ground: Ground, row: Mapping[str, object], key: Key) -> tuple[float, float, str] | None:
    """(least, most that a transfer takes, what the most rests on); None where it is not known.

    Latency is not a part of the least but where the user states it.
    """
    if row["wire_bytes"] is None:
        return None
    ici, latency, wire = ground.change.ici, ground.change.latency, _number(row["wire_bytes"])
    origin, line = ground.fits.of(key)
    times = (ici.times if ici is not None else None) or 1.0
    stated = 0 if latency is None else latency.ps * ring_steps(key[1], key[3])
    waited = 0.0 if line is None else line.latency_ps * ring_steps(key[1], key[3])
    if latency is not None:
        waited = waited + stated if latency.is_added else stated
    least = _number(row["ici_ps"]) / times
    if ici is not None and ici.bytes_per_s is not None:
        least = PS * wire / ici.bytes_per_s
        return least + stated, least + waited, "stated"
    if line is not None:
        return least + stated, waited + wire * line.ps_per_byte / times, origin
    if row["link_bytes_per_s"] is None:
        return None
    one = PS * wire / (_number(row["link_bytes_per_s"]) * times)
    return least + stated, waited + one, "one link"


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
