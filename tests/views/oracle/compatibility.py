"""METRICS, Intervals: whether two jobs fit on one link, by trying every shift on the common period."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from tests.views.oracle.drawn import Row
from tests.views.oracle.profile import traffic_profile
from tests.views.oracle.reading import UNCOUNTED, Run, grouped

Job = tuple[int, list[Any] | None]  # median period; bytes a second in each hundredth of it


def jobs(run: Run) -> dict[Any, Job]:
    """The demand of the busiest device, by phase; None where it is not known."""
    rows = [row for row in traffic_profile(run) if row["phase"] not in UNCOUNTED]
    return {phase: _busiest(run, ours) for (phase,), ours in grouped(rows, "phase").items()}


def _busiest(run: Run, rows: list[Row]) -> Job:
    demands = {}
    for (device,), ours in grouped(rows, "device_id").items():
        sums: list[Any] = [0.0] * 100
        for row in sorted(ours, key=lambda row: row["axis"]):
            known = sums[row["bin"]] is not None and row["bytes_per_s"] is not None
            sums[row["bin"]] = sums[row["bin"]] + row["bytes_per_s"] if known else None
        told = run.devices[device]
        is_virtual = told.get("inferred") or told.get("core") == "cpu"
        demands[device] = ours[0]["period_ps"], None if None in sums or is_virtual else sums
    known = {d: sum(each[1]) for d, each in demands.items() if each[1] is not None}
    if len(known) < len(demands):
        most = max(known.values(), default=0)
        first = min([d for d, sent in known.items() if sent == most] or demands)
        return demands[first][0], None
    most = max(known.values())
    return demands[min(d for d, sent in known.items() if math.isclose(sent, most))]


def compatibility(first: Job, second: Job, capacity: float | None) -> Row:
    """Scores of two jobs; None where they cannot be known."""
    (period, demand), (other_period, other_demand) = first, second
    short, long = sorted((period, other_period))
    units = (2 * 100 * long + short) // (2 * short)
    common = math.lcm(100, units)
    row: Row = {"in_phase_score": None, "best_score": None, "shift_ratio": None}
    fits = common <= 20 * units and units <= 100 * 100
    if demand is None or other_demand is None or capacity is None or not fits:
        return row
    sizes = (100, units) if period <= other_period else (units, 100)
    one, two = (_units(*each) for each in zip((demand, other_demand), sizes, strict=True))
    scores = []
    for shift in range(sizes[1]):
        excess = (
            max(0, one[a % sizes[0]] + two[(a - shift) % sizes[1]] - capacity)
            for a in range(common)
        )
        scores.append(1 - sum(excess) / (common * capacity))
    best = max(scores)
    at = next(n for n, score in enumerate(scores) if best - score <= 1e-9 * max(abs(best), 1))
    return {
        "in_phase_score": scores[0],
        "best_score": scores[at],
        "shift_ratio": at / sizes[1],
    }


def _units(demand: list[float], count: int) -> list[float]:
    """The mean demand in each of so many parts of the period."""
    found = []
    for unit in range(count):
        low, high = Fraction(100 * unit, count), Fraction(100 * (unit + 1), count)
        held = [
            demand[n] * float(min(high, n + 1) - max(low, n))
            for n in range(int(low), min(math.ceil(high), 100))
        ]
        found.append(sum(held) * count / 100)
    return found
