"""METRICS, Attribution and Roofline: what ops cost, and what devices could have done meanwhile."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from tests.views.oracle.drawn import Row
from tests.views.oracle.peaks import peaks
from tests.views.oracle.reading import Run, grouped, ratio, total
from tests.views.oracle.requests import latency
from tests.views.oracle.split import on_cores

BYTES = {"accessed_bytes": "bytes_accessed", "hbm_bytes": "hbm_bytes"}
PARTS = {"compute": "compute_ps", "collective": "collective_ps", "copy": "copy_ps",
         "host_transfer": "copy_ps", "wait": "wait_ps", "control": "control_ps"}  # fmt: skip


def profiled(run: Run) -> list[Row]:
    """Ops that run: a copy in flight is on its line a second time."""
    return [op for op in run.rows("ops") if op["line"] not in ("Steps", "Async XLA Ops")]


def sums(ops: list[Row]) -> Row:
    """FLOPs of compute ops, and bytes; None where a part is unknown."""
    computing = [op for op in ops if op["category"] == "compute"]
    flops = {n: added(op.get(n) for op in computing) for n in ("flops", "model_flops")}
    working = [op for op in ops if op["category"] not in ("control", "wait")]
    return flops | {name: added(op.get(of) for op in working) for name, of in BYTES.items()}


def added(values: Iterable[Any]) -> Any:
    """A sum, 0 of nothing; None where a part is unknown."""
    listed = list(values)
    return total(listed) if listed else 0


def op_profile(run: Run) -> Iterator[Row]:
    """Self time, executions, FLOPs and bytes by instruction."""
    ops = profiled(run)
    whole = {
        phase: sum(op["self_ps"] for op in rows) for (phase,), rows in grouped(ops, "phase").items()
    }
    for (phase, op), rows in grouped(
        [{**op, "program_id": op.get("program_id")} for op in ops], "phase", "op"
    ).items():
        for (program,), each in grouped(rows, "program_id").items():
            self_ps = sum(row["self_ps"] for row in each)
            yield {
                "phase": phase,
                "program_id": program,
                "op": op,
                "kernel": re.sub(r"(?<=.)([._][0-9]+)+$", "", op),
                "devices": len({row["device_id"] for row in each}),
                "executions": len(each),
                "duration_ps": sum(row["duration_ps"] for row in each),
                "self_ps": self_ps,
                "self_ratio": ratio(self_ps, whole[phase]),
                **sums(each),
            }


def layer_breakdown(run: Run) -> Iterator[Row]:
    """The same by part of the model and category."""
    names = ("phase", "layer", "component", "category")
    ops = [{"layer": None, "component": None, **op} for op in profiled(run)]
    whole = {
        phase: sum(op["self_ps"] for op in rows) for (phase,), rows in grouped(ops, "phase").items()
    }
    for values, rows in grouped(ops, *names).items():
        self_ps = sum(row["self_ps"] for row in rows)
        yield {
            **dict(zip(names, values, strict=True)),
            "executions": len(rows),
            "self_ps": self_ps,
            "self_ratio": ratio(self_ps, whole[values[0]]),
            **sums(rows),
        }


def module_breakdown(run: Run) -> Iterator[Row]:
    """The same by program, beside its launches."""
    ops = [{"program_id": None, **op} for op in profiled(run)]
    by_ops = grouped(ops, "phase", "program_id")
    by_launches = grouped(run.rows("launches"), "phase", "program_id")
    for key in {**by_ops, **by_launches}:
        rows, launches = by_ops.get(key, []), by_launches.get(key, [])
        parts = dict.fromkeys(PARTS.values(), 0)
        for op in rows:
            parts[PARTS[op["category"]]] += op["self_ps"]
        yield {
            "phase": key[0],
            "program_id": key[1],
            "devices": len({row["device_id"] for row in rows + launches}),
            "launches": len(launches),
            "executions": len(rows),
            "launch_ps": sum(row["duration_ps"] for row in launches) if launches else None,
            **parts,
            **(sums(rows) if rows else dict.fromkeys(sums([]))),
        }


def mfu(run: Run) -> Iterator[Row]:
    """Model FLOPs over what the devices could have done in the windows."""
    working = [op for op in run.rows("ops") if op["category"] == "compute"]
    keyed = grouped(
        [o for o in working if o["line"] != "Async XLA Ops"], "device_id", "request", "step"
    )
    for (phase,), windows in grouped(on_cores(run), "phase").items():
        ops = [
            op for w in windows for op in keyed.get((w["device_id"], w["request"], w["step"]), [])
        ]
        counted = [(op.get("model_flops"), op.get("flops"), op["self_ps"]) for op in ops]
        unknown = sum(took for model, flops, took in counted if model is None and flops is None)
        told = [m if m is not None else f for m, f, _ in counted if (m, f) != (None, None)]
        flops = sum(told) if told else None
        busy = sum(w["busy_ps"] for w in windows)
        known = None if not busy else max(0, 1 - unknown / busy)
        could = [(peaks(run, w["device_id"]).flops, w["window_ps"] / 1e12) for w in windows]
        available = None if any(p is None for p, _ in could) else sum(p * s for p, s in could)
        steps = {(w["request"], w["step"]) for w in windows}
        analytic = _analytic(run, phase, windows, steps)
        yield {
            "phase": phase,
            "passes": len(steps),
            "device_steps": len(windows),
            "window_ps": sum(w["window_ps"] for w in windows),
            "busy_ps": busy,
            "available_flops": available,
            "flops_known_ratio": known,
            "mfu_ratio": ratio(flops, available) if (known or 0) >= 0.95 else None,
            "analytic_flops": analytic,
            "mfu_analytic_ratio": ratio(analytic, available),
        }


def _analytic(run: Run, phase: Any, windows: list[Row], steps: set[Any]) -> Any:
    """2 x active weights x tokens, and attention for each token and token of its context."""
    needed = ("active_parameters", "attention_pair_flops", "batch_size", "prompt_tokens")
    weights, pair, batch, prompt = (run.facts[name] for name in needed)
    cores = [d for d in run.devices if not run.is_sparse(d)]
    whole = len(windows) == len(steps) * len(cores)
    if phase not in ("prefill", "decode") or None in (weights, pair, batch, prompt) or not whole:
        return None
    flops = 0.0
    for _, step in steps:
        tokens = prompt if phase == "prefill" else 1
        pairs = prompt * (prompt + 1) / 2 if phase == "prefill" else prompt + step
        flops += batch * (2 * weights * tokens + pair * pairs)
    return flops


def mbu(run: Run) -> Iterator[Row]:
    """Weight and KV bytes of a decode step over TPOT and the HBM bandwidth of all devices."""
    requests = list(latency(run))
    if not requests:
        return
    rows = [row for row in requests if row["tpot_s"] is not None]
    rows.sort(key=lambda row: (row["tpot_s"], row["request"]))
    chosen = rows[(len(rows) + 1) // 2 - 1] if rows else None
    names = ("weight_bytes", "kv_bytes_per_token", "batch_size", "prompt_tokens")
    weight, kv, batch, prompt = (run.facts[name] for name in names)
    rates = [peaks(run, d).hbm for d in run.devices if not run.is_sparse(d)]
    hbm = None if None in rates else sum(rates)
    copies = math.prod(size for axis, size in run.axes if axis in ("dp", "fsdp"))
    weights = None if weight is None or not run.axes else float(weight * copies)
    keys = None
    if chosen and None not in (kv, batch, prompt):
        keys = kv * batch * (prompt + (chosen["decode_steps"] + 1) / 2)
    tpot = chosen and chosen["tpot_s"]
    moved = None if None in (weights, keys, tpot, hbm) else weights + keys
    yield {
        "phase": "decode",
        "tpot_count": len(rows),
        "tpot_s": tpot,
        "weight_bytes": weights,
        "kv_bytes": keys,
        "peak_hbm_bytes_per_s": hbm,
        "mbu_ratio": moved and ratio(moved, tpot * hbm),
    }
