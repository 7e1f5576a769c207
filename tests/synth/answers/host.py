"""Answers of host_gap: gaps between launches, and the enqueues in them, one after the other."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict

from tests.synth.answers.time import ran
from tests.synth.describe import Run
from tests.synth.host import ENQUEUE_EVERY_PS, ENQUEUE_PS
from tests.synth.lanes import Span
from tests.synth.periods import pauses, without
from tests.synth.timeline import clock, step_launches
from tests.synth.traffic import Row
from tests.synth.write import processes

LEAST_PS = 10_000_000


def _enqueues(run: Run, positions: list[int]) -> list[int]:
    """When a process enqueues, in order."""
    times, found = clock(run), []
    for each in run.passes:
        launches = step_launches(run, each.phase)
        count = sum(p in launch.program.positions for launch in launches for p in positions)
        first = int(times.marker_start[each.index])
        found += [first + ENQUEUE_EVERY_PS * (k + 1) for k in range(count)]
    return sorted(found)


def _gaps(reached: int | None, start: int, closed: list[Span]) -> list[Span]:
    """The gaps before a launch: while a request is open, and long enough."""
    if reached is None or reached >= start:
        return []
    return [(a, b) for a, b in without((reached, start), closed) if b - a > LEAST_PS]


def host_gap(run: Run) -> list[Row]:
    """Rows of host_gap_v1: enqueues, and the rest of the gaps."""
    launches, closed = defaultdict(list), pauses(run)
    for each in ran(run):
        launches[each.position].append((*each.span(run), each))
    own: dict[tuple, list[int]] = defaultdict(lambda: [0, 0, 0])
    gaps: dict[str | None, int] = defaultdict(int)
    for _, _, positions in processes(run):
        handed = _enqueues(run, positions)
        for position in positions:
            reached = None
            for start, end, each in sorted(launches[position], key=lambda row: row[:2]):
                for a, b in _gaps(reached, start, closed):
                    first = bisect_right(handed, a - ENQUEUE_PS)
                    inside = handed[first : bisect_left(handed, b)]
                    if each.enqueue is None:
                        inside = []
                    spent = sum(min(t + ENQUEUE_PS, b) - max(t, a) for t in inside)
                    gaps[each.label] += 1
                    for name, count, time in (
                        ("DoEnqueueProgram", len(inside), spent),
                        (None, 0, b - a - spent),
                    ):
                        if time:
                            total = own[each.label, name]
                            total[:] = total[0] + 1, total[1] + count, total[2] + time
                reached = end if reached is None else max(end, reached)
    rows = []
    for (phase, name), (seen, events, spent) in own.items():
        whole = sum(times[2] for (other, _), times in own.items() if other == phase)
        row = {
            "phase": phase,
            "name": name,
            "gap_count": seen,
            "event_count": events,
            "self_ps": spent,
        }
        row |= {"activity": "unknown" if name is None else "enqueue"}
        row |= {"overlap_ps": None if name is None else spent, "gap_ratio": spent / whole}
        rows.append(row | {"mean_self_ps": spent / gaps[phase]})
    return rows
