"""Answers of op_profile, layout and hardware_peaks: what each instruction took, and how its result lies."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.synth.answers.efficiency import PEAK_FLOPS, Executed, executed, flops
from tests.synth.answers.model import PEAK_HBM
from tests.synth.describe import Run
from tests.synth.hlo import Shape
from tests.synth.lower import lower
from tests.synth.programs import extra_program, programs
from tests.synth.timeline import OPS, simulate
from tests.synth.traffic import Row

PEAK_LINK = 9e10
MEMORIES = {0: "HBM", 1: "VMEM", 2: "other", 5: "host"}
ROWS, LANES = 8, 128  # of a tile


def self_ps(run: Run, each: Executed) -> int:
    """An op's time less that of the ops inside it: a loop's alone have some."""
    if each.event.op != "while":
        return each.event.duration
    end = each.event.start + each.event.duration
    return each.event.duration - sum(
        other.duration
        for other in simulate(run, each.times.program)[each.position]
        if other.line == OPS and other.op != "while" and each.event.start <= other.start < end
    )


@dataclass
class _Total:
    devices: set[int] = field(default_factory=set)
    executions: int = 0
    duration: int = 0
    self_time: int = 0
    flops: int | None = 0


def op_profile(run: Run) -> list[Row]:
    """Rows of op_profile_v1 of the marked phases (or of the steps without markers)."""
    totals: dict[tuple, _Total] = defaultdict(_Total)
    phases: dict[str, int] = defaultdict(int)
    for each in executed(run):
        label = each.times.label
        if label is None or not each.count:
            continue
        total = totals[label, each.times.program.id, each.event.op, each.category]
        own, cost = each.count * self_ps(run, each), flops(run, each)
        total.devices.add(each.position)
        total.executions += each.count
        total.duration += each.count * each.event.duration
        total.self_time += own
        total.flops = None if cost is None else (total.flops or 0) + each.count * cost
        phases[label] += own
    return [
        {
            "phase": phase,
            "program_id": program,
            "op": op,
            "kernel": op.rstrip(".0123456789"),
            "category": category,
            "devices": len(total.devices),
            "executions": total.executions,
            "duration_ps": total.duration,
            "self_ps": total.self_time,
            "self_ratio": total.self_time / phases[phase],
            # a loop's own cost, and a wait's, are not asked for
            "flops": None if total.flops is None else float(total.flops),
        }
        for (phase, program, op, category), total in totals.items()
    ]


def padded(shape: Shape) -> int:
    """Bytes of whole tiles of 8 rows and 128 lanes; of a tuple, of all its parts."""
    if shape.parts:
        return sum(padded(part) for part in shape.parts)
    if not shape.tiles:
        return shape.bytes
    *outer, rows, lanes = shape.dims
    whole = -(-rows // ROWS) * ROWS * -(-lanes // LANES) * LANES
    return math.prod(outer) * whole * (shape.bytes // math.prod(shape.dims))


def layout(run: Run) -> list[Row]:
    """Rows of layout_v1: every instruction of every program that a traced device ran."""
    return [row for program in _programs(run) for row in _instructions(run, program)]


def _programs(run: Run) -> Iterator:
    yield from (p for p in programs(run) if set(p.positions) & set(run.positions))
    if run.extra_launches:
        yield extra_program(run)


def _instructions(run: Run, program) -> Iterator[Row]:
    for computation in lower(run, program).computations:
        for instruction in computation.instructions:
            shape, plain = instruction.shape, not instruction.shape.parts
            size, whole = shape.bytes, padded(shape)
            tiles = "".join(f"({','.join(map(str, tile))})" for tile in shape.tiles)
            yield {
                "program_id": program.id,
                "module": program.name,
                "computation": computation.name,
                "op": instruction.name,
                "opcode": instruction.opcode,
                "dtype": shape.dtype,
                "dims": list(shape.dims) if plain else None,
                "minor_to_major": list(reversed(range(len(shape.dims)))) if plain else None,
                "tiling": (tiles or None) if plain else None,
                "memory_space_id": shape.space if plain else None,
                "memory": MEMORIES[shape.space] if plain else None,
                "logical_bytes": size,
                "padded_bytes": whole,
                "waste_bytes": whole - size,
                "padding_ratio": whole / size,
            }


def hardware_peaks(run: Run) -> list[Row]:
    """Rows of hardware_peaks_v1 of traced devices: a v6e chip is one device."""
    return [
        {
            "device_id": run.devices[position],
            "devices_per_chip": 1,
            "peak_flops_per_s": PEAK_FLOPS,
            "peak_hbm_bytes_per_s": PEAK_HBM,
            "peak_ici_bytes_per_s": PEAK_LINK,
            "peaks_source": "table",
        }
        for position in run.positions
    ]


def profile(run: Run) -> dict[str, list[Row]]:
    """All of these, by name."""
    return {
        "op_profile": op_profile(run),
        "layout": layout(run),
        "hardware_peaks": hardware_peaks(run),
        "hbm_capacity": [{"device_bytes": 32 * 2**30}],  # all are of v6e
    }
