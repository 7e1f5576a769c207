"""Builds small measured runs from rows in a few words, as ingest/replay takes them."""

from __future__ import annotations

import polars as pl
import pyarrow as pa

from xlahouse.ingest.replay.measured import NEEDED, Measured
from xlahouse.ingest.schema import BY_NAME


def op(device, start, end, name="fusion.1", category="compute", line="XLA Ops", **more):
    """A row of ops."""
    row = {"device_id": device, "start_ps": start, "duration_ps": end - start, "op": name}
    return row | {"category": category, "line": line, "is_async": False, "program_id": 1} | more


def transfer(device, start, end, instance, name="all-reduce.1", kind="all-reduce", **more):
    """A synchronous row of collectives; `arrival` defaults to its start."""
    row = {"device_id": device, "start_ps": start, "duration_ps": end - start, "op": name}
    row |= {"instance": instance, "kind": kind, "group_index": 0, "program_id": 1}
    return row | {"arrival_ps": start, "is_async": False, "request": 0, "step": 0} | more


def launch(device, start, end, enqueue=None, step=0, **more):
    """A row of launches."""
    row = {"device_id": device, "start_ps": start, "duration_ps": end - start, "launch": step}
    return row | {"enqueue_ps": enqueue, "enqueue_thread": "t", "request": 0, "step": step} | more


def measured(ops, collectives=(), launches=(), steps=None, pairs=(), cores=None, **tables):
    """A run; without steps, each device has one from its first op's start to its last op's end."""
    devices = sorted({row["device_id"] for row in ops})
    ops = [*ops, *(_as_op(row) for row in collectives if not row["is_async"])]
    if steps is None:
        steps = [
            step_of(device, [row for row in ops if row["device_id"] == device])
            for device in devices
        ]
    rows = {
        "devices": [
            {"device_id": device, "host": "h", "core": (cores or {}).get(device, "tensorcore")}
            for device in devices
        ],
        "ops": ops,
        "collectives": list(collectives),
        "launches": list(launches),
        "device_steps": steps,
        "permute_pairs": [
            {"program_id": 1, "op": name, "source_device_id": one, "target_device_id": other}
            for name, one, other in pairs
        ],
        **tables,
    }
    return Measured("r", **{name: _table(name, rows.get(name, [])) for name in NEEDED})


def _table(name, rows):
    return pl.from_arrow(pa.Table.from_pylist(rows, BY_NAME[name].schema))


def step_of(device, ops, step=0):
    """A row of device_steps around some ops."""
    start = min(row["start_ps"] for row in ops)
    end = max(row["start_ps"] + row["duration_ps"] for row in ops)
    return {
        "device_id": device,
        "request": 0,
        "step": step,
        "phase": "decode",
        "start_ps": start,
        "duration_ps": end - start,
    }


def _as_op(row):
    """The op of a synchronous collective."""
    return op(
        row["device_id"],
        row["start_ps"],
        row["start_ps"] + row["duration_ps"],
        row["op"],
        "collective",
    )


def spans(schedule, times, table="ops"):
    """(device, op, start, end) of each row as replayed."""
    rows = getattr(schedule.run, table)
    line = {"ops": schedule.lines.of_op, "launches": schedule.lines.of_launch}[table]
    found = []
    for row, number in zip(rows.iter_rows(named=True), line.tolist(), strict=True):
        at = pl.Series([row["start_ps"], row["start_ps"] + row["duration_ps"]]).to_numpy()
        start, end = times.warps[number].at(at).tolist()
        found.append((row["device_id"], row.get("op", row["launch"]), start, end))
    return found


def savings(of):
    """Costs.savings of instance -> saved_ps."""
    schema = {"instance": pl.Int64, "saved_ps": pl.Int64}
    return pl.DataFrame({"instance": list(of), "saved_ps": list(of.values())}, schema=schema)
