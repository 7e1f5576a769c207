"""Programs of ops that name their module but no program: a dump of that module may hold their HLO.

Exports of virtual CPU devices are such: they have neither launches nor program ids.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

import polars as pl

from xlahouse.ingest.events.frames import PlaneEvents
from xlahouse.ingest.hlo.file_events import FileEvents
from xlahouse.ingest.hlo.messages import new_module
from xlahouse.ingest.hlo.program import Program


def stand_ins(file: FileEvents) -> dict[int, Program]:
    """By a number made from its name, each module of such ops, with the names of its ops alone."""
    ops: dict[str, dict[str, None]] = {}
    planes = [plane for plane in file.planes if not plane.ops.is_empty()]
    if not planes:
        return {}
    launched = {module for plane in file.planes for module in plane.launches["module"].unique()}
    for plane in planes:
        for module, op in _unnumbered(plane).select("module", "op").unique().sort("op").rows():
            if module not in launched:
                ops.setdefault(module, {})[op] = None
    return {_number(module): _of_names(module, list(names)) for module, names in ops.items()}


def _unnumbered(plane: PlaneEvents) -> pl.DataFrame:
    return plane.ops.filter(pl.col("program_id").is_null()).drop_nulls(["module", "op"])


def _number(module: str) -> int:
    return int.from_bytes(hashlib.sha256(module.encode()).digest()[:8], "big")


def _of_names(module: str, names: list[str]) -> Program:
    proto = new_module()
    proto.name = module.encode()
    holder = proto.computations.add(id=1)
    for number, name in enumerate(names, start=1):
        holder.instructions.add(name=name.encode(), id=number)
    return Program(_number(module), module, proto, loose=True)


def is_stand_in(program: Program) -> bool:
    """Whether a program is one of stand_ins."""
    return program.loose and program.program_id == _number(program.module)


def settle(file: FileEvents, stood_in: dict[int, Program]) -> None:
    """Give ops the number of their program where a dump has taken its stand-in's place; drop the others."""
    found = {}
    for number, program in stood_in.items():
        if file.programs[number].loose:
            del file.programs[number]
        else:
            found[program.module] = number
    if found:
        number_of = pl.col("module").replace_strict(found, default=None, return_dtype=pl.UInt64)
        numbered = pl.coalesce("program_id", number_of)
        file.planes[:] = [
            replace(plane, ops=plane.ops.with_columns(program_id=numbered)) for plane in file.planes
        ]
