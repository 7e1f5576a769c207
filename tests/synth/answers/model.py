"""Answers of the views that take a model's sizes from the manifest: bandwidth and FLOPs that it needs."""

from __future__ import annotations

from tests.synth import model
from tests.synth.answers.time import ran
from tests.synth.describe import DECODE, PREFILL, Run
from tests.synth.summaries import comm_compute
from tests.synth.times import latency
from tests.synth.traffic import Row

PEAK_FLOPS = 918e12  # of a TPU v6e
PEAK_HBM = 1.6e12


def _lower_middle(values: list[float]) -> float | None:
    return sorted(values)[(len(values) - 1) // 2] if values else None


def _decode_steps(run: Run) -> int:
    """After the first token of a request; without markers the executions of the most-launched
    program after its first."""
    if run.markers:
        return run.steps - 1
    return run.requests * (run.steps - 1) - 1


def mbu(run: Run) -> list[Row]:
    """The row of mbu_v1: each part of the batch reads every weight, each sequence its context."""
    times = [row["tpot_s"] for row in latency(run) if row["tpot_s"] is not None]
    weights = model.WEIGHT_BYTES * run.size("dp") * run.size("fsdp")
    steps = [
        model.KV_BYTES_PER_TOKEN * (run.prompt_tokens + step)
        for _sequence in range(run.batch)
        for step in range(1, _decode_steps(run) + 1)
    ]
    cache = sum(steps) / _decode_steps(run) if times else None
    peak, tpot = PEAK_HBM * len(run.devices), _lower_middle(times)
    return [
        {
            "phase": "decode",
            "tpot_count": len(times),
            "tpot_s": tpot,
            "weight_bytes": float(weights),
            "kv_bytes": cache,
            "peak_hbm_bytes_per_s": peak,
            "mbu_ratio": (weights + cache) / (tpot * peak) if tpot else None,
            "is_bound": model.experts(run) > 1,
        }
    ]


def _whole(run: Run, label: str) -> bool:
    """Whether every device's plane holds every pass of a phase."""
    ours = [each for each in run.passes if each.label == label]
    everyone = range(len(run.devices))
    return all(run.traced(p) and run.saw(p, each.index) for each in ours for p in everyone)


def _analytic_flops(run: Run, label: str) -> float:
    """Token by token: each meets the active weights, and each token of its context, itself included."""
    head = run.hidden // model.HEADS
    pair = (
        2 * run.layers * model.HEADS * (head + head)
    )  # scores and sums, a multiply and an add each
    total = 0.0
    for each in run.passes:
        if each.label != label:
            continue
        first = run.prompt_tokens + each.step - 1
        contexts = range(run.prompt_tokens) if label == PREFILL else [first]
        for before in contexts:
            total += run.batch * (2 * model.active_parameters(run) + pair * (before + 1))
    return total


def mfu_analytic(run: Run) -> list[Row]:
    """The columns of mfu_v1 that come from the model, of every phase with a name."""
    rows = []
    for phase in comm_compute(run):
        label, available = phase["phase"], PEAK_FLOPS * phase["window_ps"] / 1e12
        known = label in (PREFILL, DECODE) and _whole(run, label)
        cost = _analytic_flops(run, label) if known else None
        passes = {(each.request, each.step) for each in ran(run) if each.label == label}
        rows.append(
            {
                "phase": label,
                "passes": len(passes),
                "analytic_flops": cost,
                "mfu_analytic_ratio": None if cost is None else cost / available,
            }
        )
    return rows


def utilization(run: Run) -> dict[str, list[Row]]:
    """All of these, by name."""
    return {"mbu": mbu(run), "mfu_analytic": mfu_analytic(run)}
