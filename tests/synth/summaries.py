"""Closed forms that sum others up: communication against compute, steps one by one, the whole run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from statistics import median

from tests.synth.describe import WARMUP, Run
from tests.synth.host import REQUEST_LEAD_PS
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
    rows, before = [], 0  # from the step's marker back to the end of the previous step
    for each in run.passes if run.markers else ():
        seen = [p for p in run.positions if run.saw(p, each.index)]
        end = run.dispatch_ps + step_end(run, each.phase, seen)
        if each.label != WARMUP:
            length = end + (before if each.step else 0)
            at = {"request": each.request, "step": each.step, "phase": each.label}
            rows.append({**at, "latency_s": length / 1e12})
        before = marker_to_marker(run, each.index) - end
    return rows


def middle(values: Iterable[float | None]) -> float | None:
    """The median of what is known: of an even number the mean of the two in the middle."""
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _at(values: Iterable[float | None], percent: int) -> float | None:
    """The value of row ceil(p n) of what is known."""
    known = sorted(value for value in values if value is not None)
    return known[-(-percent * len(known) // 100) - 1] if known else None


def _system_rate(run: Run) -> float | None:
    """All requests' tokens over the time from the first one's marker to the last one's end."""
    if not run.markers:
        return None
    first = run.steps * run.warmup
    if run.warmup and run.host_gaps[first - 1] < REQUEST_LEAD_PS:
        return None  # the request's marker opens before the warm-up's step has closed
    last = run.passes[-1]
    seen = [p for p in run.positions if run.saw(p, last.index)]
    until = sum(marker_to_marker(run, index) for index in range(first, last.index))
    time = REQUEST_LEAD_PS + until + run.dispatch_ps + step_end(run, last.phase, seen)
    return run.requests * run.batch * run.output_tokens * 1e12 / time


def _chips(run: Run, rate: float | None) -> float | None:
    """A rate over the run's chips, of which each has one device."""
    return rate / len(run.devices) if rate is not None else None


def _headlines(rows: list[Row], name: str) -> Row:
    """Median and percentiles over requests."""
    values = [row[name] for row in rows]
    return {name: middle(values), f"p90_{name}": _at(values, 90), f"p99_{name}": _at(values, 99)}


def run_summary(run: Run) -> list[Row]:
    """The row of run_summary_v2, of what the description determines; without the warm-up."""
    traffic = [row for row in traffic_volume(run) if row["phase"] != WARMUP]
    phases = [row for row in comm_compute(run) if row["phase"] != WARMUP]
    sums = {name: sum(row[f"{name}_ps"] for row in phases) for name in SUMS}
    requests = latency(run)
    system, rate = _system_rate(run), middle(row["output_tokens_per_s"] for row in requests)
    return [
        {
            "device_count": len(run.positions),
            "expected_device_count": len(run.devices),
            "host_count": len({run.host(p) for p in run.positions}),
            "collectives": sum(row["collectives"] for row in traffic),
            "payload_bytes": sum(row["payload_bytes"] for row in traffic),
            "wire_bytes": float(sum(row["wire_bytes"] for row in traffic)),
            **_headlines(requests, "ttft_s"),
            **_headlines(requests, "request_ttft_s"),
            **_headlines(requests, "tpot_s"),
            "queue_s": middle(row["queue_s"] for row in requests),
            "output_tokens_per_s": rate,
            "output_tokens_per_s_per_chip": _chips(run, rate),
            "system_tokens_per_s": system,
            "system_tokens_per_s_per_chip": _chips(run, system),
            "launch_period_s": middle(row["launch_period_s"] for row in requests),
            "comm_compute_ratio": _ratio(sums["collective"], sums["compute"]),
            "exposed_ratio": _ratio(sums["exposed"], sums["collective"]),
            "overlapped_ratio": _ratio(sums["overlapped"], sums["collective"]),
            "sync_wait_ratio": _ratio(sums["sync_wait"], sums["window"]),
            "period_ps": sums["period"],
            "between_requests_ps": sums["between_requests"],
            "idle_ratio": _ratio(sums["idle"] + sums["period"] - sums["window"], sums["period"]),
            "idle_in_step_ratio": _ratio(sums["idle"], sums["window"]),
            "excluded_requests": int(run.warmup),
        }
    ]
