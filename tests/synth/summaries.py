"""Closed forms that sum others up: communication against compute, steps one by one, the whole run."""

from __future__ import annotations

from collections import defaultdict

from tests.synth.describe import WARMUP, Run
from tests.synth.periods import timed
from tests.synth.times import latency, marker_to_marker, step_end
from tests.synth.traffic import Row, traffic_volume

SUMS = ("window", "compute", "collective", "overlapped", "exposed", "copy", "exposed_copy")
SUMS += ("sync_wait", "busy", "idle", "period", "between_requests")


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def comm_compute(run: Run) -> list[Row]:
    """Rows of comm_compute_v2: by phase, over devices and steps; no op runs between steps."""
    by_phase = defaultdict(list)
    for row in timed(run):
        by_phase[row["phase"]].append(row)
    found = []
    for phase, rows in by_phase.items():
        total: Row = {f"{name}_ps": sum(row[f"{name}_ps"] for row in rows) for name in SUMS}
        total |= {"phase": phase, "device_steps": len(rows)}
        total["comm_compute_ratio"] = _ratio(total["collective_ps"], total["compute_ps"])
        total["exposed_ratio"] = _ratio(total["exposed_ps"], total["collective_ps"])
        total["between_steps_ps"] = total["period_ps"] - total["window_ps"]
        idle = total["idle_ps"] + total["between_steps_ps"]
        total |= {"outside_ps": 0, "idle_ratio": _ratio(idle, total["period_ps"])}
        total["idle_in_step_ratio"] = _ratio(total["idle_ps"], total["window_ps"])
        found.append(total)
    return found


def step_latency(run: Run) -> list[Row]:
    """Rows of step_latency_v1: from end to end; the first step from its marker."""
    rows, before = [], 0  # from the step's marker back to the end of the step before
    for each in run.passes if run.markers else ():
        seen = [p for p in run.positions if run.saw(p, each.index)]
        end = run.dispatch_ps + step_end(run, each.phase, seen)
        if each.label != WARMUP:
            length = end + (before if each.step else 0)
            at = {"request": each.request, "step": each.step, "phase": each.label}
            rows.append({**at, "latency_s": length / 1e12})
        before = marker_to_marker(run, each.index) - end
    return rows


def _median(values: list) -> float | None:
    """The value of row ceil(n / 2), as percentiles are defined."""
    known = sorted(value for value in values if value is not None)
    return known[(len(known) + 1) // 2 - 1] if known else None


def run_summary(run: Run) -> list[Row]:
    """The row of run_summary_v1, of what the description determines; without the warm-up."""
    traffic = [row for row in traffic_volume(run) if row["phase"] != WARMUP]
    phases = [row for row in comm_compute(run) if row["phase"] != WARMUP]
    sums = {name: sum(row[f"{name}_ps"] for row in phases) for name in SUMS}
    requests = latency(run)
    return [
        {
            "device_count": len(run.positions),
            "expected_device_count": len(run.devices),
            "host_count": len({run.host(p) for p in run.positions}),
            "collectives": sum(row["collectives"] for row in traffic),
            "payload_bytes": sum(row["payload_bytes"] for row in traffic),
            "wire_bytes": float(sum(row["wire_bytes"] for row in traffic)),
            "ttft_s": _median([row["ttft_s"] for row in requests]),
            "tpot_s": _median([row["tpot_s"] for row in requests]),
            "output_tokens_per_s": _median([row["output_tokens_per_s"] for row in requests]),
            "comm_compute_ratio": _ratio(sums["collective"], sums["compute"]),
            "exposed_ratio": _ratio(sums["exposed"], sums["collective"]),
            "overlapped_ratio": _ratio(sums["overlapped"], sums["collective"]),
            "sync_wait_ratio": _ratio(sums["sync_wait"], sums["window"]),
            "idle_ratio": _ratio(sums["idle"], sums["window"]),
            "excluded_requests": int(run.warmup),
        }
    ]
