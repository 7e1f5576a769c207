"""Closed forms of periods: what each step takes of its device, and the time between requests."""

from __future__ import annotations

from tests.synth.describe import Run
from tests.synth.host import REQUEST_LEAD_PS
from tests.synth.lanes import Span, lane
from tests.synth.programs import extra_program
from tests.synth.timeline import EXTRA_PERIOD, clock, simulate
from tests.synth.times import device_time
from tests.synth.traffic import Row

Windows = list[tuple[int | None, int, Span]]  # (request, step, window) in order of time


def extra_windows(run: Run, position: int) -> Windows:
    """Without markers the extra launches of the first device are steps."""
    if run.markers or position != run.positions[0]:
        return []
    found: Windows = []
    for step in range(run.extra_launches):
        (event,) = simulate(run, extra_program(run))[position]
        start = clock(run).extra_start + step * EXTRA_PERIOD + event.start
        found.append((None, step, (start, start + event.duration)))
    return found


def pass_windows(run: Run, position: int) -> Windows:
    """The forward passes that a device's plane holds."""
    found: Windows = []
    for each in run.passes:
        if run.saw(position, each.index):
            base = int(clock(run).step_start[each.index])
            first, last = lane(run, each.phase, position).window
            found.append((each.request, each.step, (base + first, base + last)))
    return found


def pauses(run: Run) -> list[Span]:
    """From the end of a request's own marker to the start of the next one's."""
    if not run.markers:
        return []
    times, found = clock(run), []
    for first in range(run.steps, len(run.passes), run.steps):
        start = int(times.marker_end[first - 1]) + 1
        found.append((start, max(int(times.marker_start[first]) - REQUEST_LEAD_PS, start)))
    return found


def without(span: Span, closed: list[Span]) -> list[Span]:
    """The parts of a span that lie in none of others, which are in order and apart."""
    begin, end = span
    bounds = [begin]
    for start, until in closed:
        if start < end and until > begin and start < until:
            bounds += [max(start, begin), min(until, end)]
    bounds.append(end)
    return [(a, b) for a, b in zip(bounds[::2], bounds[1::2], strict=True) if b > a]


def timed(run: Run) -> list[Row]:
    """Rows of device_time_v1 for every step, with their periods."""
    found = {}
    for position in run.positions:
        before: int | None = None
        for request, step, (start, end) in extra_windows(run, position) + pass_windows(
            run, position
        ):
            begun = start if before is None else before
            closed = sum(max(min(b, start) - max(a, begun), 0) for a, b in pauses(run))
            key = run.devices[position], request, step
            found[key] = {"period_ps": end - begun - closed, "between_requests_ps": closed}
            before = end
    rows = device_time(run)
    return [row | found[row["device_id"], row["request"], row["step"]] for row in rows]
