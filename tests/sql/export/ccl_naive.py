"""CCL-Bench's metrics for TPUs, worked out plainly over the JSON of a trace: apart from every view.

Follows the definitions of its tools, faults included; None where they give -1, NaN or nothing.
"""

from __future__ import annotations

import re
from statistics import mean, median
from typing import Any

STEP = "$core.py:331 step"
TRANSFER = re.compile(
    r"nccl|all[-_]?reduce|all[-_]?gather|reduce[-_]?scatter|all[-_]?to[-_]?all|cross[-_]?device"
    r"|sendrecv|collective",
    re.IGNORECASE,
)
COMPUTE = ("dot", "convolution", "gemm", "matmul", "fusion", "compute", "custom-call")
COUNTED = (
    *("all-reduce", "allreduce", "all-gather", "allgather", "reduce-scatter", "reducescatter"),
    *("all-to-all", "alltoall", "collective", "nccl"),
)
EXACT = {
    *("all-reduce", "allreduce", "all_reduce", "all-gather", "allgather", "all_gather"),
    *("all-to-all", "alltoall", "reduce-scatter", "reducescatter", "reduce_scatter"),
    *("collective-permute", "collective-permute-start", "collective-permute-done"),
    *("send", "recv", "broadcast"),
}
KINDS = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
COPY = re.compile(r"copy-(start|done)\.([0-9]+)")


def legacy(trace: dict[str, Any], card: dict[str, Any]) -> dict[str, float | None]:
    """Metric -> value, from a whole trace and its workload card."""
    entries = trace["traceEvents"]
    devices = {
        entry["pid"]
        for entry in entries
        if entry["ph"] == "M"
        and entry["name"] == "process_name"
        and "/device:TPU:" in entry["args"]["name"]
    }
    events = [entry for entry in entries if entry["ph"] == "X"]
    on_devices = [event for event in events if event["pid"] in devices]
    workload = card["workload"]
    model, data = workload.get("model", {}), workload.get("data", {})
    iterations, chips = model.get("iteration"), workload["hardware"]["xpu_spec"]
    return {
        **_latencies(events, model.get("phase"), data.get("output_len"), iterations),
        "mfu": _mfu(events, chips),
        "communication_fraction": _fraction(on_devices),
        "compute_comm_overlap": _overlap(events),
        "dominant_kernel_concentration": _dominant(on_devices),
        "total_communication_time": _counted(events) / (iterations or 1),
        **_volumes(events),
        **_rates(events),
        "average_memory_bandwidth": _copy_rate(events),
        "memory_transfer_overhead": _bare_copies(events, on_devices),
    }


def _args(event):
    return event.get("args") or {}


def _device_ps(event):
    told = _args(event).get("device_duration_ps")
    return None if told is None else int(told)


def _latencies(events, phase, output_len, iterations):
    steps = [event["dur"] for event in events if event["name"] == STEP]
    inner = steps[1:-1] if len(steps) > 2 else steps
    later = steps[1:-1] if len(steps) > 2 else steps[1:]
    step_time = mean(inner) / 1e6 if inner else None
    if step_time is None and iterations:
        first = min(event["ts"] for event in events)
        last = max(event["ts"] + event["dur"] for event in events)
        step_time = round((last - first) / 1e6 / iterations, 6) or None
    infers = phase == "inference"
    one_token = output_len is not None and output_len <= 1
    return {
        "avg_step_time": step_time,
        "ttft": steps[0] / 1e6 if steps and infers else None,
        "tpot": mean(later) / 1e6 if later and infers and not one_token else None,
    }


def _mfu(events, chips):
    flops = [(int(_args(event).get("model_flops") or 0), event) for event in events]
    working = [(count, event) for count, event in flops if count > 0]
    active = _length(_union([_span(event) for _, event in working if event["dur"] > 0]))
    if chips.get("model") != "tpu_v6e" or not chips.get("total_count") or not active:
        return None
    rate = sum(count for count, _ in working) / (active / 1e6)
    return round(rate / (918e12 * chips["total_count"]) * 100, 4)


def _fraction(on_devices):
    total, transfer = {}, {}
    for event in on_devices:
        category = _args(event).get("hlo_category") or ""
        named = {event["name"].lower(), category.lower()} & EXACT
        pid, length = event["pid"], _device_ps(event)
        total[pid] = total.get(pid, 0) + length
        transfer[pid] = transfer.get(pid, 0) + (length if named else 0)
    shares = [transfer[pid] / total[pid] * 100 for pid in total if total[pid]]
    return mean(shares) if shares else None


