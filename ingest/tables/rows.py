"""Turns rows of Python objects into frames with their table's types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import polars as pl

from xlahouse.ingest.compiled.decisions import Decisions
from xlahouse.ingest.events.frames import Device
from xlahouse.ingest.events.issues import Issue
from xlahouse.ingest.schema import BY_NAME

_OF_DEVICE = (
    "host",
    "plane",
    "local_ordinal",
    "kind",
    "core",
    "chip_id",
    "peak_flops",
    "peak_hbm_bytes_per_s",
)

_OF_OP = ["program_id", "op"]
NO_CLOCKS: dict[int, str] = {}
NO_SLICES: dict[int, int] = {}


def typed(table: str, rows: list[dict[str, object]]) -> pl.DataFrame:
    """Rows as a frame with the table's types, without run_id."""
    types = _types(table)
    if not rows:
        return pl.DataFrame(schema=types)
    return pl.DataFrame(
        rows, schema={name: kind for name, kind in types.items() if name in rows[0]}
    )


@cache
def _types(table: str) -> dict[str, pl.DataType]:
    """Column -> type of a table, without run_id."""
    empty = pl.DataFrame(pl.from_arrow(BY_NAME[table].schema.empty_table()))
    return {name: kind for name, kind in empty.schema.items() if name != "run_id"}


def device_rows(
    devices: list[Device],
    logical_ids: set[int],
    world: int,
    processes: dict[int, int],
    coords: Sequence[list[int]] = (),
    clocks: Mapping[int, str] = NO_CLOCKS,
    slices: Mapping[int, int] = NO_SLICES,
) -> pl.DataFrame:
    """Devices of a world, by logical id: traced ones with their plane's facts, and ones that are only named.

    Args:
        devices: the traced ones.
        logical_ids: of all devices that planes or programs name.
        world: the world's number.
        processes: process of each traced device.
        coords: of each device's chip, by logical id, where the manifest states them: no trace does.
        clocks: name of each traced device's clock.
        slices: slice of each device, by logical id, where programs or the manifest tell it.
    """
    traced = {device.device_id: device for device in devices}
    all_inferred = bool(devices) and all(device.inferred for device in devices)
    rows = []
    place_of = dict(enumerate(coords))
    for number in sorted(logical_ids):
        device = traced.get(number)
        logical_id = None if getattr(device, "core", None) == "sparsecore" else number
        row: dict[str, object] = {
            "device_id": number,
            "world": world,
            "logical_id": logical_id,
            "slice_index": None if logical_id is None else slices.get(logical_id),
            "coords": None if logical_id is None else place_of.get(logical_id),
            "traced": device is not None,
            "process": processes.get(number),
            "clock": clocks.get(number),
            "peaks_source": "trace" if device is not None and device.peak_flops else None,
            "inferred": all_inferred if device is None else device.inferred,
        }
        rows.append(row | {name: getattr(device, name, None) for name in _OF_DEVICE})
    return typed("devices", rows)


def issue_rows(issues: list[Issue]) -> pl.DataFrame:
    """The issues table without run_id."""
    names = ("source", "severity", "code", "message", "count")
    return typed("issues", [{name: getattr(issue, name) for name in names} for issue in issues])


def compiled_tables(
    world: int, instructions: pl.DataFrame, compiled: Decisions
) -> dict[str, pl.DataFrame]:
    """The instructions with what the compiler decided of each, the buffers, the programs.

    Args:
        world: its number.
        instructions: rows of the table instructions.
        compiled: what its compilers decided.
    """
    found = compiled.instructions
    named = instructions.drop([name for name in found.columns if name not in _OF_OP], strict=False)
    number = pl.lit(world, pl.Int64).alias("world")
    decided = named.join(found, on=_OF_OP, how="left", maintain_order="left")
    of_users = (pl.coalesce(name, f"user_{name}").alias(name) for name in ("layer", "component"))
    return {
        "instructions": decided.with_columns(*of_users).drop("user_layer", "user_component"),
        "buffers": typed("buffers", compiled.buffers).with_columns(number),
        "programs": typed("programs", compiled.programs).with_columns(number),
    }
