"""Small whole traces, and the rows that became of them."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from tests.ingest.build import ModuleBuilder, PlaneBuilder, shape, space


def rows(root, table):
    files = sorted(Path(root).glob(f"tables/{table}/*/*.parquet"))
    return pl.concat([pl.read_parquet(file, hive_partitioning=False) for file in files])


def all_reduce_module(name="jit_f", devices=((0,), (1,))):
    """A module of one all-reduce over partitions 0 and 1, which are on the devices given."""
    module = ModuleBuilder(name, devices=[list(row) for row in devices])
    entry = module.computation("main")
    x = module.add(entry, "x", "parameter", shape("f32", 256))
    module.add(
        entry,
        "all-reduce.1",
        "all-reduce",
        shape("f32", 256),
        x,
        channel_id=1,
        use_global_device_ids=True,
        groups=[[0, 1]],
    )
    return module


def tpu_trace(number=0, hlo=True):
    """One launch with one all-reduce between devices 0 and 1, seen on device `number`."""
    plane = PlaneBuilder(
        f"/device:TPU:{number}",
        core_details=b"\x28" + bytes([number]) + b"\x30" + bytes([number]),
        device_type_string="TPU v6 Lite",
    )
    plane.event(plane.line("XLA Modules"), "jit_f(77)", 1000, 5000)
    text = "%all-reduce.1 = f32[256]{0} all-reduce(f32[256]{0} %x)"
    meta = {"program_id": 77, "hlo_category": "all-reduce"}
    plane.event(plane.line("XLA Ops"), text, 2000, 1000, "all-reduce.1", meta)
    metadata = PlaneBuilder("/host:metadata")
    metadata.metadata("jit_f(77)", meta={"Hlo Proto": all_reduce_module().serialize()})
    return space(*([metadata.plane] if hlo else []), plane.plane)


def write(path, raw):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(raw)
    return str(path)


def whole(read):
    """The planes of a file that was read, and what was put off of each."""
    return [
        piece for plane in read.planes for piece in (plane, plane.rest and plane.rest()) if piece
    ]


def op_rows(read):
    """The ops of a file that was read."""
    pieces = whole(read)
    by_kind = [piece.op_events.rows() for piece in pieces if piece.op_events is not None]
    return pl.concat([*(piece.ops for piece in pieces), *by_kind])


def host_event_rows(*planes):
    """The host events of planes: those that were read, and those that are read while they are written."""
    pieces = [plane.host_pieces.frame() for plane in planes if plane.host_pieces is not None]
    return pl.concat([*(plane.host_events for plane in planes), *pieces])
