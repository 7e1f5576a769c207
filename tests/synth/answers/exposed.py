"""Answers about exposed collectives: each piece of a launch without compute is dealt out to what flies."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

from tests.synth.answers.time import Ran, ran
from tests.synth.describe import Run
from tests.synth.periods import timed
from tests.synth.timeline import OPS, simulate
from tests.synth.traffic import Row

Flight = tuple[int, int, tuple[Any, ...]]


def exposed_collective(run: Run) -> list[Row]:
    """Rows of exposed_collective_v1 over steps, all layers and components of an op together."""
    counts: dict[tuple, int] = defaultdict(int)
    flying: dict[tuple, int] = defaultdict(int)
    exposed: dict[tuple, float] = defaultdict(float)
    for launch in ran(run):
        if launch.step is None:
            continue
        compute, flights = _parts(run, launch)
        for start, end, key in flights:
            counts[key] += 1
            flying[key] += end - start
        for start, end in pairwise(sorted({t for span in [*compute, *flights] for t in span[:2]})):
            if not any(a <= start and end <= b for a, b in compute):
                owners = [key for a, b, key in flights if a <= start and end <= b]
                for key in owners:
                    exposed[key] += (end - start) / len(owners)
    periods: dict[str | None, int] = defaultdict(int)
    for row in timed(run):
        periods[row["phase"]] += row["period_ps"]
    names = ("phase", "axis", "kind", "op")
    return [
        {
            **dict(zip(names, key, strict=True)),
            "count": count,
            "in_flight_ps": flying[key],
            "exposed_ps": exposed[key],
            "exposed_ratio": exposed[key] / periods[key[0]],
        }
        for key, count in counts.items()
    ]


def _parts(run: Run, launch: Ran) -> tuple[list[tuple[int, int]], list[Flight]]:
    events = [e for e in simulate(run, launch.program)[launch.position] if e.line == OPS]
    segments = [launch.program.segments[event.index] for event in events]
    spans = [(event.start, event.start + event.duration) for event in events]
    placed = list(zip(segments, spans, strict=True))
    begun = {each.op: start for each, (start, _) in placed if each.what == "start"}
    compute = [span for each, span in placed if each.what == "compute"]
    flights = []
    for each, (start, end) in placed:
        if each.what in ("sync", "done"):
            key = launch.label, each.transfer.axis, each.transfer.kind, each.pair or each.op
            flights.append((begun[each.pair] if each.pair else start, end, key))
    return compute, flights
