"""Answers about demand in the course of a step: each transfer is dealt out to hundredths of its period."""

from __future__ import annotations

from collections import defaultdict

from tests.synth.describe import Run
from tests.synth.periods import extra_windows, pass_windows, timed
from tests.synth.traffic import Row, middle
from tests.synth.transfers import Moved, moved


def traffic_profile(run: Run) -> list[Row]:
    """Rows of traffic_profile_v1 of devices that have steps."""
    found = {(row["device_id"], row["request"], row["step"]): row for row in timed(run)}
    periods: dict[tuple, list[int]] = defaultdict(list)
    sums: dict[tuple, dict[str, list[float]]] = defaultdict(
        lambda: defaultdict(lambda: [0.0] * 100)
    )
    for position in run.positions:
        device = run.devices[position]
        ours = [m for m in moved(run) if m.device == device and m.wire]
        for request, step, (start, end) in extra_windows(run, position) + pass_windows(
            run, position
        ):
            row = found[device, request, step]
            line, period = (device, row["phase"]), row["period_ps"]
            periods[line].append(period)
            for each in ours:
                if start <= each.start < end:
                    _deal(each, end - period, period, sums[line][each.axis])
    return [
        row
        for line, axes in sums.items()
        for axis, sent in axes.items()
        for row in _rows(line, axis, sent, periods[line])
    ]


def _deal(each: Moved, begin: int, period: int, sent: list[float]) -> None:
    first, last = each.start - begin, each.end - begin
    for number in range(first * 100 // period, min((last * 100 - 1) // period, 99) + 1):
        low, high = number * period / 100, (number + 1) * period / 100
        sent[number] += each.wire * (min(last, high) - max(first, low)) / (last - first)


def _rows(line: tuple, axis: str, sent: list[float], periods: list[int]) -> list[Row]:
    rates = [each * 1e14 / sum(periods) for each in sent]
    shared: Row = {"device_id": line[0], "phase": line[1], "axis": axis}
    shared |= {"step_count": len(periods), "period_ps": middle(periods)}
    shared["peak_bytes_per_s"] = max(rates)
    shared["duty_ratio"] = sum(rate > 0.05 * max(rates) for rate in rates) / 100
    return [shared | {"bin": number, "bytes_per_s": rate} for number, rate in enumerate(rates)]
