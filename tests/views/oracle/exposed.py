"""METRICS, Time split: to which collectives the exposed time of a step belongs, instant by instant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any

from tests.views.oracle.drawn import Row
from tests.views.oracle.reading import Run, grouped, total
from tests.views.oracle.split import counted, one_phase, running, windows

NAMES = ("axis", "kind", "layer", "component", "op")


def exposed_collective(run: Run) -> Iterator[Row]:
    """Equal parts of each piece of a window in which no compute op runs."""
    periods = {
        phase: total(row["period_ps"] for row in rows)
        for (phase,), rows in grouped(counted(run), "phase").items()
    }
    sums: dict[tuple[Any, ...], list[Any]] = defaultdict(lambda: [0, 0, Fraction(0)])
    of_steps = {(row["device_id"], row["request"], row["step"]) for row in counted(run)}
    for device, step, start, end in windows(run):
        phase = one_phase(step)
        of_step = device, step[0]["request"], step[0]["step"]
        if of_step not in of_steps:
            continue
        flights = []
        for row in run.collectives:
            if (row["device_id"], row["request"], row["step"]) == of_step:
                begin = min(max(row["start_ps"], start), end)
                finish = max(min(row["end_ps"], end), start)
                key = phase, *(row[name] for name in NAMES)
                flights.append((begin, finish, key))
                sums[key][0] += 1
                sums[key][1] += finish - begin
        spans = running(run, device, step, start, end)
        edges = {edge for part in spans.values() for span in part for edge in span}
        for begin, finish in pairwise(sorted(edges)):
            if _there(spans["compute"], begin, finish):
                continue
            owners = [key for a, b, key in flights if a <= begin and finish <= b]
            if not owners and _there(spans["collective"], begin, finish):
                owners = [(phase, *(None for _ in NAMES))]
            for key in owners:
                sums[key][2] += Fraction(finish - begin, len(owners))
    for (phase, *key), (count, in_flight, exposed) in sums.items():
        period = periods[phase]
        yield {
            "phase": phase,
            **dict(zip(NAMES, key, strict=True)),
            "count": count,
            "in_flight_ps": in_flight,
            "exposed_ps": float(exposed),
            "period_ps": period,
            "exposed_ratio": float(exposed / period) if period else None,
        }


def _there(spans: list[tuple[int, int]], begin: int, finish: int) -> bool:
    return any(a <= begin and finish <= b for a, b in spans)
