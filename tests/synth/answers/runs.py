"""Answers of the views that compare several runs; runs are given with their setups."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations
from statistics import median

from tests.synth.answers.traffic import together
from tests.synth.describe import Run
from tests.synth.model import config
from tests.synth.summaries import middle, run_summary
from tests.synth.times import latency
from tests.synth.traffic import Row

LESS_IS_BETTER = {
    "ttft_s": True,
    "tpot_s": True,
    "output_tokens_per_s": False,
    "output_tokens_per_s_per_chip": False,
    "system_tokens_per_s": False,
    "system_tokens_per_s_per_chip": False,
    "comm_compute_ratio": True,
    "exposed_ratio": True,
    "sync_wait_ratio": True,
    "idle_ratio": True,
    "idle_in_step_ratio": True,
    "collectives": True,
    "payload_bytes": True,
    "wire_bytes": True,
}
EXACT = ("collectives", "payload_bytes", "wire_bytes")  # one run of each decides
# What a description chooses, under the names of run_comparison.
CHOICES = {
    "layers": lambda run: run.layers,
    "dtype": lambda run: run.dtype,
    "parallelism": lambda run: run.mesh,
    "batch_size": lambda run: run.batch,
    "microbatches": lambda run: run.microbatches if run.size("pp") > 1 else 1,
    "prompt_tokens": lambda run: run.prompt_tokens,
    "output_tokens": lambda run: run.output_tokens,
    "device_count": lambda run: len(run.positions),
}
Runs = dict[str, tuple[Run, str]]  # run id -> what it is, its setup
One = tuple[str, tuple[Run, str]]


def _values(runs: Runs) -> dict[str, Row]:
    """Run id -> its headline metrics."""
    return {run_id: run_summary(run)[0] for run_id, (run, _) in runs.items()}


def _of_setups(runs: Runs, values: dict[str, Row], metric: str) -> dict[str, list[float]]:
    """Setup -> what its runs have of a metric."""
    known = [
        (setup, values[run_id][metric])
        for run_id, (_, setup) in runs.items()
        if values[run_id][metric] is not None
    ]
    return {key: [v for _, v in ours] for key, ours in together(known, lambda p: p[0]).items()}


def _spread(values: list[float]) -> float | None:
    return max(values) - min(values) if len(values) > 1 else None


def setup_summary(runs: Runs) -> list[Row]:
    """Rows of setup_summary_v2, without what only names a setup."""
    values, rows = _values(runs), []
    by_metric = {metric: _of_setups(runs, values, metric) for metric in LESS_IS_BETTER}
    for setup, ours in together(runs.items(), lambda item: item[1][1]).items():
        last = max(run_id for run_id, _ in ours)  # all were captured at the same time
        found = {metric: sets.get(setup, []) for metric, sets in by_metric.items()}
        row: Row = {"setup": setup, "run_id": last, "runs": len(ours)}
        kept = {m: v for m, v in found.items() if m not in EXACT[:2]}
        row |= {"source": "measured", **{m: middle(v) for m, v in kept.items()}}
        for metric in ("ttft", "tpot"):
            row[f"{metric}_count"] = len(found[f"{metric}_s"])
            row[f"{metric}_spread_s"] = _spread(found[f"{metric}_s"])
        for rate in ("output_tokens", "system_tokens"):
            row[f"{rate}_spread_per_s"] = _spread(found[f"{rate}_per_s"])
        row["exposed_spread_ratio"] = _spread(found["exposed_ratio"])
        rows.append(row | {"idle_spread_ratio": _spread(found["idle_ratio"])})
    return rows


def run_comparison(runs: Runs) -> Iterable[Row]:
    """Rows of run_comparison_v2."""
    values = _values(runs)
    for metric, less in LESS_IS_BETTER.items():
        setups = _of_setups(runs, values, metric)
        known = [run_id for run_id in runs if values[run_id][metric] is not None]
        for base, other in permutations(known, 2):
            (run, setup), (held, other_setup) = runs[base], runs[other]
            ours, theirs = setups[setup], setups[other_setup]
            row: Row = {"run_id": base, "other_run_id": other, "metric": metric}
            row |= {"value": values[base][metric], "other_value": values[other][metric]}
            row |= {"runs": len(ours), "other_runs": len(theirs)}
            row |= {"median": median(ours), "other_median": median(theirs)}
            row["difference"] = row["other_median"] - row["median"]
            spreads = [s for s in (_spread(ours), _spread(theirs)) if s is not None]
            row["spread"] = max(spreads, default=None)
            row["is_repeat"] = setup == other_setup
            repeated = len(ours) > 1 and len(theirs) > 1 and not row["is_repeat"]
            judged = repeated or metric in EXACT
            far = judged and abs(row["difference"]) > (row["spread"] or 0)
            better = (row["difference"] < 0) == less
            row["verdict"] = ("better" if better else "worse") if far else "inconclusive"
            if metric in EXACT and not row["difference"] and not row["spread"]:
                row["verdict"] = "equal"
            differing = [name for name, choice in CHOICES.items() if choice(run) != choice(held)]
            if not differing and setup != other_setup:
                differing = ["settings"]
            row["differing_count"], row["differing"] = len(differing), ", ".join(differing)
            yield row


def scaling(runs: Runs) -> list[Row]:
    """Rows of scaling_v3: runs that differ in the mesh alone, along each axis that some of them have."""
    rows = []
    for ours in together(runs.items(), lambda item: _besides_mesh(item[1][0])).values():
        wide = {axis for _, (run, _) in ours for axis, size in run.mesh if size > 1}
        for axis in wide:
            rows += _along(axis, ours)
    return rows


def _along(axis: str, ours: list[One]) -> Iterable[Row]:
    """A line for each other shape of the mesh and number of microbatches."""
    for others, same in together(ours, lambda item: _others(item[1][0], axis)).items():
        parts = together(same, lambda item: _microbatches(item[1][0]))
        if axis != "pp":
            for count, line in parts.items():
                yield from _line(axis, others, count, line)
            continue
        # Without a pipeline there is one microbatch, whatever a pipeline would have.
        whole = [item for item in same if item[1][0].size("pp") == 1]
        for count, line in parts.items():
            piped = [item for item in line if item[1][0].size("pp") > 1]
            if piped:
                yield from _line(axis, others, count, piped + whole)


def _microbatches(run: Run) -> int:
    return CHOICES["microbatches"](run)


def _besides_mesh(run: Run) -> tuple:
    names = CHOICES.keys() - {"parallelism", "microbatches", "device_count"}
    return *(CHOICES[name](run) for name in sorted(names)), run.hidden, str(config(run))


def _others(run: Run, axis: str) -> str:
    return ".".join(f"{name}{size}" for name, size in run.mesh if name != axis and size > 1)


def _rate(run: Run) -> float | None:
    rates = [row["output_tokens_per_s"] for row in latency(run)]
    return middle(rates)


def _line(axis: str, others: str, microbatches: int, line: list[One]) -> list[Row]:
    """One size after the other, against the smallest that has a rate."""
    sizes = together(line, lambda item: item[1][0].size(axis))
    if set(sizes) == {1}:
        return []
    rates, rows = {}, []
    for size, ours in sizes.items():
        rates[size] = middle(_rate(run) for _, (run, _) in ours)
    rated = [size for size, rate in rates.items() if rate is not None]
    base = min(rated) if len(rated) > 1 else None  # one size shows no growth
    for size, ours in sizes.items():
        devices = max(len(run.devices) for _, (run, _) in ours)
        speedup = rates[size] / rates[base] if rates[size] and base else None
        rows.append(
            {
                "source": "measured",
                "axis": axis,
                "other_axes": others,
                "size": size,
                "microbatches": microbatches,
                "devices": devices,
                "run_id": min(run_id for run_id, _ in ours),
                "runs": len(ours),
                "output_tokens_per_s": rates[size],
                "chip_tokens_per_s": rates[size] / devices if rates[size] else None,
                "base_size": base,
                "speedup_ratio": speedup,
                "efficiency_ratio": speedup * base / size if speedup else None,
            }
        )
    return rows
