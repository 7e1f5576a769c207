"""Answers of idle gaps, bubbles and waits, summed over what each device does in its steps."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import lru_cache

from tests.synth.clocks import comparable
from tests.synth.describe import DATA_AXES, Run
from tests.synth.lanes import SHORT_PS, Span, gaps, lane
from tests.synth.mesh import coordinate
from tests.synth.periods import extra_windows, pauses, timed, without
from tests.synth.timeline import clock
from tests.synth.traffic import Row

CAUSES = ("device", "host", "imbalance", "pipeline", "unattributed", "between_steps")


def _data_place(run: Run, position: int) -> tuple[int, ...]:
    return tuple(coordinate(run.mesh, position, axis) for axis in run.axes if axis in DATA_AXES)


@lru_cache(maxsize=512)
def _step_gaps(run: Run, phase: str, position: int, seen: tuple[int, ...]) -> list[Counter]:
    place = _data_place(run, position)
    peers = tuple(p for p in seen if _data_place(run, p) == place)
    found = gaps(run, phase, position, peers)
    if comparable(run, [p for p in run.positions if _data_place(run, p) == place]):
        return found
    short = [causes.total() < SHORT_PS for causes in found]
    return [
        causes if is_short else Counter(unattributed=causes.total())
        for causes, is_short in zip(found, short, strict=True)
    ]


@dataclass(frozen=True)
class Step:
    """A step's window on a device, its gaps, and how long nothing of any step ran before it."""

    at: Row
    window: Span
    gaps: list[Counter]
    before: int
    masked: int


def steps(run: Run) -> list[Step]:
    """Every step of every traced device, in order of time on each."""
    found = []
    times = clock(run)
    for position in run.positions:
        end: int | None = None
        for _, step, window in extra_windows(run, position):
            at = _at(run, position, None, step)
            found.append(Step(at, window, [], 0 if end is None else window[0] - end, 0))
            end = window[1]
        for each in run.passes:
            if not run.saw(position, each.index):
                continue
            seen = tuple(p for p in run.positions if run.saw(p, each.index))
            base, (first, last) = (
                int(times.step_start[each.index]),
                lane(run, each.phase, position).window,
            )
            window = base + first, base + last
            at = _at(run, position, each.request, each.step)
            before = 0 if end is None else window[0] - end
            masked = _masked(run, each.phase, position)
            parts = _step_gaps(run, each.phase, position, seen)
            found.append(Step(at, window, parts, before, masked))
            end = window[1]
    return found


def _at(run: Run, position: int, request: int | None, step: int) -> Row:
    return {"device_id": run.devices[position], "request": request, "step": step}


def fill_drain(run: Run, found: list[Step]) -> list[int]:
    """Of each step, the time next to its window in which peers are in it; one pass has all of a device."""
    if run.size("pp") == 1 or run.scheduled_ticks:
        return [0] * len(found)
    place = {run.devices[p]: _data_place(run, p) for p in run.positions}
    spans: dict[tuple, list[Span]] = defaultdict(list)
    for step in found:
        spans[_group(place, step)].append(step.window)
    under_way = [
        (min(a for a, _ in spans[key]), max(b for _, b in spans[key]))
        for key in (_group(place, step) for step in found)
    ]
    outside = []
    for number, step in enumerate(found):
        begun, over = under_way[number]
        (start, end), device = step.window, step.at["device_id"]
        if number and found[number - 1].at["device_id"] == device:
            begun = max(begun, under_way[number - 1][1], found[number - 1].window[1])
        if number + 1 < len(found) and found[number + 1].at["device_id"] == device:
            over = min(over, found[number + 1].window[0])
        outside.append(max(start - begun, 0) + over - end)
    return outside


def _group(place: dict[int, tuple[int, ...]], step: Step) -> tuple:
    return place[step.at["device_id"]], step.at["request"], step.at["step"]


def _masked(run: Run, phase: str, position: int) -> int:
    """Compute of empty ticks where the manifest has the schedule; else stages are separate."""
    return lane(run, phase, position).masked if run.scheduled_ticks else 0


def bubble(run: Run) -> list[Row]:
    """Rows of bubble_v2."""
    rows, of_step = [], {(r["device_id"], r["request"], r["step"]): r for r in timed(run)}
    for step, outside in zip(found := steps(run), fill_drain(run, found), strict=True):
        times = of_step[tuple(step.at.values())]
        period, pause = times["period_ps"], times["between_requests_ps"]
        sums = sum(step.gaps, Counter()) + Counter(between_steps=step.before - pause)
        for cause in CAUSES:
            ours = cause == "pipeline"
            row = {"cause": cause, "idle_ps": sums[cause], "fill_drain_ps": 0, "masked_ps": 0}
            row |= {"window_ps": step.window[1] - step.window[0], "period_ps": period}
            row["between_requests_ps"] = pause
            if ours:
                row |= {"fill_drain_ps": outside, "masked_ps": step.masked}
            rows.append(step.at | row)
    return rows


def idle_gap(run: Run) -> list[Row]:
    """Rows of idle_gap_v2, without where they start."""
    rows = []
    for step in steps(run):
        start = step.window[0]
        open_pieces = without((start - step.before, start), pauses(run))
        parts = [*step.gaps, *(Counter(between_steps=b - a) for a, b in open_pieces)]
        for causes in parts:
            if causes.total() >= SHORT_PS:
                row = {f"{cause}_ps": causes[cause] for cause in CAUSES}
                rows.append(step.at | row | {"duration_ps": causes.total()})
    return rows


def sync_wait(run: Run) -> list[Row]:
    """Rows of sync_wait_v1."""
    rows: dict[tuple, list[int]] = defaultdict(list)
    for position in run.positions:
        for each in run.passes:
            if run.saw(position, each.index):
                key = run.devices[position], each.request, each.step
                for axis, length in lane(run, each.phase, position).waits:
                    rows[*key, axis].append(length)
    names = ("device_id", "request", "step", "axis")
    return [
        dict(zip(names, key, strict=True)) | {"wait_count": len(v), "sync_wait_ps": sum(v)}
        for key, v in rows.items()
    ]


def idleness(run: Run) -> dict[str, list[Row]]:
    """View -> its rows."""
    return {"bubble": bubble(run), "idle_gap": idle_gap(run), "sync_wait": sync_wait(run)}
