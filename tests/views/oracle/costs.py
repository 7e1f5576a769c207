"""METRICS, Attribution and Roofline: what ops cost, and what devices could have done meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from tests.views.oracle.drawn import Row
from tests.views.oracle.peaks import peaks
from tests.views.oracle.reading import Run, grouped, mean, ratio, total
from tests.views.oracle.requests import latency
from tests.views.oracle.split import counted

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
    """FLOPs of the model, and of the compiled ops, over what the devices could have done meanwhile."""
    working = [op for op in run.rows("ops") if op["category"] == "compute"]
    keyed = grouped(
        [o for o in working if o["line"] != "Async XLA Ops"], "device_id", "request", "step"
    )
    for (phase,), windows in grouped(counted(run), "phase").items():
        ops = [
            op for w in windows for op in keyed.get((w["device_id"], w["request"], w["step"]), [])
        ]
        costs = [(op.get("flops"), op.get("model_flops"), op["self_ps"]) for op in ops]
        unknown = sum(took for flops, model, took in costs if flops is None and model is None)
        told = [f if f is not None else m for f, m, _ in costs if (m, f) != (None, None)]
        compiled = sum(told) if told else None
        busy, wall = sum(w["busy_ps"] for w in windows), total(w["period_ps"] for w in windows)
        known = None if not busy else max(0, 1 - unknown / busy)
        could = [(peaks(run, w["device_id"]).flops, w["period_ps"]) for w in windows]
        gone = any(None in pair for pair in could)
        available = None if gone else sum(p * took / 1e12 for p, took in could)
        steps = {(w["request"], w["step"]) for w in windows}
        needed = _needed(run, phase, windows, steps)
        yield {
            "phase": phase,
            "passes": len(steps),
            "device_steps": len(windows),
            "period_ps": wall,
            "window_ps": sum(w["window_ps"] for w in windows),
            "busy_ps": busy,
            "model_flops": needed,
            "compiled_flops": compiled,
            "available_flops": available,
            "mfu_ratio": ratio(needed, available),
            "hfu_ratio": ratio(compiled, available) if (known or 0) >= 0.95 else None,
            "flops_known_ratio": known,
        }


def _needed(run: Run, phase: Any, windows: list[Row], steps: set[Any]) -> Any:
    """Token by token: its weights, the head where its logits are computed, each token of its context."""
    names = ("attention_pair_flops", "batch_size", "prompt_tokens", "head_weights")
    pair, batch, prompt, head = (run.facts[name] for name in names)
    names = ("whole_weights", "tensor_weights", "expert_weights")
    weights = [run.facts[name] for name in names]
    logits = run.facts["logit_positions"] if phase == "prefill" else 1
    chosen = 0
    if weights[2]:
        chosen = ratio(run.facts["experts_per_token"], run.facts["experts"])
    cores = [d for d in run.devices if not run.is_sparse(d)]
    whole = len(windows) == len(steps) * len(cores)
    facts = (pair, batch, prompt, head, logits, chosen, *weights)
    if phase not in ("prefill", "decode") or None in facts or not whole:
        return None
    body = weights[0] + weights[1] + weights[2] * chosen - 2 * head
    flops = 0.0
    for _, step in steps:
        contexts = range(1, prompt + 1) if phase == "prefill" else [prompt + step]
        flops += batch * (sum(2 * body + pair * seen for seen in contexts) + 2 * head * logits)
    return flops


def mbu(run: Run) -> Iterator[Row]:
    """Weights, keys and values that a decode step reads, over TPOT and the HBM bandwidth of all devices."""
    requests = list(latency(run))
    if not requests:
        return
    rows = [row for row in requests if row["tpot_s"] is not None and row["source"] == "marker"]
    rows.sort(key=lambda row: (row["tpot_s"], row["request"]))
    middle = rows[(len(rows) - 1) // 2 : len(rows) // 2 + 1]
    tpot, steps = (mean([row[name] for row in middle]) for name in ("tpot_s", "decode_steps"))
    kv, batch, prompt = (
        run.facts[name] for name in ("kv_bytes_per_token", "batch_size", "prompt_tokens")
    )
    rates = [peaks(run, d).hbm for d in run.devices if not run.is_sparse(d)]
    hbm = None if None in rates else sum(rates)
    weights = _read(run) if run.axes else None
    keys = None
    if middle and None not in (kv, batch, prompt):
        keys = kv * batch * (prompt + (steps + 1) / 2)
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


def _read(run: Run) -> float | None:
    """Bytes of weights: the body by every part of the batch, rows of tokens, experts that are reached."""
    facts = run.facts
    width = {"float32": 4, "bfloat16": 2}.get(facts["dtype"])
    names = ("weight_bytes", "lookup_weights", "expert_weights")
    size, looked_up, experts = (facts[name] for name in names)
    if None in (width, size, looked_up, experts):
        return None
    sizes = dict(run.axes)
    copies = sizes.get("dp", 1) * sizes.get("fsdp", 1)
    read = (size - width * (looked_up + experts)) * copies * sizes.get("ep", 1)
    if looked_up:
        if None in (facts["batch_size"], facts["hidden_size"]):
            return None
        read += width * facts["batch_size"] * facts["hidden_size"]
    if experts:
        chosen = (facts["batch_size"], facts["experts_per_token"], facts["experts"])
        if None in chosen:
            return None
        reached = min(chosen[2], chosen[0] / copies * chosen[1])
        read += width * experts * reached / chosen[2] * copies
    return float(read)