def _overlap(events):
    steps = sorted((e for e in events if e["name"] == STEP), key=lambda e: e["ts"])
    if not steps:
        markers = sorted((e for e in events if e["name"] == "StepMarker"), key=lambda e: e["ts"])
        longest = max((event["dur"] for event in markers), default=0)
        steps = [event for event in markers if event["dur"] > longest * 0.1]
    covered = overlapped = 0.0
    for step in steps[1:-1] if len(steps) > 2 else steps:
        spans = {"transfer": [], "compute": []}
        for event in events:
            start, end = max(event["ts"], step["ts"]), min(_span(event)[1], _span(step)[1])
            if start >= end:
                continue
            if TRANSFER.search(event["name"]):
                spans["transfer"].append((start, end))
            elif any(word in event["name"].lower() for word in COMPUTE):
                spans["compute"].append((start, end))
        transfer, compute = _union(spans["transfer"]), _union(spans["compute"])
        covered += _length(transfer)
        overlapped += _length(transfer) + _length(compute) - _length(_union(transfer + compute))
    return overlapped / covered * 100 if covered else None


def _dominant(on_devices):
    lengths = {}
    for event in on_devices:
        category = _args(event).get("hlo_category")
        if category:
            lengths[category] = lengths.get(category, 0) + _device_ps(event)
    total = sum(lengths.values())
    return max(lengths.values()) / total * 100 if total else None


def _counted(events):
    named = [e for e in events if any(word in e["name"].lower() for word in COUNTED)]
    told = [_device_ps(event) for event in named if _device_ps(event) is not None]
    return sum(told) / 1e12 if told else sum(event["dur"] for event in named) / 1e6


def _volumes(events):
    found = {
        f"collective_vol_{kind.replace('-', '')}_gb": sum(
            int(_args(event).get("bytes_accessed") or 0)
            for event in events
            if _args(event).get("hlo_category") == kind
        )
        / 1e9
        for kind in KINDS
    }
    return found | {"collective_vol_total_gb": sum(found.values())}


def _rates(events):
    found = {}
    for kind in KINDS:
        mine = [event for event in events if _args(event).get("hlo_category") == kind]
        processes = {}
        for event in mine:
            key = "" if kind == "all-reduce" else event["name"]
            processes.setdefault(key, set()).add(event["pid"])
        rates = []
        for event in mine:
            size, length = int(_args(event).get("bytes_accessed") or 0), _device_ps(event)
            n = len(processes["" if kind == "all-reduce" else event["name"]])
            factor = (2 if kind == "all-reduce" else 1) * (n - 1) / n
            if size > 0 and length > 0:
                rates.append(size / 2**30 * factor / (length / 1e12))
        name = f"bandwidth_utilization_{kind.replace('-', '')}_group_6"
        found[name] = median(rates) if rates else None
    return found


def _copy_rate(events):
    waiting, size, length = {}, 0, 0
    for event in events:
        match, told = COPY.search(event["name"]), _args(event)
        if match is None or "device_offset_ps" not in told:
            continue
        at = int(told["device_offset_ps"])
        if match[1] == "start" and told.get("bytes_accessed"):
            waiting[match[2]] = (int(told["bytes_accessed"]), at)
        elif match[1] == "done" and match[2] in waiting:
            count, begun = waiting.pop(match[2])
            if at > begun and count > 0:
                size, length = size + count, length + at - begun
    return size / length * 1000 if length else None


def _bare_copies(events, on_devices):
    steps = sum(event["dur"] for event in events if event["name"] == STEP)
    waiting, copies, busy = {}, [], []
    for event in on_devices:
        match, at = COPY.search(event["name"]), int(_args(event)["device_offset_ps"])
        if match is not None and match[1] == "start":
            waiting[match[2]] = at
        elif match is not None:
            begun = waiting.pop(match[2], at)
            if at > begun:
                copies.append((begun, at))
        elif not re.search(r"^jit_|dependency-wait|copy-(start|done)\.", event["name"]):
            busy.append((at, at + _device_ps(event)))
    if not steps or not copies:
        return None
    bare = _length(_union(copies + busy)) - _length(_union(busy))
    return round(bare / (steps * 1e6) * 100, 4)


def _span(event):
    return event["ts"], event["ts"] + event["dur"]


def _union(spans):
    merged = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _length(spans):
    return sum(end - start for start, end in spans)
