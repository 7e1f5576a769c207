"""Answers of views that designers of networks start from: demand by pair, and what changes would cost."""

from __future__ import annotations

from collections import Counter

from tests.synth.answers.time import ran
from tests.synth.answers.traffic import DELAYS_PS, LINE, together, traffic_window
from tests.synth.describe import Run
from tests.synth.traffic import ALGORITHMS, Row, traffic_matrix


def _steps(run: Run) -> Counter[str | None]:
    """Phase -> its steps, on whatever devices."""
    return Counter(
        label
        for label, _, _ in {(e.label, e.request, e.step) for e in ran(run) if e.step is not None}
    )


def traffic_demand(run: Run) -> list[Row]:
    """Rows of traffic_demand_v1."""
    rows = []
    for algorithm in ALGORITHMS:
        cells = together(traffic_matrix(run, algorithm), lambda r: r["phase"])
        for phase, ours in cells.items():
            rows += [
                {"algorithm": algorithm, "phase": phase, **r} for r in _demand(run, phase, ours)
            ]
    return rows


def _demand(run: Run, phase: str | None, cells: list[Row]) -> list[Row]:
    steps = _steps(run)[phase] or None
    reduced: Counter[tuple[int, int]] = Counter()
    other: Counter[tuple[int, int]] = Counter()
    for cell in cells:
        pair = cell["source_device_id"], cell["target_device_id"]
        (reduced if cell["kind"] == "all-reduce" else other)[pair] += cell["bytes"]
    both = reduced + other
    degrees = [Counter(source for source, _ in found) for found in (both, reduced, other)]
    return [
        {
            "source_device_id": source,
            "target_device_id": target,
            "step_count": steps,
            "step_all_reduce_bytes": reduced[source, target] / steps if steps else None,
            "step_other_bytes": other[source, target] / steps if steps else None,
            "step_bytes": sent / steps if steps else None,
            "heat_ratio": sent / max(both.values()),
            "target_count": degrees[0][source],
            "all_reduce_target_count": degrees[1][source],
            "other_target_count": degrees[2][source],
        }
        for (source, target), sent in both.items()
    ]


def reconfiguration_cost(run: Run) -> list[Row]:
    """Rows of reconfiguration_cost_v1."""
    names = (*LINE, "phase")
    rows = []
    for key, ours in together(
        traffic_window(run), lambda r: tuple(r[name] for name in names)
    ).items():
        steps = _steps(run)[key[-1]] or None
        for delay in DELAYS_PS:
            waits = [delay - max(0, min(delay, r["window_ps"])) for r in ours]
            row = {**dict(zip(names, key, strict=True)), "delay_ps": delay, "step_count": steps}
            row |= {"change_count": len(ours), "exposed_change_count": sum(w > 0 for w in waits)}
            row["changes_per_step"] = len(ours) / steps if steps else None
            row |= {"hidden_ps": delay * len(ours) - sum(waits), "exposed_ps": sum(waits)}
            row["hidden_ratio"] = 1 - sum(waits) / (delay * len(ours))
            row["step_exposed_ps"] = sum(waits) / steps if steps else None
            rows.append(row)
    return rows


def networks(run: Run) -> dict[str, list[Row]]:
    """All of these, by name."""
    return {
        "traffic_demand": traffic_demand(run),
        "reconfiguration_cost": reconfiguration_cost(run),
    }
