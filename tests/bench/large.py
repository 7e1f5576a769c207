"""Writes warehouses too large to trace, straight into the tables: queries are timed on them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tests.device_steps import both_tables
from xlahouse.ingest.schema import BY_NAME, INGEST_VERSION, LAYOUT_VERSION

DP, TP = 2, 4
DEVICES = DP * TP
A_STEP = 50  # collectives of a step on a device: the last two go over dp, the others over tp
OPS = 10  # ops for each collective
STEPS_A_REQUEST = 100
PROGRAM = 1 << 63
RUN = "large"
# a step, and a collective with the ops before it
STEP_PS, SLOT_PS = (
    60_000_000_000,
    1_000_000_000,
)
Part = tuple[str, int, dict[str, Any]]  # table, number of the part, columns


def write_large(root: Path, collectives: int, ops: bool = True) -> Path:
    """A warehouse with one run of 8 devices, `collectives` collectives and ten times as many ops.

    Each step computes, and communicates 48 times over tp and twice over dp. Start times are drawn at
    random, so that hardly any two intervals have the same length. Without `ops`, the tables `ops`,
    `busy_intervals`, `busy_stretches` and `device_steps` are empty.
    """
    steps = collectives // DEVICES // A_STEP
    mesh = [{"axis": "dp", "size": DP}, {"axis": "tp", "size": TP}]
    row = {"mesh": mesh, "batch_size": 8, "output_tokens": STEPS_A_REQUEST}
    return write_parts(root, _parts(steps, ops), row)


def write_parts(root: Path, parts: Iterable[Part], row: dict[str, Any]) -> Path:
    """A warehouse with one run.

    Args:
        root: a new folder.
        parts: of tables: arrays, or one value for all rows, by column; columns that are left out are NULL.
        row: of the run, besides its files.
    """
    files: list[dict[str, Any]] = []
    root.mkdir(parents=True)
    marker = {"layout_version": LAYOUT_VERSION, "xlahouse_version": "0"}
    (root / "warehouse.json").write_text(json.dumps(marker))
    for name, part, columns in parts:
        path = root / "tables" / name / f"run_id={RUN}" / f"part-{part}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = _table(name, columns)
        pq.write_table(rows, path, compression="zstd", row_group_size=1 << 17)
        files.append({"table": name, "path": str(path.relative_to(root)), "rows": rows.num_rows})
    row = {"run_id": RUN, "name": RUN, "ingest_version": INGEST_VERSION, "files": files} | row
    path = root / "tables" / "runs" / f"{RUN}.parquet"
    path.parent.mkdir()
    pq.write_table(pa.Table.from_pylist([row], BY_NAME["runs"].schema), path)
    return root


def _table(name: str, columns: dict[str, Any]) -> pa.Table:
    """Columns, each an array or one value for all rows, in the table's schema; the rest is NULL."""
    schema, count = BY_NAME[name].schema, max(len(v) for v in columns.values() if np.ndim(v))
    arrays = []
    for field in schema:
        value = columns.get(field.name)
        if field.name == "run_id":
            value = RUN
        if np.ndim(value):
            arrays.append(pa.array(value).cast(field.type))
        else:
            arrays.append(pa.repeat(pa.scalar(value, field.type), count))
    return pa.Table.from_arrays(arrays, schema=schema)


def _parts(steps: int, ops: bool) -> Iterator[Part]:
    """A part per device where a table is large."""
    devices = np.arange(DEVICES)
    yield "devices", 0, {
        "device_id": devices, "logical_id": devices, "world": 0, "traced": True, "host": "h",
        "kind": "TPU v6 lite", "core": "tensorcore", "inferred": False,
    }  # fmt: skip
    yield "replica_groups", 0, _groups()
    yield "phases", 0, _phases(steps)
    for device in range(DEVICES):
        drawn = np.random.default_rng(device)
        at = _steps(steps) | {"device_id": device}
        launches = at | {
            "launch": np.arange(steps), "launch_instance": np.arange(steps),
            "program_id": PROGRAM, "module": "jit_step", "duration_ps": STEP_PS - SLOT_PS,
            "start_ps": np.arange(steps) * STEP_PS, "enqueue_ps": np.arange(steps) * STEP_PS - 5000,
        }  # fmt: skip
        yield "launches", device, launches
        collectives = _collectives(steps, device, drawn)
        yield "collectives", device, collectives
        if ops:
            every, busy = _ops(collectives, drawn), _busy(collectives, drawn)
            yield "ops", device, every
            yield "busy_intervals", device, busy
            split, stretches = _split_steps(every, busy, launches)
            yield "device_steps", device, split
            yield "busy_stretches", device, stretches


