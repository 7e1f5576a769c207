"""METRICS, Intervals: bytes that a device sends in each hundredth of its steps' periods."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from tests.views.oracle.drawn import Row
from tests.views.oracle.reading import Run, grouped, middle
from tests.views.oracle.split import counted


def traffic_profile(run: Run) -> Iterator[Row]:
    """Bins of each device, phase and axis."""
    steps = [row for row in counted(run) if row["period_ps"]]
    for (device, phase), rows in grouped(steps, "device_id", "phase").items():
        bins: dict[str, list[Any]] = defaultdict(lambda: [Fraction(0)] * 100)
        for step in rows:
            end = step["start_ps"] + step["window_ps"]
            for sent in run.collectives:
                key = sent["device_id"], sent["request"], sent["step"]
                if key == (device, step["request"], step["step"]) and sent["wire"] != 0:
                    _deal(sent, end - step["period_ps"], step["period_ps"], bins)
        time = Fraction(sum(row["period_ps"] for row in rows), 100)
        for axis, held in bins.items():
            rates = [None if part is None else float(part * 10**12 / time) for part in held]
            peak = None if None in rates else max(rates)
            for number, rate in enumerate(rates):
                yield {
                    "device_id": device,
                    "phase": phase,
                    "axis": axis,
                    "bin": number,
                    "bytes_per_s": rate,
                    "step_count": len(rows),
                    "period_ps": middle(row["period_ps"] for row in rows),
                    "peak_bytes_per_s": peak,
                    "duty_ratio": None
                    if peak is None
                    else sum(one > 0.05 * peak for one in rates) / 100,
                }


def _deal(sent: Row, begin: int, period: int, bins: dict[str, list[Any]]) -> None:
    """Deal a transfer out to the hundredths of one period."""
    start, end = max(sent["start_ps"] - begin, 0), min(sent["end_ps"] - begin, period)
    if end < start:
        return
    held, length = bins[sent["axis"]], sent["duration_ps"]
    for number in range(100):
        low, high = Fraction(number * period, 100), Fraction((number + 1) * period, 100)
        inside = min(end, high) - max(start, low)
        here = low <= start < high or (number == 99 and start == period)
        is_there = here if start == end else inside > 0
        if is_there:
            share = Fraction(1) if length == 0 else Fraction(max(inside, 0)) / length
            known = held[number] is not None and sent["wire"] is not None
            held[number] = held[number] + Fraction(sent["wire"]) * share if known else None
