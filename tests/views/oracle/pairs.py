"""METRICS, Comparison: which ops make the difference between the steps of two runs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from statistics import variance
from typing import Any

from tests.views.oracle.costs import added, profiled
from tests.views.oracle.drawn import Row
from tests.views.oracle.reading import Run, grouped
from tests.views.oracle.split import counted

Place = tuple[Any, ...]  # part, scope, opcode, shape, kernel


class Phase:
    """The steps of a run's phase, and what their time is made of."""

    def __init__(self, run: Run, windows: list[Row]) -> None:
        self.windows = len(windows)
        self.passes = grouped(windows, "request", "step")
        self.observed: dict[Place, dict[Any, list[Any]]] = {}
        self.ops: dict[Place, list[str]] = {}
        sources = _sources(run)
        by_step = grouped(
            [op for op in profiled(run) if op["category"] != "control"],
            "device_id",
            "request",
            "step",
        )
        for row in windows:
            step = row["request"], row["step"]
            period = row["period_ps"]
            self._add(("idle",) + (None,) * 4, step, row["idle_ps"])
            before = None if period is None else period - row["window_ps"]
            self._add(("between",) + (None,) * 4, step, before)
            for op in by_step.get((row["device_id"], *step), []):
                scope, shape = sources.get((op["program_id"], op["op"]), (None, None))
                kernel = re.sub(r"(?<=.)([._][0-9]+)+$", "", op["op"])
                place = "op", scope, op["opcode"], shape, kernel
                self._add(place, step, op["attributed_ps"])
                self.ops.setdefault(place, []).append(op["op"])

    def _add(self, place: Place, step: Any, value: Any) -> None:
        self.observed.setdefault(place, {}).setdefault(step, []).append(value)

    def count(self, place: Place) -> float:
        """Executions a step and device."""
        return sum(map(len, self.observed.get(place, {}).values())) / self.windows

    def time(self, place: Place) -> float | None:
        """Time of a step and device."""
        values = [v for step in self.observed.get(place, {}).values() for v in step]
        whole = added(values)
        return None if whole is None else whole / self.windows

    def error(self, place: Place) -> float | None:
        """Variance of the mean over steps; None of one step."""
        if self.time(place) is None or len(self.passes) < 2:
            return None
        seen = self.observed.get(place, {})
        means = [sum(seen.get(step, [])) / len(rows) for step, rows in self.passes.items()]
        return variance(means) / len(means)


def _sources(run: Run) -> dict[Any, tuple[Any, Any]]:
    found = {}
    for row in run.rows("instructions"):
        place = row.get("source_file") and f"{row['source_file']}:{row['source_line']}"
        shape = (row.get("shape") or "").partition("{")[0] or None
        found[row["program_id"], row["op"]] = row.get("framework_op") or place, shape
    return found


def phases(run: Run) -> dict[Any, Phase]:
    """The phases of a run's steps."""
    return {
        phase: Phase(run, windows) for (phase,), windows in grouped(counted(run), "phase").items()
    }


def op_diff(base: dict[Any, Phase], other: dict[Any, Phase]) -> Iterator[Row]:
    """Rows of one pair, without the runs."""
    for name in base.keys() & other.keys():
        rows = [_row(base[name], other[name], p) for p in _places(base[name], other[name])]
        for row in rows:
            row["phase"] = name
        told = [r for r in rows if None not in (r["margin_ps"], r["total_ps"])]
        sure = [r for r in told if abs(r["total_ps"]) > r["margin_ps"]]
        names = ("part", "scope", "opcode", "shape", "kernel")
        sure.sort(key=lambda r: (-abs(r["total_ps"]), *((r[n] is None, r[n]) for n in names)))
        for place, row in enumerate(sure):
            row["rank"] = place + 1
        yield from rows


def _places(base: Phase, other: Phase) -> set[Place]:
    return base.observed.keys() | other.observed.keys()


def _row(base: Phase, other: Phase, place: Place) -> Row:
    n, m, before, after = base.count(place), other.count(place), base.time(place), other.time(place)
    errors = base.error(place), other.error(place)
    unknown = None in (before, after)
    expected = m * before / n if before is not None and n else None
    both = n > 0 and m > 0
    none = None if unknown else 0.0
    total = None if unknown else after - before
    return {
        **dict(zip(("part", "scope", "opcode", "shape", "kernel"), place, strict=True)),
        "op": min(base.ops.get(place, []), default=None),
        "other_op": min(other.ops.get(place, []), default=None),
        "steps": len(base.passes),
        "other_steps": len(other.passes),
        "executions_per_step": n,
        "other_executions_per_step": m,
        "step_ps": before,
        "other_step_ps": after,
        "count_ps": (None if expected is None else expected - before) if both else none,
        "rate_ps": (None if None in (expected, after) else after - expected) if both else none,
        "new_ps": none if n else after,
        "gone_ps": none if m else (None if before is None else -before),
        "total_ps": total,
        "margin_ps": None if None in errors else 1.96 * math.sqrt(sum(errors)),
        "rank": None,
    }