def _steps(steps: int) -> dict[str, Any]:
    """Request, step and phase of each step."""
    number = np.arange(steps)
    step = number % STEPS_A_REQUEST
    phase = np.where(step == 0, "prefill", "decode")
    return {"request": number // STEPS_A_REQUEST, "step": step, "phase": phase}


def _phases(steps: int) -> dict[str, Any]:
    starts = np.arange(steps) * STEP_PS - 10_000
    return _steps(steps) | {
        "host": "h", "source": "marker", "start_ps": starts, "duration_ps": STEP_PS - 10_000,
    }  # fmt: skip


def _members() -> tuple[np.ndarray, np.ndarray]:
    """Devices of each group of tp and of dp, both [groups, members]."""
    mesh = np.arange(DEVICES).reshape(DP, TP)
    return mesh, mesh.T


def _groups() -> dict[str, Any]:
    rows = [
        (op, group, position, device)
        for number, groups in enumerate(_members())
        for op in _names()[number]
        for group, members in enumerate(groups.tolist())
        for position, device in enumerate(members)
    ]
    op, group, position, device = map(np.array, zip(*rows, strict=True))
    return {
        "world": 0, "program_id": PROGRAM, "op": op, "group_index": group, "position": position,
        "logical_id": device, "device_id": device,
    }  # fmt: skip


def _names() -> tuple[list[str], list[str]]:
    return [f"all-reduce.{k}" for k in range(A_STEP - 2)], ["all-gather.0", "all-gather.1"]


def _collectives(steps: int, device: int, drawn: np.random.Generator) -> dict[str, Any]:
    count, over_dp = steps * A_STEP, np.arange(A_STEP) >= A_STEP - 2
    index = np.arange(count) // A_STEP
    slot = np.tile(np.arange(A_STEP), steps)
    group = np.where(over_dp, device % TP, device // TP)
    kinds = np.where(over_dp, "all-gather", "all-reduce")
    start = index * STEP_PS + slot * SLOT_PS + drawn.integers(600_000_000, 700_000_000, count)
    return {key: np.repeat(value, A_STEP) for key, value in _steps(steps).items()} | {
        "device_id": device, "launch": index, "program_id": PROGRAM, "module": "jit_step",
        "op": np.tile(np.array([*_names()[0], *_names()[1]]), steps), "kind": np.tile(kinds, steps),
        "instance": (index * A_STEP + slot) * DEVICES + np.tile(group, steps),
        "group_index": np.tile(group, steps),
        "group_size": np.tile(np.where(over_dp, DP, TP), steps), "dtype": "bf16",
        "payload_bytes": np.tile(np.where(over_dp, 1 << 20, 8192), steps),
        "start_ps": start, "duration_ps": drawn.integers(100_000_000, 200_000_000, count),
        "is_async": False, "arrival_ps": start - 1000,
    }  # fmt: skip


_AT = ("device_id", "launch", "program_id", "module", "request", "step", "phase")


def _ops(collectives: dict[str, Any], drawn: np.random.Generator) -> dict[str, Any]:
    """Nine compute ops before each collective, and the collective."""
    count, compute = len(collectives["start_ps"]), np.arange(OPS) < OPS - 1
    every = {
        key: np.repeat(value, OPS) if np.ndim(value) else value
        for key, value in ((key, collectives[key]) for key in _AT)
    }
    starts = collectives["start_ps"][:, None] - (OPS - 1 - np.arange(OPS)) * 60_000_000
    lengths = drawn.integers(40_000_000, 60_000_000, (count, OPS))
    lengths[:, -1] = collectives["duration_ps"]
    names = np.array([f"fusion.{k}" for k in range(OPS)])
    return every | {
        "op": np.where(compute, names, collectives["op"][:, None]).ravel(),
        "opcode": np.where(compute, "fusion", collectives["kind"][:, None]).ravel(),
        "category": np.tile(np.where(compute, "compute", "collective"), count),
        "line": "XLA Ops", "is_async": False, "start_ps": starts.ravel(),
        "duration_ps": lengths.ravel(), "self_ps": lengths.ravel(),
        "attributed_ps": lengths.ravel(), "component": "mlp",
        "layer": np.repeat(np.arange(count) % A_STEP, OPS), "flops": 1e9, "bytes_accessed": 1e6,
    }  # fmt: skip


def _busy(collectives: dict[str, Any], drawn: np.random.Generator) -> dict[str, Any]:
    """Three intervals of compute before each collective, and the collective's own."""
    count = len(collectives["start_ps"])
    starts = collectives["start_ps"][:, None] - (3 - np.arange(4)) * 180_000_000
    lengths = drawn.integers(140_000_000, 180_000_000, (count, 4))
    lengths[:, -1] = collectives["duration_ps"]
    kinds = np.array(["compute", "compute", "compute", "collective"])
    return {key: np.repeat(collectives[key], 4) for key in ("request", "step")} | {
        "device_id": collectives["device_id"], "category": np.tile(kinds, count),
        "start_ps": starts.ravel(), "duration_ps": lengths.ravel(),
    }  # fmt: skip


def _split_steps(
    ops: dict[str, Any], busy: dict[str, Any], launches: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The tables that ingest derives from a device's ops, busy intervals and launches."""
    spans = pl.DataFrame({name: ops[name] for name in ("request", "step", "phase", "start_ps")})
    spans = spans.with_columns(
        end_ps=pl.col("start_ps") + ops["duration_ps"], device_id=ops["device_id"]
    )
    split, stretches = both_tables(spans, pl.DataFrame(busy), pl.DataFrame(launches))
    return split.to_dict(as_series=False), stretches.to_dict(as_series=False)
